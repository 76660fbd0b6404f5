// Passes over sparse document-term counts under the mixed-membership model
//     word w of document d ~ sum_k share[d, k] topic[w, k].
//
// documents: every document climbs  sum_w n_dw log(sum_k share_k topic_wk) + sum_k prior_k log share_k  by EM with the topics
// held; the objective is concave, so the way does not matter and a document's answer does not depend on its company.
// Then n_dw / p_dw at the shares, the log-likelihood and each document's expected counts. words: expected counts of
// every word and topic from those ratios, word by word in the order of documents. Nothing of size tokens x topics exists,
// no sum crosses a document or a word, so threads do not change a bit.
#include "lanes.hpp"
#include "waves.hpp"
#include <cmath>

namespace {
using namespace latentfit;

constexpr int64_t kBlockCells = 16384;  // cells of a block of documents or words: what one thread takes at a time
constexpr double kSmall = 1e-150;       // a product below it is taken off before it could underflow,
constexpr double kRare = 1e-35;         // which four factors of at least this size cannot make it do
constexpr double kTiny = 1e-300;        // a word that no topic has: its ratio is finite, its share nothing

struct Lists {                 // documents with their words, or words with their documents
    const int64_t *offsets;
    const int32_t *members;
    int64_t size;
};

// A sum over the class axis: G groups of four lanes in registers of L, or in memory for widths without a G.
template <int G, int L> struct Sum {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::u U;
    static constexpr int R = 4 * G / L;
    F v[R];

    LATENTFIT_INLINE explicit Sum(int) { for (int r = 0; r < R; ++r) v[r] = (F){}; }
    LATENTFIT_INLINE void add(double scale, const double *a) { for (int r = 0; r < R; ++r) v[r] += *(const U *)(a + r * L) * scale; }
    LATENTFIT_INLINE void times(double *to, const double *a) const {
        for (int r = 0; r < R; ++r) *(U *)(to + r * L) = v[r] * *(const U *)(a + r * L);
    }
};
template <int L> struct Sum<0, L> {
    typedef typename Vec<L>::u U;
    double v[kWidest];
    int width;

    LATENTFIT_INLINE explicit Sum(int w) : width(w) { std::memset(v, 0, sizeof(double) * w); }
    LATENTFIT_INLINE void add(double scale, const double *a) {
        for (int c = 0; c < width; c += L) *(U *)(v + c) += *(const U *)(a + c) * scale;
    }
    LATENTFIT_INLINE void times(double *to, const double *a) const {
        for (int c = 0; c < width; c += L) *(U *)(to + c) = *(const U *)(v + c) * *(const U *)(a + c);
    }
};

template <int G, int L> LATENTFIT_INLINE double dot(const double *a, const double *b, int width) {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::u U;
    const int end = G ? 4 * G : width;
    if constexpr (L == 4) {  // one tree for both register widths
        F sum = *(const U *)a * *(const U *)b;
        for (int c = 4; c < end; c += 4) sum += *(const U *)(a + c) * *(const U *)(b + c);
        return fold(sum);
    } else {
        F low = *(const U *)a * *(const U *)b, high = *(const U *)(a + 2) * *(const U *)(b + 2);
        for (int c = 4; c < end; c += 4) {
            low += *(const U *)(a + c) * *(const U *)(b + c);
            high += *(const U *)(a + c + 2) * *(const U *)(b + c + 2);
        }
        return fold(low + high);
    }
}

struct Model {
    const double *topics;   // (words, width)
    const double *prior;    // (width): pseudo-counts of a document's shares
    double prior_sum;
    int width;
};

// ------------------------------------------------------------------ some cells of a document

// So many cells at a time: their chances, all divisions, their sums. Cell by cell each sum would wait for its division
// and that for its chance; this way nothing waits, and the topics' rows are still near when they are read again.
constexpr int64_t kTogether = 64;
template <int G, int L>
LATENTFIT_INLINE void take_chances(const Lists &docs, const double *counts, const Model &model, int64_t from, int64_t to,
                               const double *share, double *chances, double *ratios) {
    const int width = G ? 4 * G : model.width;
    for (int64_t at = from; at < to; ++at)
        chances[at - from] = dot<G, L>(share, model.topics + (int64_t)docs.members[at] * width, width) + kTiny;
    for (int64_t at = from; at < to; ++at) ratios[at - from] = counts[at] / chances[at - from];
}
template <int G, int L>
LATENTFIT_INLINE void add_topics(const Lists &docs, const Model &model, int64_t from, int64_t to, const double *ratios,
                             Sum<G, L> &sums) {
    const int width = G ? 4 * G : model.width;
    for (int64_t at = from; at < to; ++at)
        sums.add(ratios[at - from], model.topics + (int64_t)docs.members[at] * width);
}

// ------------------------------------------------------------------ a document's shares, topics held

template <int G, int L>
LATENTFIT_INLINE void climb_shares(const Lists &docs, const double *counts, const Model &model, int64_t d, int most,
                               double settled, double *share) {
    const int width = G ? 4 * G : model.width;
    const int64_t from = docs.offsets[d], to = docs.offsets[d + 1];
    double total = model.prior_sum, next[G ? 4 * G : kWidest], chances[kTogether], ratios[kTogether];
    for (int64_t at = from; at < to; ++at) total += counts[at];
    const double scale = total > 0 ? 1.0 / total : 0.0;
    for (int pass = 0; pass < most && from < to; ++pass) {
        Sum<G, L> sums(width);
        for (int64_t at = from; at < to; at += kTogether) {
            const int64_t end = at + kTogether < to ? at + kTogether : to;
            take_chances<G, L>(docs, counts, model, at, end, share, chances, ratios);
            add_topics<G, L>(docs, model, at, end, ratios, sums);
        }
        sums.times(next, share);
        double moved = 0;
        for (int c = 0; c < width; ++c) {
            next[c] = (next[c] + model.prior[c]) * scale;
            const double change = std::fabs(next[c] - share[c]);
            moved = change > moved ? change : moved;
            share[c] = next[c];
        }
        if (moved < settled) break;
    }
}

// ------------------------------------------------------------------ what the shares say: ratios, sums, likelihood

struct DocSums {
    double *ratios;          // (cells)
    double *expected;        // (documents, width)
    double *log_likelihood;  // (documents)
};

// Sum of n log p. Most words occur a few times: their chances are multiplied, one logarithm serves some fifty of them.
// They are taken apart from the sums, which a call would drive out of the registers.
struct Logarithms {
    double value = 0, product = 1;
    LATENTFIT_INLINE void add(double n, double p) {
        if (n <= 4 && n == (double)(int)n && p > kRare) {
            const double square = p * p, powers[5] = {1, p, square, square * p, square * square};
            product *= powers[(int)n];
            if (product < kSmall) { value += std::log(product); product = 1; }
        } else {
            value += n * std::log(p);
        }
    }
    LATENTFIT_INLINE double total() const { return value + std::log(product); }
};

template <int G, int L>
LATENTFIT_INLINE void take_ratios(const Lists &docs, const double *counts, const Model &model, int64_t d,
                              const double *share, const DocSums &out) {
    const int width = G ? 4 * G : model.width;
    double chances[kTogether];
    Logarithms logarithms;
    Sum<G, L> sums(width);
    for (int64_t from = docs.offsets[d]; from < docs.offsets[d + 1]; from += kTogether) {
        const int64_t to = from + kTogether < docs.offsets[d + 1] ? from + kTogether : docs.offsets[d + 1];
        take_chances<G, L>(docs, counts, model, from, to, share, chances, out.ratios + from);
        add_topics<G, L>(docs, model, from, to, out.ratios + from, sums);
        for (int64_t at = from; at < to; ++at) logarithms.add(counts[at], chances[at - from]);
    }
    sums.times(out.expected + d * width, share);
    out.log_likelihood[d] = logarithms.total();
}

// A document's shares, then at once what they say: its words' topics are still in the nearest cache.
template <int G, int L>
LATENTFIT_INLINE void documents_block(const Lists &docs, const double *counts, const Model &model, int64_t begin,
                                  int64_t end, int most, double settled, double *shares, const DocSums *out) {
    const int width = G ? 4 * G : model.width;
    double share[G ? 4 * G : kWidest];
    for (int64_t d = begin; d < end; ++d) {
        std::memcpy(share, shares + d * width, sizeof(double) * width);
        if (most) {
            climb_shares<G, L>(docs, counts, model, d, most, settled, share);
            std::memcpy(shares + d * width, share, sizeof(double) * width);
        }
        if (out) take_ratios<G, L>(docs, counts, model, d, share, *out);
    }
}

template <int G, int L>
LATENTFIT_INLINE void words_block(const Lists &words, const int64_t *cell, const double *ratios, const double *shares,
                              const Model &model, int64_t begin, int64_t end, double *out) {
    const int width = G ? 4 * G : model.width;
    for (int64_t w = begin; w < end; ++w) {
        Sum<G, L> sums(width);
        for (int64_t at = words.offsets[w]; at < words.offsets[w + 1]; ++at)
            sums.add(ratios[cell[at]], shares + (int64_t)words.members[at] * width);
        sums.times(out + w * width, model.topics + w * width);
    }
}

LATENTFIT_PATHS(documents, documents_block, 4)
LATENTFIT_PATHS(words, words_block, 4)
#define LATENTFIT_BY_WIDTH(name, ...)                         \
    switch (model.width) {                                \
    case 4: LATENTFIT_DISPATCH(name, 1, __VA_ARGS__); break;  \
    case 8: LATENTFIT_DISPATCH(name, 2, __VA_ARGS__); break;  \
    case 12: LATENTFIT_DISPATCH(name, 3, __VA_ARGS__); break; \
    case 16: LATENTFIT_DISPATCH(name, 4, __VA_ARGS__); break; \
    case 20: LATENTFIT_DISPATCH(name, 5, __VA_ARGS__); break; \
    default: LATENTFIT_DISPATCH(name, 0, __VA_ARGS__); break; \
    }

// Splits lists into blocks of about equal cells; `run(begin, end)` takes whole lists and writes to its own places.
template <class Run> void walk(const Lists &lists, int threads, Run run) {
    std::vector<int64_t> first{0};
    for (int64_t at = 0; at < lists.size; ++at)
        if (lists.offsets[at + 1] - lists.offsets[first.back()] >= kBlockCells) first.push_back(at + 1);
    if (first.back() < lists.size) first.push_back(lists.size);
    const int64_t blocks = (int64_t)first.size() - 1;
    if (threads > blocks) threads = blocks > 0 ? (int)blocks : 1;
    // a thread takes every `threads`-th block, so threads are started once a pass
    in_waves(
        threads, threads,
        [&](int64_t mine, int) { for (int64_t b = mine; b < blocks; b += threads) run(first[b], first[b + 1]); },
        [](int64_t, int) {});
}

// Rows in a room of their own, the first at a cache line's: a row of them then crosses as few lines as it can.
class Aligned {
    const Room room;

public:
    const double *const data;
    Aligned(const double *from, int64_t size) : room(size), data(room.data) {
        if (size) std::memcpy(room.data, from, sizeof(double) * size);
    }
};
}  // namespace

// Up to `most` steps of every document's shares (0: they stay), then what they say, unless `ratios` is null.
LATENTFIT_EXPORT topic_documents(const int64_t *offsets, const int32_t *words, const double *counts, int64_t documents,
                             const double *topics, int64_t n_words, const double *prior, double prior_sum, int width,
                             int most, double settled, int threads, double *shares, double *ratios, double *expected,
                             double *log_likelihood) {
    return if_there_is_room([&] {
        const Lists docs{offsets, words, documents};
        const Aligned held(topics, n_words * width);
        const Model model{held.data, prior, prior_sum, width};
        const DocSums out{ratios, expected, log_likelihood};
        walk(docs, threads, [&](int64_t begin, int64_t end) {
            LATENTFIT_BY_WIDTH(documents, docs, counts, model, begin, end, most, settled, shares, ratios ? &out : nullptr);
        });
    });
}

LATENTFIT_EXPORT topic_words(const int64_t *offsets, const int32_t *documents, const int64_t *cells, int64_t words,
                         const double *ratios, const double *shares, int64_t n_documents, const double *topics,
                         int width, int threads, double *sums) {
    return if_there_is_room([&] {
        const Lists lists{offsets, documents, words};
        const Aligned held(shares, n_documents * width);
        const Model model{topics, nullptr, 0, width};
        walk(lists, threads, [&](int64_t begin, int64_t end) {
            LATENTFIT_BY_WIDTH(words, lists, cells, ratios, held.data, model, begin, end, sums);
        });
    });
}
