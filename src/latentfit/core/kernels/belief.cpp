// Belief propagation for block models on a sparse graph with Poisson edges,
//     P(A_ij | blocks r, s) = Poisson(A_ij; mass_i mass_j affinity_rs),
// where mass is 1 (plain) or the degree (degree-corrected). An edge's factor on its blocks is affinity^weight; the
// factors exp(-mass_i mass_j affinity) of all other pairs act through the external field
//     field_r = sum_s affinity_rs sum_k mass_k belief_k(s).
//
// Messages lie at their receiver: row i of the graph holds what its neighbours say to i. A sweep walks the nodes in
// kGroups groups; nodes of a group answer what was said before it, then their answers are delivered and the field is
// brought up to date. Groups, and the chunks whose sums are added in order, depend on the graph alone, so any number of
// threads gives the same bits. Affinities come divided by the largest; products are kept in range by taking the largest
// entry out every kBeforeScaling edges.
#include "waves.hpp"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace {
using namespace latentfit;

constexpr int64_t kGroups = 16;
constexpr int64_t kChunk = 2048;       // nodes whose sums are added together before they join the total
constexpr int kBeforeScaling = 8;
constexpr int kWidestBlocks = 256;
constexpr int64_t kAlone = 500000;     // messages below which threads cost more than they bring

struct Graph {
    const int64_t *offsets;     // (n + 1)
    const int64_t *reverse;     // where the edge stands in the row of its other end
    const double *weights;      // null: all 1
    const double *mass;         // (n)
    int64_t nodes;
};

struct Model {
    const double *log_prior;     // (K)
    const double *affinity;      // (K, K), symmetric, largest 1
    const double *log_affinity;  // (K, K)
    double scale;                // what affinity was divided by
    int blocks;
};

// What the message says to its receiver: heard_r = sum_s affinity_rs^weight message_s.
template <int W> inline void hear(const Model &model, double weight, const double *message, double *heard) {
    const int K = W ? W : model.blocks;
    for (int r = 0; r < K; ++r) heard[r] = 0;
    if (weight == 1) {
        for (int s = 0; s < K; ++s) {
            const double *row = model.affinity + s * K;
            for (int r = 0; r < K; ++r) heard[r] += row[r] * message[s];
        }
        return;
    }
    for (int s = 0; s < K; ++s)
        for (int r = 0; r < K; ++r) heard[r] += std::exp(weight * model.log_affinity[s * K + r]) * message[s];
}

// Product of prior, field and everything heard, largest entry 1; returns the logarithm of what was taken out.
// A factor may be as small as kLeast beside the largest: smaller ones are raised to it, so that division is safe.
constexpr double kLeast = 1e-30;
template <int W>
inline double gather(const Graph &graph, const Model &model, const double *field, const double *messages, int64_t node,
                     double *heard, double *product) {
    const int K = W ? W : model.blocks;
    double taken = -1e300;
    for (int r = 0; r < K; ++r) {
        product[r] = model.log_prior[r] - graph.mass[node] * field[r];
        taken = std::fmax(taken, product[r]);
    }
    for (int r = 0; r < K; ++r) product[r] = std::exp(product[r] - taken);
    int waiting = 0;
    for (int64_t e = graph.offsets[node]; e < graph.offsets[node + 1]; ++e, heard += K) {
        hear<W>(model, graph.weights ? graph.weights[e] : 1.0, messages + e * K, heard);
        for (int r = 0; r < K; ++r) {
            heard[r] = heard[r] < kLeast ? kLeast : heard[r];
            product[r] *= heard[r];
        }
        if (++waiting < kBeforeScaling && e + 1 < graph.offsets[node + 1]) continue;
        waiting = 0;
        double highest = 0;
        for (int r = 0; r < K; ++r) highest = std::fmax(highest, product[r]);
        for (int r = 0; r < K; ++r) product[r] /= highest;
        taken += std::log(highest);
    }
    return taken;
}

struct Sweep {
    double *messages, *beliefs;
    double damping;
    double *answers;      // of one group, in the order of its edges
    int64_t first_edge;   // of the group
    double change;        // sum over nodes of sum_r |belief - belief before|
};

// New beliefs of nodes begin..end and their answers; `sums`: mass of each block (K) after minus before, and the change.
template <int W>
void update(const Graph &graph, const Model &model, const double *field, const Sweep &sweep, int64_t begin, int64_t end,
            double *scratch, double *sums) {
    const int K = W ? W : model.blocks;
    double product[W ? W : kWidestBlocks];
    for (int64_t node = begin; node < end; ++node) {
        const int64_t first = graph.offsets[node], last = graph.offsets[node + 1];
        gather<W>(graph, model, field, sweep.messages, node, scratch, product);
        double total = 0;
        for (int r = 0; r < K; ++r) total += product[r];
        double *belief = sweep.beliefs + node * K;
        for (int r = 0; r < K; ++r) {
            const double now = product[r] / total;
            sums[r] += graph.mass[node] * (now - belief[r]);
            sums[K] += std::fabs(now - belief[r]);
            belief[r] = now;
        }
        const double *heard = scratch;
        for (int64_t e = first; e < last; ++e, heard += K) {
            double *answer = sweep.answers + (e - sweep.first_edge) * K;
            double left = 0;
            for (int r = 0; r < K; ++r) left += answer[r] = product[r] / heard[r];
            const double share = 1 / left;
            for (int r = 0; r < K; ++r) answer[r] *= share;
            if (sweep.damping > 0) {
                const double *said = sweep.messages + graph.reverse[e] * K;
                for (int r = 0; r < K; ++r) answer[r] += sweep.damping * (said[r] - answer[r]);
            }
        }
    }
}

template <int W>
void deliver(const Graph &graph, const Model &model, const Sweep &sweep, int64_t begin, int64_t end) {
    const int K = W ? W : model.blocks;
    for (int64_t e = graph.offsets[begin]; e < graph.offsets[end]; ++e)
        std::memcpy(sweep.messages + graph.reverse[e] * K, sweep.answers + (e - sweep.first_edge) * K,
                    sizeof(double) * K);
}

void refresh(const Model &model, const double *occupied, double *field) {
    const int K = model.blocks;
    for (int r = 0; r < K; ++r) {
        field[r] = 0;
        for (int s = 0; s < K; ++s) field[r] += model.affinity[r * K + s] * occupied[s];
        field[r] *= model.scale;
    }
}

void occupy(const Graph &graph, const Model &model, const double *beliefs, double *occupied) {
    const int K = model.blocks;
    for (int r = 0; r < K; ++r) occupied[r] = 0;
    for (int64_t node = 0; node < graph.nodes; ++node)
        for (int r = 0; r < K; ++r) occupied[r] += graph.mass[node] * beliefs[node * K + r];
}

int64_t widest_row(const Graph &graph) {
    int64_t widest = 1;
    for (int64_t node = 0; node < graph.nodes; ++node)
        widest = std::max(widest, graph.offsets[node + 1] - graph.offsets[node]);
    return widest;
}

// Nodes of a chunk with the number of blocks known to the compiler: loops over blocks are unrolled.
#define LATENTFIT_BY_BLOCKS(run, blocks, ...)       \
    switch (blocks) {                           \
    case 2: run<2>(__VA_ARGS__); break;         \
    case 3: run<3>(__VA_ARGS__); break;         \
    case 4: run<4>(__VA_ARGS__); break;         \
    case 5: run<5>(__VA_ARGS__); break;         \
    case 6: run<6>(__VA_ARGS__); break;         \
    case 7: run<7>(__VA_ARGS__); break;         \
    case 8: run<8>(__VA_ARGS__); break;         \
    case 10: run<10>(__VA_ARGS__); break;       \
    case 12: run<12>(__VA_ARGS__); break;       \
    default: run<0>(__VA_ARGS__); break;        \
    }

int sweep(const Graph &graph, const Model &model, int sweeps, double tol, double damping, int threads, double *messages,
          double *beliefs, double *change, int *done) {
    const int K = model.blocks;
    const int64_t groups = graph.nodes < kGroups ? graph.nodes : kGroups;
    const int64_t per_group = (graph.nodes + groups - 1) / groups;
    if (threads < 1 || graph.offsets[graph.nodes] < kAlone) threads = 1;
    return if_there_is_room([&] {
        int64_t most_edges = 1;
        for (int64_t g = 0; g * per_group < graph.nodes; ++g) {
            const int64_t end = std::min(graph.nodes, (g + 1) * per_group);
            most_edges = std::max(most_edges, graph.offsets[end] - graph.offsets[g * per_group]);
        }
        const int64_t room = spaced(widest_row(graph) * K), sums_room = spaced(K + 1);
        std::vector<double> answers(most_edges * K), scratch(room * threads), sums(sums_room * threads);
        std::vector<double> occupied(K), field(K);
        Sweep state{messages, beliefs, damping, answers.data(), 0, 0};
        *done = 0;
        while (*done < sweeps) {
            state.change = 0;
            occupy(graph, model, beliefs, occupied.data());
            refresh(model, occupied.data(), field.data());
            for (int64_t first = 0; first < graph.nodes; first += per_group) {
                const int64_t last = std::min(graph.nodes, first + per_group);
                state.first_edge = graph.offsets[first];
                const int64_t chunks = (last - first + kChunk - 1) / kChunk;
                const auto begin = [&](int64_t chunk) { return std::min(last, first + chunk * kChunk); };
                in_waves(
                    chunks, threads,
                    [&](int64_t chunk, int slot) {
                        double *mine = sums.data() + sums_room * slot;
                        std::memset(mine, 0, sizeof(double) * (K + 1));
                        LATENTFIT_BY_BLOCKS(update, K, graph, model, field.data(), state, begin(chunk), begin(chunk + 1),
                                        scratch.data() + room * slot, mine);
                    },
                    [&](int64_t, int slot) {
                        const double *mine = sums.data() + sums_room * slot;
                        for (int r = 0; r < K; ++r) occupied[r] += mine[r];
                        state.change += mine[K];
                    });
                in_waves(
                    chunks, threads,
                    [&](int64_t chunk, int) {
                        LATENTFIT_BY_BLOCKS(deliver, K, graph, model, state, begin(chunk), begin(chunk + 1));
                    },
                    [](int64_t, int) {});
                refresh(model, occupied.data(), field.data());
            }
            *change = state.change / (double)graph.nodes;
            ++*done;
            if (*change < tol) break;
        }
    });
}

// Of nodes begin..end: sum of log Z_i less log Z_ij of their edges, each edge at the end where it stands first, and of
// what these edges say about their blocks: pairs_rs = sum of weight P(i in r, j in s).
template <int W>
void weigh(const Graph &graph, const Model &model, const double *field, const double *messages, int64_t begin,
           int64_t end, double *scratch, double *sums) {
    const int K = W ? W : model.blocks;
    double product[W ? W : kWidestBlocks];
    std::vector<double> joint(K * K);
    for (int64_t node = begin; node < end; ++node) {
        const double taken = gather<W>(graph, model, field, messages, node, scratch, product);
        double total = 0;
        for (int r = 0; r < K; ++r) total += product[r];
        sums[0] += taken + std::log(total);
        for (int64_t e = graph.offsets[node]; e < graph.offsets[node + 1]; ++e) {
            if (graph.reverse[e] < e) continue;
            const double *in = messages + e * K, *out = messages + graph.reverse[e] * K;
            const double weight = graph.weights ? graph.weights[e] : 1.0;
            double normal = 0;
            for (int r = 0; r < K; ++r)
                for (int s = 0; s < K; ++s) {
                    const int at = r * K + s;
                    const double factor = weight == 1 ? model.affinity[at] : std::exp(weight * model.log_affinity[at]);
                    normal += joint[at] = factor * out[r] * in[s];
                }
            normal = normal < kLeast ? kLeast : normal;
            sums[0] -= std::log(normal);
            const double share = weight / normal;
            for (int at = 0; at < K * K; ++at) sums[1 + at] += joint[at] * share;
        }
    }
}

int bethe(const Graph &graph, const Model &model, int threads, const double *messages, const double *beliefs,
          double *energy, double *pairs) {
    const int K = model.blocks;
    if (threads < 1 || graph.offsets[graph.nodes] < kAlone) threads = 1;
    return if_there_is_room([&] {
        const int64_t room = spaced(widest_row(graph) * K), sums_room = spaced(K * K + 1);
        std::vector<double> scratch(room * threads), sums(sums_room * threads), occupied(K), field(K);
        occupy(graph, model, beliefs, occupied.data());
        refresh(model, occupied.data(), field.data());
        double total = 0;
        for (int r = 0; r < K; ++r) total += field[r] * occupied[r] / 2;
        std::memset(pairs, 0, sizeof(double) * K * K);
        in_waves(
            (graph.nodes + kChunk - 1) / kChunk, threads,
            [&](int64_t chunk, int slot) {
                double *mine = sums.data() + sums_room * slot;
                std::memset(mine, 0, sizeof(double) * (K * K + 1));
                LATENTFIT_BY_BLOCKS(weigh, K, graph, model, field.data(), messages, chunk * kChunk,
                                std::min(graph.nodes, (chunk + 1) * kChunk), scratch.data() + room * slot, mine);
            },
            [&](int64_t, int slot) {
                const double *mine = sums.data() + sums_room * slot;
                total += mine[0];
                for (int at = 0; at < K * K; ++at) pairs[at] += mine[1 + at];
            });
        *energy = total;
    });
}
}  // namespace

LATENTFIT_EXPORT belief_sweeps(const int64_t *offsets, const int64_t *reverse, const double *weights, const double *mass,
                           int64_t nodes, const double *log_prior, const double *affinity, const double *log_affinity,
                           double scale, int blocks, int sweeps, double tol, double damping, int threads,
                           double *messages, double *beliefs, double *change, int *done) {
    const Graph graph{offsets, reverse, weights, mass, nodes};
    const Model model{log_prior, affinity, log_affinity, scale, blocks};
    return sweep(graph, model, sweeps, tol, damping, threads, messages, beliefs, change, done);
}

LATENTFIT_EXPORT belief_bethe(const int64_t *offsets, const int64_t *reverse, const double *weights, const double *mass,
                          int64_t nodes, const double *log_prior, const double *affinity, const double *log_affinity,
                          double scale, int blocks, int threads, const double *messages, const double *beliefs,
                          double *energy, double *pairs) {
    const Graph graph{offsets, reverse, weights, mass, nodes};
    const Model model{log_prior, affinity, log_affinity, scale, blocks};
    return bethe(graph, model, threads, messages, beliefs, energy, pairs);
}
