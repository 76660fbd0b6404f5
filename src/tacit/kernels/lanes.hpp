// A row of class scores held in vector registers.
//
// Width W doubles, registers of L lanes: L = 2 on the baseline (SSE2, NEON), L = 4 with AVX2. A vector
// type wider than the machine's registers is a trap in GCC, so L never exceeds what the path may use.
// Every sum folds groups of four lanes first and then halves, so its tree does not depend on L: with
// contraction off both paths give the same bits.
#pragma once
#include <cstdint>
#include <cstring>

#define TACIT_INLINE inline __attribute__((always_inline))

namespace tacit {

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

// exp(x) for x <= 0, clamped at -708 where doubles end; relative error below 3e-16.
template <int L> TACIT_INLINE typename Vec<L>::f exp_nonpositive(typename Vec<L>::f x) {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::i I;
    const double shift = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to an integer
    F floor_ = x - x - 708.0;
    x = x < floor_ ? floor_ : x;
    F t = x * 1.4426950408889634 + shift;
    I k = (I)t - (I)(x - x + shift);
    t -= shift;
    F r = x - t * 6.93147180369123816490e-01;
    r -= t * 1.90821492927058770002e-10;
    F p = x - x + 1.0 / 6227020800.0;  // Taylor, degree 13, |r| <= ln2 / 2
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    I scale = (k + 1023) << 52;
    return p * (F)scale;
}

TACIT_INLINE double fold(Vec<2>::f a) { return a[0] + a[1]; }
TACIT_INLINE double fold(Vec<4>::f a) { return (a[0] + a[2]) + (a[1] + a[3]); }

template <int W, int L> struct Row {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::u U;
    static constexpr int R = W / L;
    F v[R];

    TACIT_INLINE void start(const double *p, int) { for (int r = 0; r < R; ++r) v[r] = *(const U *)(p + r * L); }
    TACIT_INLINE void add(const double *p) { for (int r = 0; r < R; ++r) v[r] += *(const U *)(p + r * L); }
    TACIT_INLINE void add_to(double *p) const { for (int r = 0; r < R; ++r) *(U *)(p + r * L) += v[r]; }
    TACIT_INLINE void store(double *p) const { for (int r = 0; r < R; ++r) *(U *)(p + r * L) = v[r]; }
    TACIT_INLINE void scale(double s) { for (int r = 0; r < R; ++r) v[r] *= s; }
    TACIT_INLINE double max() const {
        F m = v[0];
        for (int r = 1; r < R; ++r) m = m < v[r] ? v[r] : m;
        double best = m[0];
        for (int l = 1; l < L; ++l) best = best < m[l] ? m[l] : best;
        return best;
    }
    TACIT_INLINE void exp_minus(double m) { for (int r = 0; r < R; ++r) v[r] = exp_nonpositive<L>(v[r] - m); }
    TACIT_INLINE double sum() const {
        if constexpr (L == 4 || W == 2) {
            F a = v[0];
            for (int r = 1; r < R; ++r) a += v[r];
            return fold(a);
        } else {
            F low = v[0], high = v[1];
            for (int r = 2; r < R; r += 2) { low += v[r]; high += v[r + 1]; }
            return fold(low + high);
        }
    }
};

// Any width that is a multiple of 4, up to kWidest: the row lives in memory instead of registers.
constexpr int kWidest = 1024;
template <int L> struct Row<0, L> {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::u U;
    double v[kWidest];
    int width;

    TACIT_INLINE F at(int c) const { return *(const U *)(v + c); }
    TACIT_INLINE void start(const double *p, int w) { width = w; std::memcpy(v, p, sizeof(double) * w); }
    TACIT_INLINE void add(const double *p) { for (int c = 0; c < width; c += L) *(U *)(v + c) += *(const U *)(p + c); }
    TACIT_INLINE void add_to(double *p) const { for (int c = 0; c < width; c += L) *(U *)(p + c) += *(const U *)(v + c); }
    TACIT_INLINE void store(double *p) const { std::memcpy(p, v, sizeof(double) * width); }
    TACIT_INLINE void scale(double s) { for (int c = 0; c < width; c += L) *(U *)(v + c) *= s; }
    TACIT_INLINE double max() const {
        double best = v[0];
        for (int c = 1; c < width; ++c) best = best < v[c] ? v[c] : best;
        return best;
    }
    TACIT_INLINE void exp_minus(double m) { for (int c = 0; c < width; c += L) *(U *)(v + c) = exp_nonpositive<L>(at(c) - m); }
    TACIT_INLINE double sum() const {
        if constexpr (L == 4) {
            F a = at(0);
            for (int c = 4; c < width; c += 4) a += at(c);
            return fold(a);
        } else {
            F low = at(0), high = at(2);
            for (int c = 4; c < width; c += 4) { low += at(c); high += at(c + 2); }
            return fold(low + high);
        }
    }
};

}  // namespace tacit
