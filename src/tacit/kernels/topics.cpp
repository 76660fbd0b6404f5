// Passes over sparse document-term counts under the mixed-membership model
//     word w of document d ~ sum_k share[d, k] topic[w, k].
//
// shares: every document climbs  sum_w n_dw log(sum_k share_k topic_wk) + sum_k prior_k log share_k  by EM with the topics
// held; the objective is concave, so the way does not matter and a document's answer does not depend on its company.
// ratios: n_dw / p_dw at the shares, the log-likelihood and each document's expected counts. words: expected counts of
// every word and topic from those ratios, word by word in the order of documents. Nothing of size tokens x topics exists,
// no sum crosses a document or a word, so threads do not change a bit.
#include "lanes.hpp"
#include "waves.hpp"
#include <cmath>

namespace {
using namespace tacit;

constexpr int64_t kBlockCells = 16384;  // cells of a block of documents or words: what one thread takes at a time
constexpr double kSmall = 1e-150;       // a product below it is taken off before it could underflow
constexpr double kTiny = 1e-300;        // a word that no topic has: its ratio is finite, its share nothing

struct Lists {                 // documents with their words, or words with their documents
    const int64_t *offsets;
    const int32_t *members;
    int64_t size;
};

// The class axis: G groups of four (0: as many as `groups` says), in registers of L lanes.
template <int G, int L> struct Axis {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::u U;
    int groups;
    TACIT_INLINE int count() const { return G ? G : groups; }
    TACIT_INLINE static F load(const double *p) { return *(const U *)p; }
    TACIT_INLINE static void store(double *p, F v) { *(U *)p = v; }

    TACIT_INLINE double dot(const double *a, const double *b) const {  // one tree for both register widths
        if constexpr (L == 4) {
            F sum = load(a) * load(b);
            for (int g = 1; g < count(); ++g) sum += load(a + 4 * g) * load(b + 4 * g);
            return fold(sum);
        } else {
            F low = load(a) * load(b), high = load(a + 2) * load(b + 2);
            for (int g = 1; g < count(); ++g) {
                low += load(a + 4 * g) * load(b + 4 * g);
                high += load(a + 4 * g + 2) * load(b + 4 * g + 2);
            }
            return fold(low + high);
        }
    }
    TACIT_INLINE void add(double *to, double scale, const double *a) const {
        for (int c = 0; c < 4 * count(); c += L) store(to + c, load(to + c) + load(a + c) * scale);
    }
    TACIT_INLINE void clear(double *to) const { for (int c = 0; c < 4 * count(); c += L) store(to + c, (F){}); }
    TACIT_INLINE void multiply(double *to, const double *a) const {
        for (int c = 0; c < 4 * count(); c += L) store(to + c, load(to + c) * load(a + c));
    }
};

struct Model {
    const double *topics;   // (words, width)
    const double *prior;    // (width): pseudo-counts of a document's shares
    double prior_sum;
    int width;
};

// ------------------------------------------------------------------ a document's shares, topics held

template <int G, int L>
TACIT_INLINE void shares_block(const Lists &docs, const double *counts, const Model &model, int64_t begin, int64_t end,
                               int most, double settled, double *shares) {
    const Axis<G, L> axis{model.width / 4};
    const int width = 4 * axis.count();
    double sums[G ? 4 * G : kWidest];
    for (int64_t d = begin; d < end; ++d) {
        double *share = shares + d * width;
        const int64_t from = docs.offsets[d], to = docs.offsets[d + 1];
        double total = model.prior_sum;
        for (int64_t at = from; at < to; ++at) total += counts[at];
        const double scale = total > 0 ? 1.0 / total : 0.0;
        for (int pass = 0; pass < most && from < to; ++pass) {
            axis.clear(sums);
            for (int64_t at = from; at < to; ++at) {
                const double *topic = model.topics + (int64_t)docs.members[at] * width;
                axis.add(sums, counts[at] / (axis.dot(share, topic) + kTiny), topic);
            }
            double moved = 0;
            for (int c = 0; c < width; ++c) {
                const double next = (share[c] * sums[c] + model.prior[c]) * scale;
                const double change = std::fabs(next - share[c]);
                moved = change > moved ? change : moved;
                share[c] = next;
            }
            if (moved < settled) break;
        }
    }
}

// ------------------------------------------------------------------ what the shares say: ratios, sums, likelihood

struct DocSums {
    double *ratios;          // (cells)
    double *expected;        // (documents, width)
    double *log_likelihood;  // (documents)
};

template <int G, int L>
TACIT_INLINE void ratios_block(const Lists &docs, const double *counts, const Model &model, int64_t begin, int64_t end,
                               const double *shares, DocSums &out) {
    const Axis<G, L> axis{model.width / 4};
    const int width = 4 * axis.count();
    for (int64_t d = begin; d < end; ++d) {
        const double *share = shares + d * width;
        double *expected = out.expected + d * width, value = 0, product = 1;
        double sums[G ? 4 * G : kWidest];
        axis.clear(sums);
        for (int64_t at = docs.offsets[d]; at < docs.offsets[d + 1]; ++at) {
            const double *topic = model.topics + (int64_t)docs.members[at] * width;
            const double p = axis.dot(share, topic) + kTiny;
            const double ratio = counts[at] / p;
            out.ratios[at] = ratio;
            // most words occur once: their chances are multiplied, one logarithm serves some fifty of them
            if (counts[at] == 1.0 && p > kSmall) {
                product *= p;
                if (product < kSmall) { value += std::log(product); product = 1; }
            } else {
                value += counts[at] * std::log(p);
            }
            axis.add(sums, ratio, topic);
        }
        for (int c = 0; c < width; ++c) expected[c] = sums[c] * share[c];
        out.log_likelihood[d] = value + std::log(product);
    }
}

template <int G, int L>
TACIT_INLINE void words_block(const Lists &words, const int64_t *cell, const double *ratios, const double *shares,
                              const Model &model, int64_t begin, int64_t end, double *sums) {
    const Axis<G, L> axis{model.width / 4};
    const int width = 4 * axis.count();
    for (int64_t w = begin; w < end; ++w) {
        double *sum = sums + w * width;
        axis.clear(sum);
        for (int64_t at = words.offsets[w]; at < words.offsets[w + 1]; ++at)
            axis.add(sum, ratios[cell[at]], shares + (int64_t)words.members[at] * width);
        axis.multiply(sum, model.topics + w * width);
    }
}

template <int G, class... A> void shares_plain(A &&...a) { shares_block<G, 2>(a...); }
template <int G, class... A> void ratios_plain(A &&...a) { ratios_block<G, 2>(a...); }
template <int G, class... A> void words_plain(A &&...a) { words_block<G, 2>(a...); }
#if defined(__x86_64__) && !defined(TACIT_BASELINE_ONLY)
template <int G, class... A> __attribute__((target("avx2"))) void shares_avx2(A &&...a) { shares_block<G, 4>(a...); }
template <int G, class... A> __attribute__((target("avx2"))) void ratios_avx2(A &&...a) { ratios_block<G, 4>(a...); }
template <int G, class... A> __attribute__((target("avx2"))) void words_avx2(A &&...a) { words_block<G, 4>(a...); }
const bool has_avx2 = __builtin_cpu_supports("avx2");
#define TACIT_DISPATCH(name, G, ...) (has_avx2 ? name##_avx2<G>(__VA_ARGS__) : name##_plain<G>(__VA_ARGS__))
#else
#define TACIT_DISPATCH(name, G, ...) name##_plain<G>(__VA_ARGS__)
#endif
#define TACIT_BY_WIDTH(name, ...)                         \
    switch (model.width) {                                \
    case 4: TACIT_DISPATCH(name, 1, __VA_ARGS__); break;  \
    case 8: TACIT_DISPATCH(name, 2, __VA_ARGS__); break;  \
    case 12: TACIT_DISPATCH(name, 3, __VA_ARGS__); break; \
    case 16: TACIT_DISPATCH(name, 4, __VA_ARGS__); break; \
    case 20: TACIT_DISPATCH(name, 5, __VA_ARGS__); break; \
    default: TACIT_DISPATCH(name, 0, __VA_ARGS__); break; \
    }

// Splits lists into blocks of about equal cells; `run(begin, end)` takes whole lists and writes to its own places.
template <class Run> int walk(const Lists &lists, int threads, Run run) {
    try {
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
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}
}  // namespace

#define TACIT_EXPORT extern "C" __attribute__((visibility("default"))) int

TACIT_EXPORT topic_shares(const int64_t *offsets, const int32_t *words, const double *counts, int64_t documents,
                          const double *topics, const double *prior, double prior_sum, int width, int most,
                          double settled, int threads, double *shares) {
    const Lists docs{offsets, words, documents};
    const Model model{topics, prior, prior_sum, width};
    return walk(docs, threads, [&](int64_t begin, int64_t end) {
        TACIT_BY_WIDTH(shares, docs, counts, model, begin, end, most, settled, shares);
    });
}

TACIT_EXPORT topic_ratios(const int64_t *offsets, const int32_t *words, const double *counts, int64_t documents,
                          const double *topics, int width, const double *shares, int threads, double *ratios,
                          double *expected, double *log_likelihood) {
    const Lists docs{offsets, words, documents};
    const Model model{topics, nullptr, 0, width};
    DocSums out{ratios, expected, log_likelihood};
    return walk(docs, threads, [&](int64_t begin, int64_t end) {
        TACIT_BY_WIDTH(ratios, docs, counts, model, begin, end, shares, out);
    });
}

TACIT_EXPORT topic_words(const int64_t *offsets, const int32_t *documents, const int64_t *cells, int64_t words,
                         const double *ratios, const double *shares, const double *topics, int width, int threads,
                         double *sums) {
    const Lists lists{offsets, documents, words};
    const Model model{topics, nullptr, 0, width};
    return walk(lists, threads, [&](int64_t begin, int64_t end) {
        TACIT_BY_WIDTH(words, lists, cells, ratios, shares, model, begin, end, sums);
    });
}
