// Blocks on threads, results in order: the order of addition is part of the result's contract.
#pragma once
#include <cstdint>
#include <memory>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#define LATENTFIT_EXPORT extern "C" __attribute__((visibility("default"))) int

namespace latentfit {

// What every exported function ends in: 0, or 1 when there is no memory for its buffers.
template <class Work> int if_there_is_room(Work work) {
    try {
        work();
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}

constexpr int64_t kBlockRows = 65536;

// Room between the buffers of two threads: what shares a cache line (or a prefetched pair) is written by turns.
constexpr int64_t kApart = 32;
inline int64_t spaced(int64_t size) { return (size + 2 * kApart - 1) / kApart * kApart; }

// Numbers not set to anything, the first at a cache line's: a vector that lies across two lines costs twice. A thread
// keeps one room of up to four megabytes for its next call: pages asked of the system anew would take longer to come
// than a pass over a small table.
class Room {
    struct Kept {
        std::unique_ptr<double[]> block;
        int64_t size = 0;
    };
    static Kept &kept() {
        static thread_local Kept mine;
        return mine;
    }
    static Kept take(int64_t size) {
        Kept found = std::move(kept());
        kept().size = 0;
        if (found.size < size) found = {std::unique_ptr<double[]>(new double[size]), size};
        return found;
    }
    Kept own;

public:
    double *const data;
    explicit Room(int64_t size)
        : own(take(size + 7)), data((double *)(((uintptr_t)own.block.get() + 63) / 64 * 64)) {}
    Room(const Room &) = delete;
    ~Room() {
        if (own.size <= 1 << 19 && own.size > kept().size) kept() = std::move(own);
    }
};

// `work(block, slot)` runs on any thread; `done(block, slot)` runs on the caller, block after block.
template <class Work, class Done> void in_waves(int64_t blocks, int threads, Work work, Done done) {
    for (int64_t first = 0; first < blocks; first += threads) {
        int count = (int)(blocks - first < threads ? blocks - first : threads);
        std::vector<std::thread> helpers;
        for (int slot = 1; slot < count; ++slot) {
            try {
                helpers.emplace_back(work, first + slot, slot);
            } catch (const std::system_error &) {  // no thread to be had: do it here
                work(first + slot, slot);
            }
        }
        work(first, 0);
        for (auto &helper : helpers) helper.join();
        for (int slot = 0; slot < count; ++slot) done(first + slot, slot);
    }
}

}  // namespace latentfit
