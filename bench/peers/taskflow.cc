/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taskflow, edges made by hand: `build` makes a graph and runs it, `again` runs
 * it once more, `async` submits one task after the other with its predecessors.
 * Its workers are threads of their own; whoever submits waits for them.
 */
#include "peer.h"

#include <cstdio>
#include <memory>
#include <taskflow/taskflow.hpp>
#include <vector>

namespace
{

enum { BUILD, AGAIN, ASYNC };
const char *const variants[] = { "build", "again", "async", nullptr };

std::unique_ptr<tf::Executor> executor;
std::unique_ptr<tf::Taskflow> built;
std::vector<tf::AsyncTask> submitted;

const char *version()
{
    return tf::version();
}

bool open_executor(uint32_t workers)
{
    executor = std::make_unique<tf::Executor>(workers);
    return true;
}

void build(const peer_load *load)
{
    std::vector<tf::Task> task(load->task_count);

    built = std::make_unique<tf::Taskflow>();
    for (uint32_t i = 0; i < load->task_count; i++) {
        task[i] = built->emplace([i] {
            (void)i;
            PEER_BODY(i);
        });
        for (uint32_t k = load->pred_begin[i]; k < load->pred_begin[i + 1]; k++)
            task[load->pred[k]].precede(task[i]);
    }
}

void submit_all(const peer_load *load)
{
    std::vector<tf::AsyncTask> before;

    for (uint32_t i = 0; i < load->task_count; i++) {
        before.clear();
        for (uint32_t k = load->pred_begin[i]; k < load->pred_begin[i + 1]; k++)
            before.push_back(submitted[load->pred[k]]);
        submitted.push_back(executor->silent_dependent_async(
            [i] {
                (void)i;
                PEER_BODY(i);
            },
            before.begin(), before.end()));
    }
    executor->wait_for_all();
}

bool prepare(const peer_load *load, uint32_t variant)
{
    if (variant == AGAIN) {
        build(load);
        executor->run(*built).wait();
    }
    submitted.reserve(load->task_count);
    return true;
}

uint64_t run(const peer_load *load, uint32_t variant)
{
    uint64_t start = peer_now_ns();

    if (variant == BUILD)
        build(load);
    if (variant == ASYNC)
        submit_all(load);
    else
        executor->run(*built).wait();
    return peer_now_ns() - start;
}

void discard()
{
    built.reset();
    submitted.clear();
}

void close_executor()
{
    executor.reset();
}

} // namespace

extern "C" const peer_ops peer = { "Taskflow", variants, version, open_executor,
                                   prepare,    run,      discard, close_executor };
