// Exact pair counts of dense categorical rows: counts[a, b] = rows in which cells a and b occur together.
// Integers, so the order of adding does not matter: each thread counts its rows, the counts are summed.
#include "waves.hpp"

namespace {
using namespace latentfit;

template <class Code>
int pair_counts(const Code *codes, const int32_t *first, int64_t columns, int64_t rows, int threads, int64_t *counts) {
    const int64_t size = first[columns];
    if (threads < 1) threads = 1;
    const int64_t share = (rows + threads - 1) / threads;
    return if_there_is_room([&] {
        std::vector<int64_t> buffer((threads - 1) * size * size);
        std::vector<int32_t> scratch(spaced(columns + 1) * threads);
        in_waves(
            threads, threads,
            [&](int64_t part, int slot) {
                int64_t *mine = slot ? buffer.data() + (slot - 1) * size * size : counts;
                int32_t *at = scratch.data() + spaced(columns + 1) * slot;
                const int64_t end = (part + 1) * share < rows ? (part + 1) * share : rows;
                for (int64_t i = part * share; i < end; ++i) {
                    const Code *row = codes + i * columns;
                    int64_t count = 0;
                    for (int64_t n = 0; n < columns; ++n) {
                        at[count] = first[n] + row[n];
                        count += at[count] < first[n + 1];
                    }
                    for (int64_t a = 0; a < count; ++a) {
                        int64_t *line = mine + at[a] * size;
                        for (int64_t b = a; b < count; ++b) ++line[at[b]];
                    }
                }
            },
            [&](int64_t, int slot) {
                if (!slot) return;
                const int64_t *mine = buffer.data() + (slot - 1) * size * size;
                for (int64_t c = 0; c < size * size; ++c) counts[c] += mine[c];
            });
    });
}
}  // namespace

LATENTFIT_EXPORT pair_counts_dense8(const uint8_t *codes, const int32_t *first, int64_t columns, int64_t rows, int threads,
                                int64_t *counts) {
    return pair_counts(codes, first, columns, rows, threads, counts);
}
LATENTFIT_EXPORT pair_counts_dense16(const uint16_t *codes, const int32_t *first, int64_t columns, int64_t rows,
                                 int threads, int64_t *counts) {
    return pair_counts(codes, first, columns, rows, threads, counts);
}
