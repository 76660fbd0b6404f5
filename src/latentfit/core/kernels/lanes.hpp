// A row of class scores held in vector registers.
//
// Width W doubles, registers of L lanes: L = 2 on the baseline (SSE2, NEON), L = 4 with AVX2. A vector
// type wider than the machine's registers is a trap in GCC, so L never exceeds what the path may use.
// Every sum folds groups of four lanes first and then halves, so its tree does not depend on L: with
// contraction off both paths give the same bits.
#pragma once
#include <cstdint>
#include <cstring>

#define LATENTFIT_INLINE inline __attribute__((always_inline))

// `block<W, L>` under a name per register width, since `target` cannot be a template argument: `name_plain<W>` with two
// lanes and, where there is AVX2, `name_avx2<W>` with `wide` of them; the machine decides between them as it runs.
#define LATENTFIT_PLAIN(name, block) template <int W, class... A> void name##_plain(A &&...a) { block<W, 2>(a...); }
#if defined(__x86_64__) && !defined(LATENTFIT_BASELINE_ONLY)
namespace latentfit { const bool has_avx2 = __builtin_cpu_supports("avx2"); }
#define LATENTFIT_PATHS(name, block, wide) \
    LATENTFIT_PLAIN(name, block)           \
    template <int W, class... A> __attribute__((target("avx2"))) void name##_avx2(A &&...a) { block<W, wide>(a...); }
#define LATENTFIT_DISPATCH(name, W, ...) (latentfit::has_avx2 ? name##_avx2<W>(__VA_ARGS__) : name##_plain<W>(__VA_ARGS__))
#else
#define LATENTFIT_PATHS(name, block, wide) LATENTFIT_PLAIN(name, block)
#define LATENTFIT_DISPATCH(name, W, ...) name##_plain<W>(__VA_ARGS__)
#endif

namespace latentfit {

template <int L> struct Vec;
template <> struct Vec<2> {
    typedef double f __attribute__((vector_size(16)));
    typedef int64_t i __attribute__((vector_size(16)));
    typedef double u __attribute__((vector_size(16), aligned(8), may_alias));
};
template <> struct Vec<4> {
    typedef double f __attribute__((vector_size(32)));
    typedef int64_t i __attribute__((vector_size(32)));
    typedef double u __attribute__((vector_size(32), aligned(8), may_alias));
};

// exp(x) for x <= 0, clamped at -708 where doubles end; relative error below 3e-16. The polynomial of degree 11 meets
// exp at Chebyshev's points of |r| <= ln2 / 2 (relative error 2e-17) and is summed as a tree: a chain of eleven
// products would make every register wait for the one before.
template <int L> LATENTFIT_INLINE typename Vec<L>::f exp_nonpositive(typename Vec<L>::f x) {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::i I;
    const F zero = {}, shift = zero + 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
    const F lowest = zero - 708.0;
    x = x < lowest ? lowest : x;
    const F rounded = x * 1.4426950408889634 + shift, t = rounded - shift;
    const I k = (I)rounded - (I)shift;
    const F r = (x - t * 6.93147180369123816490e-01) - t * 1.90821492927058770002e-10;
    const F r2 = r * r, r4 = r2 * r2;
    const F a = r * 0.16666666666666669 + 0.5000000000000001;
    const F b = r * 0.008333333333330062 + 0.04166666666662413;
    const F c = r * 0.00019841269863053618 + 0.0013888888917213717;
    const F d = r * 2.7557268459997064e-06 + 2.4801521295954376e-05;
    const F e = r * 2.510038549551032e-08 + 2.7620088445409746e-07;
    const F p = (r2 * (r2 * ((b + r2 * c) + r4 * (d + r2 * e)) + a) + r) + 1.0;
    const I scale = (k + 1023) << 52;
    return p * (F)scale;
}

LATENTFIT_INLINE double fold(Vec<2>::f a) { return a[0] + a[1]; }
LATENTFIT_INLINE double fold(Vec<4>::f a) { return (a[0] + a[2]) + (a[1] + a[3]); }

// The sum of R registers, or of `width` numbers in memory: one tree for both register widths.
template <int L, class F, int R> LATENTFIT_INLINE double fold_all(const F (&v)[R]) {
    if constexpr (L == 4 || R == 1) {
        F a = v[0];
        for (int r = 1; r < R; ++r) a += v[r];
        return fold(a);
    } else {
        F low = v[0], high = v[1];
        for (int r = 2; r < R; r += 2) { low += v[r]; high += v[r + 1]; }
        return fold(low + high);
    }
}
template <int L> LATENTFIT_INLINE double fold_all(const double *v, int width) {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::u U;
    if constexpr (L == 4) {
        F a = *(const U *)v;
        for (int c = 4; c < width; c += 4) a += *(const U *)(v + c);
        return fold(a);
    } else {
        F low = *(const U *)v, high = *(const U *)(v + 2);
        for (int c = 4; c < width; c += 4) { low += *(const U *)(v + c); high += *(const U *)(v + c + 2); }
        return fold(low + high);
    }
}

template <int W, int L> struct Row {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::u U;
    static constexpr int R = W / L;
    F v[R];

    LATENTFIT_INLINE void start(const double *p, int) { for (int r = 0; r < R; ++r) v[r] = *(const U *)(p + r * L); }
    LATENTFIT_INLINE void add(const double *p) { for (int r = 0; r < R; ++r) v[r] += *(const U *)(p + r * L); }
    LATENTFIT_INLINE void add_to(double *p) const { for (int r = 0; r < R; ++r) *(U *)(p + r * L) += v[r]; }
    LATENTFIT_INLINE void store(double *p) const { for (int r = 0; r < R; ++r) *(U *)(p + r * L) = v[r]; }
    LATENTFIT_INLINE void scale(double s) { for (int r = 0; r < R; ++r) v[r] *= s; }
    LATENTFIT_INLINE double max() const {
        F m = v[0];
        for (int r = 1; r < R; ++r) m = m < v[r] ? v[r] : m;
        double best = m[0];
        for (int l = 1; l < L; ++l) best = best < m[l] ? m[l] : best;
        return best;
    }
    LATENTFIT_INLINE void exp_minus(double m) { for (int r = 0; r < R; ++r) v[r] = exp_nonpositive<L>(v[r] - m); }
    LATENTFIT_INLINE double sum() const { return fold_all<L>(v); }
};

// Any width that is a multiple of 4, up to kWidest: the row lives in memory instead of registers.
constexpr int kWidest = 1024;
template <int L> struct Row<0, L> {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::u U;
    double v[kWidest];
    int width;

    LATENTFIT_INLINE F at(int c) const { return *(const U *)(v + c); }
    LATENTFIT_INLINE void start(const double *p, int w) { width = w; std::memcpy(v, p, sizeof(double) * w); }
    LATENTFIT_INLINE void add(const double *p) { for (int c = 0; c < width; c += L) *(U *)(v + c) += *(const U *)(p + c); }
    LATENTFIT_INLINE void add_to(double *p) const { for (int c = 0; c < width; c += L) *(U *)(p + c) += *(const U *)(v + c); }
    LATENTFIT_INLINE void store(double *p) const { std::memcpy(p, v, sizeof(double) * width); }
    LATENTFIT_INLINE void scale(double s) { for (int c = 0; c < width; c += L) *(U *)(v + c) *= s; }
    LATENTFIT_INLINE double max() const {
        double best = v[0];
        for (int c = 1; c < width; ++c) best = best < v[c] ? v[c] : best;
        return best;
    }
    LATENTFIT_INLINE void exp_minus(double m) { for (int c = 0; c < width; c += L) *(U *)(v + c) = exp_nonpositive<L>(at(c) - m); }
    LATENTFIT_INLINE double sum() const { return fold_all<L>(v, width); }
};

}  // namespace latentfit
