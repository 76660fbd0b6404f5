// One pass over SNP-major genotypes under the binomial admixture model
//     allele count of person i at SNP j ~ Binomial(2, p_ij),   p_ij = sum_k Q[i, k] F[j, k].
//
// step: one Newton step in every SNP's frequencies inside their box, never downhill. curvature: gradient and negative
// Hessian in each person's row of Q, of the log-likelihood or of the least-squares objective. A code of 3 is a missing
// call and adds nothing. Vectors hold four persons, so a person's sums do not depend on the company; blocks of SNPs are
// added in order, so threads do not change a bit.
#include "lanes.hpp"
#include "waves.hpp"
#include <cmath>

namespace {
using namespace latentfit;

constexpr int64_t kBlockSnps = 256;    // SNPs of a block: the unit whose sums are added in order
constexpr int64_t kCurveTile = 64;     // persons whose Q and Hessians stay in the first cache beside a block
constexpr int kMostPopulations = 64;
constexpr int kBeforeScaling = 8;      // factors p^g (1-p)^(2-g) >= 1e-18 multiplied before exponents are taken off
constexpr int kSweeps = 100, kHalvings = 8;
constexpr double kSettled = 1e-12;     // no frequency moved by more in a sweep: the step is found
constexpr double kShort = 0.25;        // sums of logarithms are self-concordant: a shorter Newton step cannot fall
constexpr double kLog2 = 0.693147180559945309417232121458176568;

struct Panel {
    const uint8_t *calls;   // (SNPs, persons)
    int64_t persons, padded;
    LATENTFIT_INLINE const uint8_t *row(int64_t j) const { return calls + j * persons; }
};

struct Model {
    const double *shares;       // Q transposed: (populations, padded)
    const double *frequencies;  // F: (SNPs, populations)
    int populations;
};

// Four persons in 4 / L registers.
template <int L> struct Four {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::i I;
    typedef typename Vec<L>::u U;
    static constexpr int R = 4 / L;
    F v[R];

    LATENTFIT_INLINE static Four of(double x) { Four a; for (int r = 0; r < R; ++r) a.v[r] = (F){} + x; return a; }
    LATENTFIT_INLINE static Four load(const double *p) {
        Four a;
        for (int r = 0; r < R; ++r) a.v[r] = *(const U *)(p + r * L);
        return a;
    }
    LATENTFIT_INLINE void store(double *p) const { for (int r = 0; r < R; ++r) *(U *)(p + r * L) = v[r]; }
#define LATENTFIT_FOUR(op)                                                                                                \
    LATENTFIT_INLINE friend Four operator op(const Four &a, const Four &b) {                                              \
        Four c;                                                                                                       \
        for (int r = 0; r < R; ++r) c.v[r] = a.v[r] op b.v[r];                                                        \
        return c;                                                                                                     \
    }
    LATENTFIT_FOUR(+) LATENTFIT_FOUR(-) LATENTFIT_FOUR(*) LATENTFIT_FOUR(/)
#undef LATENTFIT_FOUR
    // where(x > t, a, b)
    LATENTFIT_INLINE static Four above(const Four &x, double t, const Four &a, const Four &b) {
        Four c;
        for (int r = 0; r < R; ++r) c.v[r] = x.v[r] > (F){} + t ? a.v[r] : b.v[r];
        return c;
    }
    LATENTFIT_INLINE double sum() const { return fold_all<L>(v); }
};

// A running product kept in range: exponents are counted apart.
template <int L> struct Product {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::i I;
    static constexpr int R = 4 / L;
    Four<L> mantissa;
    I exponent[R];

    LATENTFIT_INLINE void start() { mantissa = Four<L>::of(1.0); for (int r = 0; r < R; ++r) exponent[r] = (I){}; }
    LATENTFIT_INLINE void scale() {
        for (int r = 0; r < R; ++r) {
            I bits = (I)mantissa.v[r];
            exponent[r] += (bits >> 52) - 1023;
            mantissa.v[r] = (F)((bits & 0xfffffffffffffLL) | 0x3ff0000000000000LL);
        }
    }
    LATENTFIT_INLINE double log(int lane) const {
        return (double)exponent[lane / L][lane % L] * kLog2 + std::log(mantissa.v[lane / L][lane % L]);
    }
    LATENTFIT_INLINE double total() const {
        int64_t exponents = 0;
        double product = 1;
        for (int lane = 0; lane < 4; ++lane) {
            exponents += exponent[lane / L][lane % L];
            product *= mantissa.v[lane / L][lane % L];
        }
        return (double)exponents * kLog2 + std::log(product);
    }
};

// Allele counts of four persons as numbers; 3 beyond the last person and for a missing call.
template <int L> LATENTFIT_INLINE Four<L> counts_at(const uint8_t *row, int64_t i, int64_t persons) {
    uint8_t four[4] = {3, 3, 3, 3};
    if (i + 4 <= persons) std::memcpy(four, row + i, 4);
    else std::memcpy(four, row + i, persons - i);
    Four<L> g;
    if constexpr (L == 4) {
        typedef uint8_t B __attribute__((vector_size(4)));
        typedef int32_t W __attribute__((vector_size(16)));
        B bytes;
        std::memcpy(&bytes, four, 4);
        g.v[0] = __builtin_convertvector(__builtin_convertvector(bytes, W), typename Vec<4>::f);
    } else {
        for (int lane = 0; lane < 4; ++lane) g.v[lane / L][lane % L] = four[lane];
    }
    return g;
}

// What a call says: alleles of either kind (none when missing), and the factor it adds to the likelihood.
template <int L> struct Call {
    Four<L> one, other, factor;
    LATENTFIT_INLINE Call(const Four<L> &g, const Four<L> &p, const Four<L> &q) {
        const Four<L> none = Four<L>::of(0.0);
        one = Four<L>::above(g, 2.5, none, g);
        other = Four<L>::above(g, 2.5, none, Four<L>::of(2.0) - g);
        factor = Four<L>::above(g, 2.5, Four<L>::of(1.0), Four<L>::above(g, 0.5, p, q) * Four<L>::above(g, 1.5, p, q));
    }
};

// ------------------------------------------------------- a Newton step in every SNP's row of F

struct StepSums {
    double *next;            // (SNPs, populations): frequencies after the step
    double log_likelihood;   // of the block at the given frequencies
    double floor;            // frequencies stay in [floor, 1 - floor]
};

// Log-likelihood of one SNP at frequencies f.
template <int K, int L>
LATENTFIT_INLINE double snp_log_likelihood(const Panel &panel, const Model &model, const uint8_t *row, const double *f) {
    typedef Four<L> V;
    const int n = K ? K : model.populations;
    Product<L> product;
    product.start();
    int factors = 0;
    for (int64_t i = 0; i < panel.padded; i += 4) {
        V p = V::load(model.shares + i) * V::of(f[0]);
        for (int k = 1; k < n; ++k) p = p + V::load(model.shares + k * panel.padded + i) * V::of(f[k]);
        product.mantissa = product.mantissa * Call<L>(counts_at<L>(row, i, panel.persons), p, V::of(1.0) - p).factor;
        if (++factors % kBeforeScaling == 0) product.scale();
    }
    product.scale();
    return product.total();
}

// The minimum of ½ d'Hd - g'd with x + d in [floor, 1 - floor], by coordinate descent; x + d replaces `next`.
template <int K>
LATENTFIT_INLINE void box_minimum(const double *hessian, double *g, const double *x, double floor, int n, double *next) {
    for (int k = 0; k < n; ++k) next[k] = x[k];
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
        double most = 0;
        for (int k = 0; k < n; ++k) {
            const double *row = hessian + k * n;
            if (row[k] <= 0) continue;  // nobody with a call descends from this population: nothing learnt
            double to = next[k] + g[k] / row[k];
            to = to < floor ? floor : to > 1 - floor ? 1 - floor : to;
            const double change = to - next[k];
            next[k] = to;
            for (int l = 0; l < n; ++l) g[l] -= row[l] * change;
            most = std::fabs(change) > most ? std::fabs(change) : most;
        }
        if (most < kSettled) break;
    }
}

template <int K, int L>
LATENTFIT_INLINE void step_block(const Panel &panel, const Model &model, int64_t begin, int64_t end, StepSums &out) {
    typedef Four<L> V;
    constexpr int most = K ? K : kMostPopulations;
    const int n = K ? K : model.populations;
    double hessian[most * most], gradient[most];
    for (int64_t j = begin; j < end; ++j) {
        const uint8_t *row = panel.row(j);
        const double *f = model.frequencies + j * n;
        V slopes[most], bends[most * (most + 1) / 2];
        for (int k = 0; k < n; ++k) slopes[k] = V::of(0.0);
        for (int at = 0; at < n * (n + 1) / 2; ++at) bends[at] = V::of(0.0);
        Product<L> product;
        product.start();
        int factors = 0;
        for (int64_t i = 0; i < panel.padded; i += 4) {
            V share[most];
            share[0] = V::load(model.shares + i);
            V p = share[0] * V::of(f[0]);
            for (int k = 1; k < n; ++k) {
                share[k] = V::load(model.shares + k * panel.padded + i);
                p = p + share[k] * V::of(f[k]);
            }
            const V rest = V::of(1.0) - p;
            const Call<L> call(counts_at<L>(row, i, panel.persons), p, rest);
            const V inverse = V::of(1.0) / (p * rest), a = rest * inverse, b = p * inverse;
            const V one = call.one * a, other = call.other * b, slope = one - other, bend = one * a + other * b;
            product.mantissa = product.mantissa * call.factor;
            if (++factors % kBeforeScaling == 0) product.scale();
            for (int k = 0, at = 0; k < n; ++k) {
                slopes[k] = slopes[k] + share[k] * slope;
                const V bent = share[k] * bend;
                for (int l = 0; l <= k; ++l, ++at) bends[at] = bends[at] + bent * share[l];
            }
        }
        product.scale();
        const double before = product.total();
        for (int k = 0, at = 0; k < n; ++k) {
            gradient[k] = slopes[k].sum();
            for (int l = 0; l <= k; ++l, ++at) hessian[k * n + l] = hessian[l * n + k] = bends[at].sum();
        }
        double *next = out.next + j * n;
        box_minimum<K>(hessian, gradient, f, out.floor, n, next);
        double length = 0;  // of the step in its own metric, squared
        for (int k = 0; k < n; ++k)
            for (int l = 0; l < n; ++l) length += hessian[k * n + l] * (next[k] - f[k]) * (next[l] - f[l]);
        if (length > kShort)
            for (int halving = 0; snp_log_likelihood<K, L>(panel, model, row, next) < before; ++halving) {
                for (int k = 0; k < n; ++k) next[k] = halving < kHalvings ? 0.5 * (f[k] + next[k]) : f[k];
                if (halving == kHalvings) break;  // Newton leapt too far: half the way, in the end none
            }
        out.log_likelihood += before;
    }
}

// ------------------------------------------------- curvature in every person's row of Q

struct CurveSums {
    double *gradient;   // (populations, padded)
    double *hessian;    // (populations (populations + 1) / 2, padded): minus the second derivatives, lower triangle
    double *value;      // (padded): log-likelihood, or minus half the squares
};

template <int K, int L>
LATENTFIT_INLINE void curve_block(const Panel &panel, const Model &model, bool squares, int64_t begin, int64_t end,
                              CurveSums &out) {
    typedef Four<L> V;
    const int n = K ? K : model.populations;
    const int64_t padded = panel.padded;
    Product<L> products[kCurveTile / 4];
    double pairs[(K ? K * (K + 1) : kMostPopulations * (kMostPopulations + 1)) / 2];
    for (int64_t from = 0; from < padded; from += kCurveTile) {
        const int64_t to = from + kCurveTile < padded ? from + kCurveTile : padded;
        for (auto &product : products) product.start();
        for (int64_t j = begin; j < end; ++j) {
            const uint8_t *row = panel.row(j);
            const double *f = model.frequencies + j * n;
            for (int k = 0, at = 0; k < n; ++k)
                for (int l = 0; l <= k; ++l) pairs[at++] = f[k] * f[l];
            for (int64_t i = from; i < to; i += 4) {
                V p = V::load(model.shares + i) * V::of(f[0]);
                for (int k = 1; k < n; ++k) p = p + V::load(model.shares + k * padded + i) * V::of(f[k]);
                const V g = counts_at<L>(row, i, panel.persons);
                V slope, bend;
                if (squares) {
                    const V none = V::of(0.0), left = V::above(g, 2.5, none, g * V::of(0.5) - p);
                    slope = left;
                    bend = V::above(g, 2.5, none, V::of(1.0));
                    (V::load(out.value + i) - V::of(0.5) * left * left).store(out.value + i);
                } else {
                    const V rest = V::of(1.0) - p;
                    const Call<L> call(g, p, rest);
                    const V inverse = V::of(1.0) / (p * rest);
                    const V a = rest * inverse, b = p * inverse;
                    slope = call.one * a - call.other * b;
                    bend = call.one * a * a + call.other * b * b;
                    Product<L> &product = products[(i - from) / 4];
                    product.mantissa = product.mantissa * call.factor;
                    product.scale();
                }
                for (int k = 0; k < n; ++k) {
                    double *sum = out.gradient + k * padded + i;
                    (V::load(sum) + V::of(f[k]) * slope).store(sum);
                }
                for (int at = 0; at < n * (n + 1) / 2; ++at) {
                    double *sum = out.hessian + at * padded + i;
                    (V::load(sum) + V::of(pairs[at]) * bend).store(sum);
                }
            }
        }
        if (!squares)
            for (int64_t i = from; i < to; ++i) out.value[i] += products[(i - from) / 4].log((i - from) % 4);
    }
}

LATENTFIT_PATHS(step, step_block, 4)
LATENTFIT_PATHS(curve, curve_block, 4)
#define LATENTFIT_BY_POPULATIONS(name, ...)                   \
    switch (model.populations) {                          \
    case 2: LATENTFIT_DISPATCH(name, 2, __VA_ARGS__); break;  \
    case 3: LATENTFIT_DISPATCH(name, 3, __VA_ARGS__); break;  \
    case 4: LATENTFIT_DISPATCH(name, 4, __VA_ARGS__); break;  \
    case 5: LATENTFIT_DISPATCH(name, 5, __VA_ARGS__); break;  \
    case 6: LATENTFIT_DISPATCH(name, 6, __VA_ARGS__); break;  \
    default: LATENTFIT_DISPATCH(name, 0, __VA_ARGS__); break; \
    }

// Walks blocks on threads; `run(begin, end, buffer)` fills a zeroed buffer, `take(buffer)` adds it, block after block.
template <class Run, class Take> int walk(int64_t snps, int64_t size, int threads, Run run, Take take) {
    const int64_t blocks = (snps + kBlockSnps - 1) / kBlockSnps;
    if (threads > blocks) threads = blocks > 0 ? (int)blocks : 1;
    return if_there_is_room([&] {
        const int64_t stride = spaced(size);
        std::vector<double> buffer(stride * threads);
        in_waves(
            blocks, threads,
            [&](int64_t block, int slot) {
                double *mine = buffer.data() + stride * slot;
                std::memset(mine, 0, sizeof(double) * size);
                const int64_t begin = block * kBlockSnps;
                run(begin, begin + kBlockSnps < snps ? begin + kBlockSnps : snps, mine);
            },
            [&](int64_t, int slot) { take(buffer.data() + stride * slot); });
    });
}
}  // namespace

LATENTFIT_EXPORT admixture_step(const uint8_t *calls, int64_t snps, int64_t persons, int64_t padded, const double *shares,
                            const double *frequencies, int populations, double floor, int threads, double *next,
                            double *log_likelihood) {
    const Panel panel{calls, persons, padded};
    const Model model{shares, frequencies, populations};
    return walk(
        snps, 1, threads,
        [&](int64_t begin, int64_t end, double *mine) {
            StepSums sums{next, 0, floor};
            LATENTFIT_BY_POPULATIONS(step, panel, model, begin, end, sums);
            mine[0] = sums.log_likelihood;
        },
        [&](const double *mine) { *log_likelihood += mine[0]; });
}

LATENTFIT_EXPORT admixture_curvature(const uint8_t *calls, int64_t snps, int64_t persons, int64_t padded,
                                 const double *shares, const double *frequencies, int populations, int squares,
                                 int threads, double *sums) {
    const Panel panel{calls, persons, padded};
    const Model model{shares, frequencies, populations};
    const int64_t triangle = (int64_t)populations * (populations + 1) / 2, size = (populations + triangle + 1) * padded;
    return walk(
        snps, size, threads,
        [&](int64_t begin, int64_t end, double *mine) {
            CurveSums out{mine, mine + populations * padded, mine + (populations + triangle) * padded};
            LATENTFIT_BY_POPULATIONS(curve, panel, model, squares != 0, begin, end, out);
        },
        [&](const double *mine) { for (int64_t at = 0; at < size; ++at) sums[at] += mine[at]; });
}
