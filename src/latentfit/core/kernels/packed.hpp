// Neighbouring columns that share a code: what a state of theirs is worth, and what its sums say about each column.
//
// A state names one code of every column of its group, the last column running fastest; a code at or above its
// column's size is a gap and stands for no cell. `spread` grows a group's log-table column by column, `gather` sums a
// group's states away column by column: about one addition a state and two, however many columns share the code.
#pragma once
#include "lanes.hpp"

namespace latentfit {

struct Packed {
    const int32_t *sizes;   // (columns): cells of a column
    const int32_t *states;  // (columns): as many, and one more where it has gaps
    const int32_t *groups;  // (number + 1): columns groups[g] .. groups[g + 1] share code g
    const int32_t *first;   // (number + 1): the first state of every group
    int64_t number;
};

// cells (C, width) -> states (first[number], width)
template <int W, int L> LATENTFIT_INLINE void spread_states(const Packed &p, const double *cells, double *states, int any) {
    typedef typename Vec<L>::u U;
    const int width = W ? W : any;
    double held[W ? W : kWidest];
    for (int64_t g = 0; g < p.number; ++g) {
        double *at = states + (int64_t)p.first[g] * width;
        std::memset(at, 0, sizeof(double) * width);
        int64_t lead = 1;
        for (int32_t n = p.groups[g]; n < p.groups[g + 1]; ++n) {
            const int32_t size = p.sizes[n], many = p.states[n];
            for (int64_t a = lead - 1; a >= 0; --a) {  // from the back: a row is read before it is written over
                std::memcpy(held, at + a * width, sizeof(double) * width);
                double *to = at + a * many * width;
                for (int32_t b = 0; b < size; ++b)
                    for (int c = 0; c < width; c += L)
                        *(U *)(to + b * width + c) = *(const U *)(held + c) + *(const U *)(cells + b * width + c);
                for (int32_t b = size; b < many; ++b) std::memcpy(to + b * width, held, sizeof(double) * width);
            }
            cells += (int64_t)size * width;
            lead *= many;
        }
    }
}

// sums of states -> sums of cells, added to `cells`; the sums of states are used up
template <int W, int L> LATENTFIT_INLINE void gather_states(const Packed &p, double *states, double *cells, int any) {
    typedef typename Vec<L>::f F;
    typedef typename Vec<L>::u U;
    const int width = W ? W : any;
    for (int64_t g = 0; g < p.number; ++g) {
        double *at = states + (int64_t)p.first[g] * width;
        int64_t lead = p.first[g + 1] - p.first[g];
        for (int32_t n = p.groups[g]; n < p.groups[g + 1]; ++n) cells += (int64_t)p.sizes[n] * width;
        double *cell = cells;
        for (int32_t n = p.groups[g + 1] - 1; n >= p.groups[g]; --n) {
            const int32_t size = p.sizes[n], many = p.states[n];
            lead /= many;
            cell -= (int64_t)size * width;
            for (int c = 0; c < width; c += L) {
                for (int32_t b = 0; b < size; ++b) {  // in a register: a sum in memory would wait for its last store
                    F sum = *(const U *)(cell + b * width + c);
                    for (int64_t a = 0; a < lead; ++a) sum += *(const U *)(at + (a * many + b) * width + c);
                    *(U *)(cell + b * width + c) = sum;
                }
                for (int64_t a = 0; n > p.groups[g] && a < lead; ++a) {
                    F sum = *(const U *)(at + a * many * width + c);
                    for (int32_t b = 1; b < many; ++b) sum += *(const U *)(at + (a * many + b) * width + c);
                    *(U *)(at + a * width + c) = sum;
                }
            }
        }
    }
}

}  // namespace latentfit
