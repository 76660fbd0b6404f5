// Passes over the rows of sparse pair counts C (CSR). A row's results are its own, so threads do not change a bit.
//
// product: out = C x
// ratios:  p_ij = left_i . right_j;  out_i = sum_j C_ij / p_ij * right_j;  value_i = sum_j C_ij log p_ij
// levels:  histogram of partners' means, each without what this very pair told (the cavity), for a likelihood in x_i
#include "waves.hpp"
#include <cmath>

namespace {
using namespace latentfit;

constexpr int64_t kRowsAtOnce = 512;  // rows of a block handed to a thread

struct Csr {
    const int64_t *starts;   // (rows + 1)
    const int32_t *columns;
    const double *counts;
    int64_t rows;
};

template <class Work> int by_rows(int64_t rows, int threads, Work work) {
    const int64_t blocks = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
    const int64_t share = threads > 0 ? (blocks + threads - 1) / threads : blocks;
    if (threads < 1) threads = 1;
    return if_there_is_room([&] {
        in_waves(
            threads, threads,
            [&](int64_t part, int) {
                const int64_t begin = part * share * kRowsAtOnce, end = (part + 1) * share * kRowsAtOnce;
                for (int64_t i = begin; i < (end < rows ? end : rows); ++i) work(i);
            },
            [](int64_t, int) {});
    });
}

// Four partial sums, folded in one fixed order: the compiler may keep them in a register of any width.
inline double dot(const double *a, const double *b, int size) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (int k = 0; k < size; k += 4) {
        s0 += a[k] * b[k];
        s1 += a[k + 1] * b[k + 1];
        s2 += a[k + 2] * b[k + 2];
        s3 += a[k + 3] * b[k + 3];
    }
    return (s0 + s1) + (s2 + s3);
}
}  // namespace

// out_i = sum_j C_ij x_j, in four partial sums of every fourth count
LATENTFIT_EXPORT pair_product(const int64_t *starts, const int32_t *columns, const double *counts, int64_t rows,
                          const double *x, int threads, double *out) {
    const Csr c{starts, columns, counts, rows};
    return by_rows(rows, threads, [=](int64_t i) {
        double s[4] = {0, 0, 0, 0};
        int64_t at = c.starts[i];
        const int64_t end = c.starts[i + 1];
        for (; at + 4 <= end; at += 4)
            for (int k = 0; k < 4; ++k) s[k] += c.counts[at + k] * x[c.columns[at + k]];
        for (int k = 0; at < end; ++at, ++k) s[k] += c.counts[at] * x[c.columns[at]];
        out[i] = (s[0] + s[1]) + (s[2] + s[3]);
    });
}

// `width` is a multiple of four; `left`, `right` and `out` are padded with zeros to it.
LATENTFIT_EXPORT pair_ratios(const int64_t *starts, const int32_t *columns, const double *counts, int64_t rows,
                         const double *left, const double *right, int width, double floor, int threads, double *out,
                         double *value) {
    const Csr c{starts, columns, counts, rows};
    return by_rows(rows, threads, [=](int64_t i) {
        const double *own = left + i * width;
        double *line = out + i * width;
        double sum = 0;
        for (int64_t at = c.starts[i]; at < c.starts[i + 1]; ++at) {
            const double *other = right + (int64_t)c.columns[at] * width;
            double p = dot(own, other, width);
            p = p > floor ? p : floor;
            const double ratio = c.counts[at] / p;
            for (int k = 0; k < width; ++k) line[k] += ratio * other[k];
            sum += c.counts[at] * std::log(p);
        }
        value[i] = sum;
    });
}

// own: (rows, 3) mean and variance of x_i, and a rate: the product of both rates is the count that independence expects
// of a pair; other: (columns, 3) those of the partners; `sign` of the product in 1 + sign x y. out (rows, levels): counts spread over the two levels next to the partner's cavity mean.
// moments (rows, 3): sums over counts of cavity partner * cavity own, cavity partner, cavity own.
LATENTFIT_EXPORT pair_levels(const int64_t *starts, const int32_t *columns, const double *counts, int64_t rows,
                         const double *own, const double *other, double sign, double low, double high, double own_low,
                         double own_high, int levels, double least, int threads, double *out, double *moments) {
    const Csr c{starts, columns, counts, rows};
    return by_rows(rows, threads, [=](int64_t i) {
        const double x = own[3 * i], v = own[3 * i + 1], rate = own[3 * i + 2], step = (levels - 1) / (high - low);
        double *line = out + i * levels;
        double both = 0, theirs = 0, ours = 0;
        for (int64_t at = c.starts[i]; at < c.starts[i + 1]; ++at) {
            const double *partner = other + 3 * (int64_t)c.columns[at];
            const double n = c.counts[at], y = partner[0];
            double p = 1 + sign * x * y;
            p = p > least ? p : least;
            // first order of taking n log(1 + sign x y) - e (1 + sign x y) out of the posterior of y, and of x: without
            // e, the count that independence expects, a frequent pair would take far more than it told
            const double share = sign * (n / p - rate * partner[2]);
            double a = y - share * partner[1] * x, b = x - share * v * y;
            b = b < own_low ? own_low : b > own_high ? own_high : b;
            a = a < low ? low : a > high ? high : a;
            both += n * a * b;
            theirs += n * a;
            ours += n * b;
            const double place = (a - low) * step;
            int k = (int)place;
            k = k > levels - 2 ? levels - 2 : k;
            const double part = n * (place - k);
            line[k] += n - part;
            line[k + 1] += part;
        }
        moments[3 * i] = both;
        moments[3 * i + 1] = theirs;
        moments[3 * i + 2] = ours;
    });
}
