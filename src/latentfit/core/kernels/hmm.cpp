// Hidden Markov chains over symbols: the forward and backward recursions, what Baum-Welch adds up, and Viterbi's path.
//
// Probabilities, not logarithms. A symbol's emissions come divided by their largest, whose logarithm is added apart, so
// that nothing in a step is larger than one and, with every entry at least the wrapper's floor, no step underflows. A
// step divides by the sum of the step before, which is known while the product with the transitions runs: the division
// costs no time. A code below zero is a gap, whose emissions are all one. One sequence is one chain; blocks of whole
// sequences go to threads and are added in order, so threads do not change a bit, nor does a sequence's company.
// Long for one file, because all its passes are made of the same steps in registers. A step is written into every place
// that calls it, which is most of what there is to compile: few places, then, and long chains share those of short ones.
#include "lanes.hpp"
#include "waves.hpp"
#include <algorithm>
#include <cmath>
#include <limits>

namespace {
using namespace latentfit;

constexpr int kMostStates = 256;
constexpr double kSmall = 1e-150;       // a product below it is turned into a logarithm; a step is above 1e-103

struct Model {
    const double *start;      // (width)
    const double *move;       // (rows, width): row i is where state i goes
    const double *turned;     // (rows, width): row j is from where state j is reached
    const double *emit;       // (symbols + 1, width): divided by the row's largest; the last row, a gap, is all ones
    const double *log_scale;  // (symbols + 1): logarithm of what the row was divided by
    int64_t symbols;
    int states, rows, width;
    int64_t room;             // steps of a chain that are kept between its two passes; a longer one is walked again
    LATENTFIT_INLINE int64_t row(int32_t code) const { return code < 0 ? symbols : code; }
};

// A number per state, in registers for up to sixteen states.
template <int K, int L> struct States {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::u U;
    static constexpr int W = K == 2 ? 2 : (K + 3) / 4 * 4, R = W / L;
    F v[R];

    LATENTFIT_INLINE void load(const double *p, int) { for (int r = 0; r < R; ++r) v[r] = *(const U *)(p + r * L); }
    LATENTFIT_INLINE void store(double *p) const { for (int r = 0; r < R; ++r) *(U *)(p + r * L) = v[r]; }
    LATENTFIT_INLINE void add_to(double *p) const { for (int r = 0; r < R; ++r) *(U *)(p + r * L) += v[r]; }
    LATENTFIT_INLINE void scale(double s) { for (int r = 0; r < R; ++r) v[r] *= s; }
    LATENTFIT_INLINE void times(const States &o) { for (int r = 0; r < R; ++r) v[r] *= o.v[r]; }
    LATENTFIT_INLINE void fill(double s, int) { for (int r = 0; r < R; ++r) v[r] = (F){} + s; }
    LATENTFIT_INLINE double sum() const { return fold_all<L>(v); }
    template <int I> LATENTFIT_INLINE F every() const {  // one state's number in all lanes
        if constexpr (L == 4) return __builtin_shufflevector(v[I / L], v[I / L], I % L, I % L, I % L, I % L);
        else return __builtin_shufflevector(v[I / L], v[I / L], I % L, I % L);
    }
    template <int From, int To> LATENTFIT_INLINE static States mixed(const States &x, const double *rows) {
        States out;
        if constexpr (To - From == 1) {
            const F one = x.template every<From>();
            for (int r = 0; r < R; ++r) out.v[r] = one * *(const U *)(rows + From * W + r * L);
        } else {
            constexpr int middle = (From + To) / 2;
            const States a = mixed<From, middle>(x, rows), b = mixed<middle, To>(x, rows);
            for (int r = 0; r < R; ++r) out.v[r] = a.v[r] + b.v[r];
        }
        return out;
    }
    // sum over i of x[i] rows[i, :]
    LATENTFIT_INLINE void mix(const States &x, const double *rows, int, int) { *this = mixed<0, K>(x, rows); }
};

// Any number of states: in memory. The last member of a template family, with the same verbs.
template <int L> struct States<0, L> {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::u U;
    double v[kMostStates];
    int w = 0;

    States() {}
    States(const States &o) : w(o.w) { std::memcpy(v, o.v, sizeof(double) * w); }
    States &operator=(const States &o) { w = o.w; std::memmove(v, o.v, sizeof(double) * w); return *this; }
    LATENTFIT_INLINE F at(int c) const { return *(const U *)(v + c); }
    LATENTFIT_INLINE void load(const double *p, int width) { w = width; std::memcpy(v, p, sizeof(double) * w); }
    LATENTFIT_INLINE void store(double *p) const { std::memcpy(p, v, sizeof(double) * w); }
    LATENTFIT_INLINE void add_to(double *p) const { for (int c = 0; c < w; c += L) *(U *)(p + c) += at(c); }
    LATENTFIT_INLINE void scale(double s) { for (int c = 0; c < w; c += L) *(U *)(v + c) *= s; }
    LATENTFIT_INLINE void times(const States &o) { for (int c = 0; c < w; c += L) *(U *)(v + c) *= o.at(c); }
    LATENTFIT_INLINE void fill(double s, int width) { w = width; for (int c = 0; c < w; ++c) v[c] = s; }
    LATENTFIT_INLINE double sum() const { return fold_all<L>(v, w); }
    LATENTFIT_INLINE void mix(const States &x, const double *rows, int states, int width) {
        w = width;
        for (int c = 0; c < w; c += 4) {
            F sum[4 / L];
            for (int r = 0; r < 4 / L; ++r) sum[r] = (F){};
            for (int i = 0; i < states; ++i)
                for (int r = 0; r < 4 / L; ++r) sum[r] += x.v[i] * *(const U *)(rows + i * w + c + r * L);
            for (int r = 0; r < 4 / L; ++r) *(U *)(v + c + r * L) = sum[r];
        }
    }
};

// sums[i, :] += x[i] y, for every pair of states.
template <int K, int L> struct PairSums {
    typedef States<K, L> S;
    S v[K];
    LATENTFIT_INLINE void start(double *, int width) { for (int i = 0; i < K; ++i) v[i].fill(0, width); }
    template <int I = 0> LATENTFIT_INLINE void add(const S &x, const S &y, int) {
        if constexpr (I < K) {
            const typename S::F one = x.template every<I>();
            for (int r = 0; r < S::R; ++r) v[I].v[r] += one * y.v[r];
            add<I + 1>(x, y, 0);
        }
    }
    LATENTFIT_INLINE void finish(double *room) const { for (int i = 0; i < K; ++i) v[i].add_to(room + i * S::W); }
};
template <int L> struct PairSums<0, L> {
    typedef States<0, L> S;
    double *room;
    LATENTFIT_INLINE void start(double *at, int) { room = at; }
    LATENTFIT_INLINE void add(const S &x, const S &y, int states) {
        for (int i = 0; i < states; ++i)
            for (int c = 0; c < y.w; c += L) *(typename S::U *)(room + i * y.w + c) += x.v[i] * y.at(c);
    }
    LATENTFIT_INLINE void finish(double *) const {}
};

struct Likelihood {
    double logs = 0, product = 1;
    LATENTFIT_INLINE void add(double c) {
        product *= c;
        if (__builtin_expect(product < kSmall, 0)) { logs += std::log(product); product = 1; }
    }
    LATENTFIT_INLINE double total() const { return logs + std::log(product); }
};

struct Sums {
    double *start, *moves, *emits;  // (width), (rows, width), (symbols + 1, width); null when not asked for
    double *posterior;              // (observations, states) of all sequences, or null
};

// A walk forward along a chain: a(t) = (a(t-1) A) * emissions / sum a(t-1), whose sum is P(x_t | before).
template <int K, int L> struct Ahead {
    const int32_t *chain;
    double *kept;  // a(t) from the first step of the stretch on, or null
    States<K, L> a;
    double inverse = 1, log_scales = 0;
    Likelihood likelihood;

    LATENTFIT_INLINE void step(const Model &m, int64_t t) {
        const int64_t row = m.row(chain[t]);
        States<K, L> e;
        e.load(m.emit + row * m.width, m.width);
        if (t == 0) a.load(m.start, m.width);
        else {
            e.scale(inverse);
            const States<K, L> before = a;
            a.mix(before, m.move, m.rows, m.width);
        }
        a.times(e);
        const double c = a.sum();
        inverse = 1 / c;
        likelihood.add(c);
        log_scales += m.log_scale[row];
        if (kept) { a.store(kept); kept += m.width; }
    }
};

// The walk back, adding up. b(t) = A (emissions b)(t+1) / sum b(t+1); P(state | all) ~ a(t) b(t).
template <int K, int L> struct Home {
    const int32_t *chain;
    const double *kept;   // a(t) of the step to come
    double *posterior;    // (steps of the chain, states) or null
    States<K, L> b, carry;
    bool last = true;

    LATENTFIT_INLINE void step(const Model &m, int64_t t, PairSums<K, L> &pairs, const Sums &out) {
        const int64_t row = m.row(chain[t]);
        States<K, L> a, gamma;
        a.load(kept, m.width);
        kept -= m.width;
        gamma = a;
        gamma.times(b);
        const double q = 1 / gamma.sum();
        gamma.scale(q);
        if (out.emits) {
            gamma.add_to(out.emits + row * m.width);
            if (!last) { carry.scale(q); pairs.add(a, carry, m.rows); }
            if (t == 0) gamma.add_to(out.start);
        }
        if (posterior) {
            double full[kMostStates];
            gamma.store(full);
            std::memcpy(posterior + t * m.states, full, sizeof(double) * m.states);
        }
        last = false;
        carry.load(m.emit + row * m.width, m.width);
        carry.times(b);
        const double inverse = 1 / b.sum();
        b.mix(carry, m.turned, m.rows, m.width);
        b.scale(inverse);
        carry.scale(inverse);
    }
};

// Chains abreast: as many as registers hold.
constexpr int abreast(int K) { return K == 0 || K > 8 ? 1 : K <= 4 ? 4 : 2; }

// All chains of a block, P of them abreast: a chain's next step waits for the one before, another chain's does not. One
// too long to be kept whole goes alone: forward once, leaving a mark at every stretch, then stretch by stretch from the end.
template <int K, int L, int P = abreast(K)>
LATENTFIT_INLINE void block_of(const Model &m, const int32_t *codes, const int64_t *offsets, int64_t from, int64_t to,
                           double *kept, double *marks, const Sums &out, double *log_likelihood) {
    const bool only_forward = !out.emits && !out.posterior;
    const int64_t stretch = m.room;
    PairSums<K, L> pairs;
    pairs.start(out.moves, m.width);
    for (int64_t s = from; s < to;) {
        int count = 0;
        int64_t length[P], common = INT64_MAX;
        Ahead<K, L> ahead[P];
        bool marked = false;
        for (; count < P && s + count < to && !marked; ++count) {
            const int64_t size = offsets[s + count + 1] - offsets[s + count];
            marked = size > stretch && !only_forward;
            if (marked && count) { marked = false; break; }
            length[count] = size;
            common = std::min(common, size);
            ahead[count].chain = codes + offsets[s + count];
            ahead[count].kept = only_forward || marked ? nullptr : kept + count * stretch * m.width;
            ahead[count].a.fill(1, m.width);
        }
        int64_t t = 0;
        if (P > 1 && count == P)
            for (; t < common; ++t)
                for (int p = 0; p < P; ++p) ahead[p].step(m, t);
        for (int p = 0; p < count; ++p) {
            for (int64_t begin = t; begin < length[p]; begin += stretch) {
                if (marked) {
                    double *mark = marks + begin / stretch * (m.width + 1);
                    ahead[p].a.store(mark);
                    mark[m.width] = ahead[p].inverse;
                }
                const int64_t end = std::min(length[p], begin + stretch);
                for (int64_t u = begin; u < end; ++u) ahead[p].step(m, u);
            }
            log_likelihood[s + p] = length[p] ? ahead[p].likelihood.total() + ahead[p].log_scales : 0;
        }
        if (!only_forward) {
            Home<K, L> home[P];
            for (int p = 0; p < count; ++p) {
                home[p].chain = ahead[p].chain;
                home[p].kept = kept + (p * stretch + length[p] - 1) * m.width;
                home[p].posterior = out.posterior ? out.posterior + offsets[s + p] * m.states : nullptr;
                home[p].b.fill(1, m.width);
                home[p].carry.fill(0, m.width);
            }
            int64_t back = 0;
            if (P > 1 && count == P)
                for (; back < common; ++back)
                    for (int p = 0; p < P; ++p) home[p].step(m, length[p] - 1 - back, pairs, out);
            for (int p = 0; p < count; ++p)
                for (int64_t end = length[p] - back; end > 0;) {
                    const int64_t begin = marked ? (end - 1) / stretch * stretch : 0;
                    if (marked) {
                        const double *mark = marks + begin / stretch * (m.width + 1);
                        ahead[p].a.load(mark, m.width);
                        ahead[p].inverse = mark[m.width];
                        ahead[p].kept = kept;
                        for (int64_t u = begin; u < end; ++u) ahead[p].step(m, u);
                        home[p].kept = kept + (end - begin - 1) * m.width;
                    }
                    for (int64_t u = end - 1; u >= begin; --u) home[p].step(m, u, pairs, out);
                    end = begin;
                }
        }
        s += count;
    }
    if (out.emits) pairs.finish(out.moves);
}

// The most probable path of every chain of a block: best(t, j) = max over i of best(t-1, i) + log A[i, j], + emissions.
void paths_of(const Model &m, const int32_t *codes, const int64_t *offsets, int64_t from, int64_t to, uint8_t *back,
              int32_t *path, double *log_probability) {
    const int width = m.width;  // here `move` and `emit` are logarithms, and `turned` row j holds log A[:, j]
    double best[kMostStates], next[kMostStates];
    for (int64_t s = from; s < to; ++s) {
        const int64_t length = offsets[s + 1] - offsets[s];
        const int32_t *chain = codes + offsets[s];
        for (int64_t t = 0; t < length; ++t) {
            const double *e = m.emit + m.row(chain[t]) * width;
            for (int j = 0; j < m.states; ++j) {
                double top = t ? -std::numeric_limits<double>::infinity() : m.start[j];
                int where = 0;
                const double *into = m.turned + j * width;
                if (t) {
                    for (int i = 0; i < m.states; ++i) {  // of equals the earlier state
                        const double x = best[i] + into[i];
                        where = x > top ? i : where;
                        top = x > top ? x : top;
                    }
                    back[t * m.states + j] = (uint8_t)where;
                }
                next[j] = top + e[j];
            }
            std::memcpy(best, next, sizeof(double) * m.states);
        }
        if (!length) { log_probability[s] = 0; continue; }
        int state = 0;
        for (int j = 1; j < m.states; ++j) if (best[j] > best[state]) state = j;
        log_probability[s] = best[state];
        int32_t *out = path + offsets[s];
        for (int64_t t = length - 1; t >= 0; --t) {
            out[t] = state;
            if (t) state = back[t * m.states + state];
        }
    }
}

LATENTFIT_PATHS(block, block_of, (W == 2 ? 2 : 4))

// By rows of the transitions: the wrapper fills one state up to 2, and 9 to 16 up to 12 or 16.
template <class... A> void block_by_rows(int rows, A &&...a) {
    switch (rows) {
    case 2: LATENTFIT_DISPATCH(block, 2, a...); break;
    case 3: LATENTFIT_DISPATCH(block, 3, a...); break;
    case 4: LATENTFIT_DISPATCH(block, 4, a...); break;
    case 5: LATENTFIT_DISPATCH(block, 5, a...); break;
    case 6: LATENTFIT_DISPATCH(block, 6, a...); break;
    case 7: LATENTFIT_DISPATCH(block, 7, a...); break;
    case 8: LATENTFIT_DISPATCH(block, 8, a...); break;
    case 12: LATENTFIT_DISPATCH(block, 12, a...); break;
    case 16: LATENTFIT_DISPATCH(block, 16, a...); break;
    default: LATENTFIT_DISPATCH(block, 0, a...); break;
    }
}

// Whole sequences, at least a block's worth of observations each but the last: decided by the lengths alone.
std::vector<int64_t> blocks_of(const int64_t *offsets, int64_t sequences) {
    std::vector<int64_t> first{0};
    for (int64_t s = 0; s < sequences; ++s)
        if (offsets[s + 1] - offsets[first.back()] >= kBlockRows && s + 1 < sequences) first.push_back(s + 1);
    first.push_back(sequences);
    return first;
}

int64_t longest_of(const int64_t *offsets, int64_t sequences) {
    int64_t longest = 0;
    for (int64_t s = 0; s < sequences; ++s) longest = std::max(longest, offsets[s + 1] - offsets[s]);
    return longest;
}
}  // namespace

// Chains abreast of a model with so many rows: how many areas of `room` steps a thread needs in `kept`.
LATENTFIT_EXPORT hmm_abreast(int rows) { return abreast(rows <= 8 || rows == 12 || rows == 16 ? rows : 0); }

// Sums of Baum-Welch (when `emits` is not null), posteriors (when not null), and every sequence's log-likelihood.
// `moves` still wants the factor A[i, j]. `kept` has `areas` · room · width numbers a thread, and may hold anything.
LATENTFIT_EXPORT hmm_pass(const int32_t *codes, const int64_t *offsets, int64_t sequences, const double *start,
                      const double *move, const double *turned, const double *emit, const double *log_scale,
                      int64_t symbols, int states, int rows, int width, int threads, int64_t room, int areas,
                      double *kept, double *starts, double *moves, double *emits, double *posterior,
                      double *log_likelihood) {
    const Model m{start, move, turned, emit, log_scale, symbols, states, rows, width, room};
    return if_there_is_room([&] {
        const auto first = blocks_of(offsets, sequences);
        const int64_t blocks = (int64_t)first.size() - 1;
        if (threads > blocks) threads = blocks > 0 ? (int)blocks : 1;
        const int64_t size = emits ? (1 + rows + symbols + 1) * width : 0, stride = spaced(size);
        const int64_t marked = (longest_of(offsets, sequences) / room + 1) * (width + 1);
        std::vector<double> sums(stride * threads), marks(marked * threads);
        in_waves(
            blocks, threads,
            [&](int64_t block, int slot) {
                double *mine = sums.data() + stride * slot;
                if (emits) std::memset(mine, 0, sizeof(double) * size);
                const Sums out{emits ? mine : nullptr, emits ? mine + width : nullptr,
                               emits ? mine + (1 + rows) * width : nullptr, posterior};
                block_by_rows(rows, m, codes, offsets, first[block], first[block + 1],
                              kept + slot * areas * room * width, marks.data() + marked * slot, out, log_likelihood);
            },
            [&](int64_t, int slot) {
                if (!emits) return;
                const double *mine = sums.data() + stride * slot;
                for (int c = 0; c < width; ++c) starts[c] += mine[c];
                mine += width;
                for (int c = 0; c < rows * width; ++c) moves[c] += mine[c];
                mine += rows * width;
                for (int64_t c = 0; c < symbols * width; ++c) emits[c] += mine[c];
            });
    });
}

// Viterbi: everything given as logarithms.
LATENTFIT_EXPORT hmm_paths(const int32_t *codes, const int64_t *offsets, int64_t sequences, const double *start,
                       const double *turned, const double *emit, int64_t symbols, int states, int width, int threads,
                       int32_t *path, double *log_probability) {
    const Model m{start, nullptr, turned, emit, nullptr, symbols, states, states, width, 0};
    return if_there_is_room([&] {
        const auto first = blocks_of(offsets, sequences);
        const int64_t blocks = (int64_t)first.size() - 1;
        if (threads > blocks) threads = blocks > 0 ? (int)blocks : 1;
        const int64_t room = longest_of(offsets, sequences) * states;
        std::vector<uint8_t> back(room * threads);
        in_waves(
            blocks, threads,
            [&](int64_t block, int slot) {
                paths_of(m, codes, offsets, first[block], first[block + 1], back.data() + room * slot, path,
                         log_probability);
            },
            [](int64_t, int) {});
    });
}
