/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oneTBB flow graph: a continue_node for each task, every edge made by hand.
 * `build` counts making the graph and running it, `again` running it once more.
 */
#include "peer.h"

#include <cstdio>
#include <deque>
#include <memory>
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/version.h>

namespace flow = oneapi::tbb::flow;

namespace
{

enum { BUILD, AGAIN };
const char *const variants[] = { "build", "again", nullptr };

using node = flow::continue_node<flow::continue_msg>;

struct graph {
    flow::graph flow;
    std::deque<node> nodes; /* does not move them */
};

std::unique_ptr<oneapi::tbb::global_control> control;
std::unique_ptr<oneapi::tbb::task_arena> arena;
std::unique_ptr<graph> built;

const char *version()
{
    return TBB_VERSION_STRING;
}

bool open_arena(uint32_t workers)
{
    control = std::make_unique<oneapi::tbb::global_control>(
        oneapi::tbb::global_control::max_allowed_parallelism, workers);
    arena = std::make_unique<oneapi::tbb::task_arena>(static_cast<int>(workers));
    arena->initialize();
    return true;
}

void build(const peer_load *load)
{
    built = std::make_unique<graph>();
    for (uint32_t i = 0; i < load->task_count; i++) {
        built->nodes.emplace_back(built->flow, [i](const flow::continue_msg &) {
            (void)i;
            PEER_BODY(i);
            return flow::continue_msg();
        });
        for (uint32_t k = load->pred_begin[i]; k < load->pred_begin[i + 1]; k++)
            flow::make_edge(built->nodes[load->pred[k]], built->nodes[i]);
    }
}

void run_built(const peer_load *load)
{
    for (uint32_t i = 0; i < load->task_count; i++)
        if (load->pred_begin[i] == load->pred_begin[i + 1])
            built->nodes[i].try_put(flow::continue_msg());
    built->flow.wait_for_all();
}

bool prepare(const peer_load *load, uint32_t variant)
{
    arena->execute([&] {
        if (variant == AGAIN) {
            build(load);
            run_built(load);
        }
    });
    return true;
}

uint64_t run(const peer_load *load, uint32_t variant)
{
    uint64_t ns = 0;

    arena->execute([&] {
        uint64_t start = peer_now_ns();

        if (variant == BUILD)
            build(load);
        run_built(load);
        ns = peer_now_ns() - start;
    });
    return ns;
}

void discard()
{
    arena->execute([] { built.reset(); });
}

void close_arena()
{
    arena.reset();
    control.reset();
}

} // namespace

extern "C" const peer_ops peer = { "oneTBB", variants, version, open_arena,
                                   prepare,  run,      discard, close_arena };
