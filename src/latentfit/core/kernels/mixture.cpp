// One pass over categorical rows under a mixture of conditional tables:
//     P(row) = sum_f weights[f] * prod_n table[first[n] + row[n], f].
//
// sums: log-likelihood, class totals and table sums of one part (at most 16 blocks of 65,536 rows), blocks
// added in order. rows: the posterior of every row. A row's cells come either from a dense code matrix or
// from a ragged list; a row adds its cells in order in both. Codes of a dense row may stand for several columns each
// (packed.hpp): the table is then spread before the pass, and the sums of every block gathered.
// One walk serves both: what scores a row in registers is compiled once for each width.
#include "lanes.hpp"
#include "packed.hpp"
#include "waves.hpp"
#include <cmath>

namespace {
using namespace latentfit;

struct Tables {
    const double *log_weights;  // (width)
    const double *log_table;    // (table_rows, width)
    int64_t table_rows;
    int width;
};

struct Given {  // the same as the caller holds it: no padding
    const double *log_weights;  // (classes)
    const double *log_table;    // (table_rows, classes)
    int64_t table_rows;
    int classes;
};

// A class that only pads the vectors has this log-weight: clamped to exp(-708), too small for any sum to see.
constexpr double kPad = -1e30;
LATENTFIT_INLINE int width_of(int classes) { return classes <= 2 ? 2 : (classes + 3) / 4 * 4; }

// Both in rows of a width that the vectors want, from `to` on.
LATENTFIT_INLINE Tables padded(const Given &given, double *to) {
    const int width = width_of(given.classes);
    const Tables tables{to, to + width, given.table_rows, width};
    for (int c = 0; c < width; ++c) to[c] = c < given.classes ? given.log_weights[c] : kPad;
    const double *from = given.log_table;
    for (int64_t r = 0; r < given.table_rows; ++r, from += given.classes) {
        to += width;
        std::memcpy(to, from, sizeof(double) * given.classes);
        for (int c = given.classes; c < width; ++c) to[c] = 0;
    }
    return tables;
}

struct Ragged {  // row i owns cells[offsets[i] .. offsets[i+1])
    const int64_t *offsets;
    const int32_t *cells;
    typedef int32_t Cell;
    LATENTFIT_INLINE int64_t get(int64_t i, const int32_t *&at) const {
        at = cells + offsets[i];
        return offsets[i + 1] - offsets[i];
    }
};

template <class Code> struct Dense {  // a code at or above its column's size is missing
    const Code *codes;
    const int32_t *first;  // (columns + 1)
    int64_t columns;
    Packed packed;  // number 0: every code is one column's
};

// Dense rows are walked in batches, column by column: what a column needs then stays in the first cache, however
// large the whole table is. Every row still adds its columns in order, so the bits do not depend on the batch.
constexpr int64_t kBatchNumbers = 2048, kFewestRows = 8;
LATENTFIT_INLINE int64_t batch_rows(int width) {
    const int64_t rows = kBatchNumbers / width;
    return rows < kFewestRows ? kFewestRows : rows;
}
LATENTFIT_INLINE int64_t room_of(int width) { return (batch_rows(width) + 2) * width; }  // two rows for gaps

// What a block leaves: its sums or, where `posterior` is not null, the posteriors of its rows.
struct Result {
    double *total, *table_sum;               // (width), (table_rows, width)
    double *posterior, *row_log_likelihood;  // (rows, classes), (rows)
    int classes;
    double log_likelihood;
};

// Turns exp(score - m) of a row into its posterior; the logarithms of the normalisers are taken 64 at a time.
struct Likelihood {
    double sum = 0, product = 1;
    int pending = 0;
    template <class R> LATENTFIT_INLINE void settle(R &p, double m, const double *row_weight, int64_t i) {
        const double z = p.sum();
        if (row_weight) {
            sum += row_weight[i] * (m + std::log(z));
            p.scale(row_weight[i] / z);
            return;
        }
        sum += m;
        product *= z;  // z <= 1024, so 64 factors stay below the largest double
        if (++pending == 64) {
            sum += std::log(product);
            product = 1;
            pending = 0;
        }
        p.scale(1 / z);
    }
    LATENTFIT_INLINE double total() const { return sum + std::log(product); }
};

template <class R> LATENTFIT_INLINE void keep_row(R &p, double m, int64_t i, const Result &out) {
    double full[kWidest];
    const double z = p.sum();
    p.scale(1 / z);
    p.store(full);
    std::memcpy(out.posterior + i * out.classes, full, sizeof(double) * out.classes);
    out.row_log_likelihood[i] = m + std::log(z);
}

// exp(score - largest score) of a ragged row, and the largest.
template <class R>
LATENTFIT_INLINE double exp_cells(R &p, const int32_t *at, int64_t count, const Tables &t, int width) {
    p.start(t.log_weights, width);
    for (int64_t c = 0; c < count; ++c) p.add(t.log_table + (int64_t)at[c] * width);
    const double largest = p.max();
    p.exp_minus(largest);
    return largest;
}

template <int W, int L>
LATENTFIT_INLINE void take_block(const Ragged &source, const Tables &t, const double *row_weight, double *, int64_t begin,
                             int64_t end, Result &out) {
    const int width = W ? W : t.width;
    Likelihood likelihood;
    Row<W, L> p;
    for (int64_t i = begin; i < end; ++i) {
        const int32_t *at;
        const int64_t count = source.get(i, at);
        const double m = exp_cells(p, at, count, t, width);
        if (out.posterior) {
            keep_row(p, m, i, out);
            continue;
        }
        likelihood.settle(p, m, row_weight, i);
        p.add_to(out.total);
        for (int64_t c = 0; c < count; ++c) p.add_to(out.table_sum + (int64_t)at[c] * width);
    }
    out.log_likelihood = likelihood.total();
}

// Several columns at a time, in order: a row's scores are read and written less often, and a sum that two rows running
// add to has time to settle.
constexpr int kColumns = 4;
template <int W, int L, int N>
LATENTFIT_INLINE void add_rows(double *to, const double *start, const double *const (&from)[N], int width) {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::u U;
    for (int c = 0; c < (W ? W : width); c += L) {
        F sum = *(const U *)(start + c);
        for (int j = 0; j < N; ++j) sum += *(const U *)(from[j] + c);
        *(U *)(to + c) = sum;
    }
}
template <int W, int L, int N> LATENTFIT_INLINE void add_to_rows(double *const (&to)[N], const double *from, int width) {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::u U;
    for (int c = 0; c < (W ? W : width); c += L) {
        const F value = *(const U *)(from + c);
        for (int j = 0; j < N; ++j) *(U *)(to[j] + c) += value;
    }
}

// One column of the table; a code that it does not have leads to `otherwise`.
template <class Code, class Number> struct ColumnOf {
    Number *rows, *otherwise;
    int32_t size;
    int64_t width;
    LATENTFIT_INLINE Number *at(Code code) const { return code < size ? rows + (int64_t)code * width : otherwise; }
};
template <class Code, class Number>
LATENTFIT_INLINE ColumnOf<Code, Number> column_of(const Dense<Code> &source, int64_t n, Number *table, Number *otherwise,
                                              int width) {
    return {table + (int64_t)source.first[n] * width, otherwise, source.first[n + 1] - source.first[n], width};
}

// Columns n .. n + N of rows begin..end: each adds its log-table rows to the scores, which begin as the log-weights, or
// the posteriors to its sums.
template <int W, int L, int N, class Code>
LATENTFIT_INLINE void score_columns(const Dense<Code> &source, int64_t n, const Tables &t, const double *zeros,
                                int64_t begin, int64_t end, double *score) {
    const int width = W ? W : t.width;
    ColumnOf<Code, const double> column[N];
    for (int j = 0; j < N; ++j) column[j] = column_of(source, n + j, t.log_table, zeros, width);
    const Code *code = source.codes + begin * source.columns + n;
    for (int64_t i = begin; i < end; ++i, code += source.columns, score += width) {
        const double *from[N];
        for (int j = 0; j < N; ++j) from[j] = column[j].at(code[j]);
        add_rows<W, L, N>(score, n ? score : t.log_weights, from, width);
    }
}
template <int W, int L, int N, class Code>
LATENTFIT_INLINE void tally_columns(const Dense<Code> &source, int64_t n, double *table_sum, double *unseen, int width,
                                int64_t begin, int64_t end, const double *posterior) {
    ColumnOf<Code, double> column[N];
    for (int j = 0; j < N; ++j) column[j] = column_of(source, n + j, table_sum, unseen, width);
    const Code *code = source.codes + begin * source.columns + n;
    for (int64_t i = begin; i < end; ++i, code += source.columns, posterior += width) {
        double *to[N];
        for (int j = 0; j < N; ++j) to[j] = column[j].at(code[j]);
        add_to_rows<W, L, N>(to, posterior, width);
    }
}

// exp(score - largest score) for a batch of rows, the largest kept. The exponentials wait for nothing of one another,
// so the processor runs many at a time; inside one row each would wait for the last step of the one before.
template <int W, int L> LATENTFIT_INLINE void exp_rows(double *scores, int64_t rows, int width, double *largest) {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::u U;
    Row<W, L> p;
    for (int64_t i = 0; i < rows; ++i) {
        double *score = scores + i * (W ? W : width);
        p.start(score, width);
        largest[i] = p.max();
    }
    for (int64_t i = 0; i < rows; ++i) {
        double *score = scores + i * (W ? W : width);
        for (int c = 0; c < (W ? W : width); c += L) {
            const F x = *(const U *)(score + c) - largest[i];
            *(U *)(score + c) = exp_nonpositive<L>(x);
        }
    }
}

// The scores of rows begin..end: log-weights plus the log-table rows of their cells; a gap adds zeros.
template <int W, int L, class Code>
LATENTFIT_INLINE void score_rows(const Dense<Code> &source, const Tables &t, const double *zeros, int64_t begin,
                             int64_t end, double *scores) {
    const int width = W ? W : t.width;
    if (!source.columns)
        for (int64_t i = begin; i < end; ++i)
            std::memcpy(scores + (i - begin) * width, t.log_weights, sizeof(double) * width);
    int64_t n = 0;
    for (; n + kColumns <= source.columns; n += kColumns)
        score_columns<W, L, kColumns>(source, n, t, zeros, begin, end, scores);
    for (; n < source.columns; ++n) score_columns<W, L, 1>(source, n, t, zeros, begin, end, scores);
}

template <int W, int L, class Code>
LATENTFIT_INLINE void take_block(const Dense<Code> &source, const Tables &t, const double *row_weight, double *room,
                             int64_t begin, int64_t end, Result &out) {
    const int width = W ? W : t.width;
    double *zeros = room, *unseen = room + width, *scores = room + 2 * width, largest[kBatchNumbers / 2];
    std::memset(zeros, 0, sizeof(double) * width);
    Likelihood likelihood;
    Row<W, L> p, total;
    total.start(out.total, width);
    for (int64_t from = begin; from < end; from += batch_rows(width)) {
        const int64_t to = from + batch_rows(width) < end ? from + batch_rows(width) : end;
        score_rows<W, L>(source, t, zeros, from, to, scores);
        exp_rows<W, L>(scores, to - from, width, largest);
        for (int64_t i = from; i < to; ++i) {
            double *score = scores + (i - from) * width;
            p.start(score, width);
            if (out.posterior) {
                keep_row(p, largest[i - from], i, out);
                continue;
            }
            likelihood.settle(p, largest[i - from], row_weight, i);
            p.store(score);
            total.add(score);
        }
        if (out.posterior) continue;
        int64_t n = 0;
        for (; n + kColumns <= source.columns; n += kColumns)
            tally_columns<W, L, kColumns>(source, n, out.table_sum, unseen, width, from, to, scores);
        for (; n < source.columns; ++n)
            tally_columns<W, L, 1>(source, n, out.table_sum, unseen, width, from, to, scores);
    }
    total.store(out.total);
    out.log_likelihood = likelihood.total();
}

LATENTFIT_PATHS(take, take_block, (W == 2 ? 2 : 4))
LATENTFIT_PATHS(spread, spread_states, (W == 2 ? 2 : 4))
LATENTFIT_PATHS(gather, gather_states, (W == 2 ? 2 : 4))
#define LATENTFIT_BY_WIDTH(name, ...)                            \
    switch (width) {                                         \
    case 2: LATENTFIT_DISPATCH(name, 2, __VA_ARGS__); break;     \
    case 4: LATENTFIT_DISPATCH(name, 4, __VA_ARGS__); break;     \
    case 8: LATENTFIT_DISPATCH(name, 8, __VA_ARGS__); break;     \
    case 12: LATENTFIT_DISPATCH(name, 12, __VA_ARGS__); break;   \
    case 16: LATENTFIT_DISPATCH(name, 16, __VA_ARGS__); break;   \
    default: LATENTFIT_DISPATCH(name, 0, __VA_ARGS__); break;    \
    }

// The table that a source's cells point into.
LATENTFIT_INLINE const Packed *packed_in(const Ragged &) { return nullptr; }
template <class Code> LATENTFIT_INLINE const Packed *packed_in(const Dense<Code> &source) {
    return source.packed.number ? &source.packed : nullptr;
}
LATENTFIT_INLINE int64_t rows_pointed(const Given &given, const Packed *packed) {
    return packed ? packed->first[packed->number] : given.table_rows;
}
inline Tables pointed(const Given &given, const Packed *packed, double *cells, double *states) {
    Tables tables = padded(given, cells);
    const int width = tables.width;
    if (!packed) return tables;
    LATENTFIT_BY_WIDTH(spread, *packed, tables.log_table, states, width);
    return {tables.log_weights, states, rows_pointed(given, packed), width};
}

// Sums are added to `total` and `table_sum`; with a `posterior` nothing is summed.
template <class Source>
int mixture_pass(const Source &source, int64_t rows, const double *row_weight, const Given &given, int threads,
                 double *total, double *table_sum, double *log_likelihood, double *posterior,
                 double *row_log_likelihood) {
    const int width = width_of(given.classes);
    const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
    if (threads > blocks) threads = blocks > 0 ? (int)blocks : 1;
    const Packed *packed = packed_in(source);
    const int64_t pointed_size = (rows_pointed(given, packed) + 1) * width, numbers = (given.table_rows + 1) * width;
    const int64_t size = posterior ? width : pointed_size, stride = spaced(size);
    const int64_t whole = spaced(numbers), spread = spaced(pointed_size), room = spaced(room_of(width));
    return if_there_is_room([&] {
        const Room all(whole + (packed ? spread + whole : 0) + (stride + room) * threads);
        double *buffers = all.data + whole, *states = nullptr, *cells = nullptr;
        if (packed) states = buffers, cells = states + spread, buffers = cells + whole;
        const Tables tables = pointed(given, packed, all.data, states);
        std::vector<Result> results(threads);
        double log_sum = 0;
        in_waves(
            blocks, threads,
            [&](int64_t block, int slot) {
                double *mine = buffers + (stride + room) * slot;
                std::memset(mine, 0, sizeof(double) * size);
                results[slot] = {mine, mine + width, posterior, row_log_likelihood, given.classes, 0};
                const int64_t begin = block * kBlockRows;
                const int64_t end = begin + kBlockRows < rows ? begin + kBlockRows : rows;
                LATENTFIT_BY_WIDTH(take, source, tables, row_weight, mine + stride, begin, end, results[slot]);
            },
            [&](int64_t, int slot) {
                if (posterior) return;
                log_sum += results[slot].log_likelihood;
                double *from = results[slot].table_sum, *to = table_sum;
                for (int c = 0; c < given.classes; ++c) total[c] += results[slot].total[c];
                if (packed) {
                    std::memset(cells, 0, sizeof(double) * numbers);
                    LATENTFIT_BY_WIDTH(gather, *packed, from, cells, width);
                    from = cells;
                }
                for (int64_t r = 0; r < given.table_rows; ++r, from += width, to += given.classes)
                    for (int c = 0; c < given.classes; ++c) to[c] += from[c];
            });
        if (!posterior) *log_likelihood = log_sum;
    });
}
}  // namespace

#define LATENTFIT_SOURCE_FUNCTIONS(suffix, source_parameters, source)                                                     \
    LATENTFIT_EXPORT mixture_sums_##suffix(source_parameters, int64_t rows, const double *row_weight,                     \
                                       const double *log_weights, const double *log_table, int64_t table_rows,        \
                                       int classes, int threads, double *total, double *table_sum,                    \
                                       double *log_likelihood) {                                                      \
        return mixture_pass(source, rows, row_weight, Given{log_weights, log_table, table_rows, classes}, threads,    \
                            total, table_sum, log_likelihood, nullptr, nullptr);                                      \
    }                                                                                                                 \
    LATENTFIT_EXPORT mixture_rows_##suffix(source_parameters, int64_t rows, const double *log_weights,                    \
                                       const double *log_table, int64_t table_rows, int classes, int threads,         \
                                       double *posterior, double *row_log_likelihood) {                               \
        return mixture_pass(source, rows, nullptr, Given{log_weights, log_table, table_rows, classes}, threads,       \
                            nullptr, nullptr, nullptr, posterior, row_log_likelihood);                                \
    }
#define COMMA ,

LATENTFIT_SOURCE_FUNCTIONS(ragged, const int64_t *offsets COMMA const int32_t *cells, (Ragged{offsets COMMA cells}))
#define LATENTFIT_DENSE(Code)                                                                                      \
    const Code *codes COMMA const int32_t *first COMMA int64_t n_columns COMMA const int32_t *sizes COMMA      \
        const int32_t *states COMMA const int32_t *groups
#define LATENTFIT_DENSE_SOURCE(Code) \
    (Dense<Code>{codes COMMA first COMMA n_columns COMMA{sizes COMMA states COMMA groups COMMA first COMMA groups ? n_columns : 0}})
LATENTFIT_SOURCE_FUNCTIONS(dense8, LATENTFIT_DENSE(uint8_t), LATENTFIT_DENSE_SOURCE(uint8_t))
LATENTFIT_SOURCE_FUNCTIONS(dense16, LATENTFIT_DENSE(uint16_t), LATENTFIT_DENSE_SOURCE(uint16_t))
