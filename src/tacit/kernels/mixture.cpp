// One pass over categorical rows under a mixture of conditional tables:
//     P(row) = sum_f weights[f] * prod_n table[first[n] + row[n], f].
//
// sums: log-likelihood, class totals and table sums of one part (at most 16 blocks of 65,536 rows), blocks
// added in order. rows: the posterior of every row. A row's cells come either from a dense code matrix or
// from a ragged list; both loops are the same code.
#include "lanes.hpp"
#include "waves.hpp"
#include <cmath>

namespace {
using namespace tacit;

struct Tables {
    const double *log_weights;  // (width)
    const double *log_table;    // (table_rows, width)
    int64_t table_rows;
    int width;
};

struct Ragged {  // row i owns cells[offsets[i] .. offsets[i+1])
    const int64_t *offsets;
    const int32_t *cells;
    typedef int32_t Cell;
    TACIT_INLINE int64_t get(int64_t i, const int32_t *&at, int32_t *) const {
        at = cells + offsets[i];
        return offsets[i + 1] - offsets[i];
    }
};

template <class Code> struct Dense {  // a code at or above its column's size is missing
    const Code *codes;
    const int32_t *first;  // (columns + 1)
    int64_t columns;
    TACIT_INLINE int64_t get(int64_t i, const int32_t *&at, int32_t *scratch) const {
        const Code *row = codes + i * columns;
        int64_t count = 0;
        for (int64_t n = 0; n < columns; ++n) {
            int32_t cell = first[n] + row[n];
            scratch[count] = cell;
            count += cell < first[n + 1];
        }
        at = scratch;
        return count;
    }
};

struct Sums {
    double log_likelihood;
    double *total;      // (width)
    double *table_sum;  // (table_rows, width)
};

template <int W, int L, class Source>
TACIT_INLINE void sum_block(const Source &source, const Tables &t, const double *row_weight, int32_t *scratch,
                            int64_t begin, int64_t end, Sums &out) {
    const int width = W ? W : t.width;
    double log_likelihood = 0, product = 1;
    int pending = 0;
    Row<W, L> p;
    for (int64_t i = begin; i < end; ++i) {
        const int32_t *at;
        const int64_t count = source.get(i, at, scratch);
        p.start(t.log_weights, width);
        for (int64_t c = 0; c < count; ++c) p.add(t.log_table + (int64_t)at[c] * width);
        const double m = p.max();
        p.exp_minus(m);
        const double z = p.sum();
        if (row_weight) {
            log_likelihood += row_weight[i] * (m + std::log(z));
            p.scale(row_weight[i] / z);
        } else {
            log_likelihood += m;
            product *= z;  // z <= 1024, so 64 factors stay below the largest double
            if (++pending == 64) {
                log_likelihood += std::log(product);
                product = 1;
                pending = 0;
            }
            p.scale(1 / z);
        }
        p.add_to(out.total);
        for (int64_t c = 0; c < count; ++c) p.add_to(out.table_sum + (int64_t)at[c] * width);
    }
    out.log_likelihood = log_likelihood + std::log(product);
}

template <int W, int L, class Source>
TACIT_INLINE void rows_block(const Source &source, const Tables &t, int32_t *scratch, int64_t begin, int64_t end,
                             int classes, double *posterior, double *row_log_likelihood) {
    const int width = W ? W : t.width;
    double full[kWidest];
    Row<W, L> p;
    for (int64_t i = begin; i < end; ++i) {
        const int32_t *at;
        const int64_t count = source.get(i, at, scratch);
        p.start(t.log_weights, width);
        for (int64_t c = 0; c < count; ++c) p.add(t.log_table + (int64_t)at[c] * width);
        const double m = p.max();
        p.exp_minus(m);
        const double z = p.sum();
        p.scale(1 / z);
        p.store(full);
        std::memcpy(posterior + i * classes, full, sizeof(double) * classes);
        row_log_likelihood[i] = m + std::log(z);
    }
}

// One named function per register width: `target` cannot be a template argument.
template <int W, class... A> void sum_plain(A &&...a) { sum_block<W, 2>(a...); }
template <int W, class... A> void rows_plain(A &&...a) { rows_block<W, 2>(a...); }
#if defined(__x86_64__) && !defined(TACIT_BASELINE_ONLY)
template <int W, class... A> __attribute__((target("avx2"))) void sum_avx2(A &&...a) { sum_block<W, (W == 2 ? 2 : 4)>(a...); }
template <int W, class... A> __attribute__((target("avx2"))) void rows_avx2(A &&...a) { rows_block<W, (W == 2 ? 2 : 4)>(a...); }
const bool has_avx2 = __builtin_cpu_supports("avx2");
#define TACIT_DISPATCH(name, W, ...) (has_avx2 ? name##_avx2<W>(__VA_ARGS__) : name##_plain<W>(__VA_ARGS__))
#else
#define TACIT_DISPATCH(name, W, ...) name##_plain<W>(__VA_ARGS__)
#endif
#define TACIT_BY_WIDTH(name, ...)                            \
    switch (width) {                                         \
    case 2: TACIT_DISPATCH(name, 2, __VA_ARGS__); break;     \
    case 4: TACIT_DISPATCH(name, 4, __VA_ARGS__); break;     \
    case 8: TACIT_DISPATCH(name, 8, __VA_ARGS__); break;     \
    case 12: TACIT_DISPATCH(name, 12, __VA_ARGS__); break;   \
    case 16: TACIT_DISPATCH(name, 16, __VA_ARGS__); break;   \
    default: TACIT_DISPATCH(name, 0, __VA_ARGS__); break;    \
    }

// Returns 0, or 1 when there is no memory for the threads' buffers.
template <class Source>
int mixture_sums(const Source &source, int64_t rows, int64_t columns, const double *row_weight, const Tables &tables,
                 int threads, double *total, double *table_sum, double *log_likelihood) {
    const int width = tables.width;
    const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
    if (threads > blocks) threads = blocks > 0 ? (int)blocks : 1;
    const int64_t size = (tables.table_rows + 1) * width;
    try {
        const int64_t stride = spaced(size), cell_stride = spaced(columns + 1);
        std::vector<double> buffer(stride * threads);
        std::vector<int32_t> scratch(cell_stride * threads);
        std::vector<Sums> sums(threads);
        double log_sum = 0;
        in_waves(
            blocks, threads,
            [&](int64_t block, int slot) {
                double *mine = buffer.data() + stride * slot;
                std::memset(mine, 0, sizeof(double) * size);
                sums[slot] = {0, mine, mine + width};
                const int64_t begin = block * kBlockRows;
                const int64_t end = begin + kBlockRows < rows ? begin + kBlockRows : rows;
                int32_t *cells = scratch.data() + cell_stride * slot;
                TACIT_BY_WIDTH(sum, source, tables, row_weight, cells, begin, end, sums[slot]);
            },
            [&](int64_t, int slot) {
                log_sum += sums[slot].log_likelihood;
                const double *mine = buffer.data() + stride * slot;
                for (int c = 0; c < width; ++c) total[c] += mine[c];
                for (int64_t c = width; c < size; ++c) table_sum[c - width] += mine[c];
            });
        *log_likelihood = log_sum;
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}

template <class Source>
int mixture_rows(const Source &source, int64_t rows, int64_t columns, const Tables &tables, int classes, int threads,
                 double *posterior, double *row_log_likelihood) {
    const int width = tables.width;
    const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
    if (threads > blocks) threads = blocks > 0 ? (int)blocks : 1;
    try {
        const int64_t cell_stride = spaced(columns + 1);
        std::vector<int32_t> scratch(cell_stride * threads);
        in_waves(
            blocks, threads,
            [&](int64_t block, int slot) {
                const int64_t begin = block * kBlockRows;
                const int64_t end = begin + kBlockRows < rows ? begin + kBlockRows : rows;
                int32_t *cells = scratch.data() + cell_stride * slot;
                TACIT_BY_WIDTH(rows, source, tables, cells, begin, end, classes, posterior, row_log_likelihood);
            },
            [](int64_t, int) {});
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}
}  // namespace

#define TACIT_EXPORT extern "C" __attribute__((visibility("default"))) int

#define TACIT_SOURCE_FUNCTIONS(suffix, source_parameters, source, columns)                                            \
    TACIT_EXPORT mixture_sums_##suffix(source_parameters, int64_t rows, const double *row_weight,                     \
                                       const double *log_weights, const double *log_table, int64_t table_rows,        \
                                       int width, int threads, double *total, double *table_sum,                      \
                                       double *log_likelihood) {                                                      \
        return mixture_sums(source, rows, columns, row_weight, Tables{log_weights, log_table, table_rows, width},     \
                            threads, total, table_sum, log_likelihood);                                               \
    }                                                                                                                 \
    TACIT_EXPORT mixture_rows_##suffix(source_parameters, int64_t rows, const double *log_weights,                    \
                                       const double *log_table, int64_t table_rows, int width, int classes,           \
                                       int threads, double *posterior, double *row_log_likelihood) {                  \
        return mixture_rows(source, rows, columns, Tables{log_weights, log_table, table_rows, width}, classes,        \
                            threads, posterior, row_log_likelihood);                                                  \
    }
#define COMMA ,

TACIT_SOURCE_FUNCTIONS(ragged, const int64_t *offsets COMMA const int32_t *cells, (Ragged{offsets COMMA cells}), 0)
TACIT_SOURCE_FUNCTIONS(dense8, const uint8_t *codes COMMA const int32_t *first COMMA int64_t n_columns,
                       (Dense<uint8_t>{codes COMMA first COMMA n_columns}), n_columns)
TACIT_SOURCE_FUNCTIONS(dense16, const uint16_t *codes COMMA const int32_t *first COMMA int64_t n_columns,
                       (Dense<uint16_t>{codes COMMA first COMMA n_columns}), n_columns)
