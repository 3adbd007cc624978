/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SuperGlue: handles with versions, dependencies inferred from the accesses.
 * Whoever submits is one of the workers, in the barrier at the end.
 */
#include "peer.h"

#include <cstdio>
#include <memory>
#include <sched.h>
#include <sg/superglue.hpp>
#include <sg/option/access_readwrite.hpp>

namespace
{

const char *const variants[] = { "handles", nullptr };

cpu_set_t allowed;

/* SuperGlue pins its threads to CPU 0, 1, ...: here to those that the process may use. */
struct place {
    static void init()
    {
    }
    static void pin_main_thread()
    {
        pin(0);
    }
    static void pin_workerthread(int id)
    {
        pin(id);
    }
    static void pin(int id)
    {
        cpu_set_t one;

        CPU_ZERO(&one);
        for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &allowed) && seen++ == id % CPU_COUNT(&allowed))
                CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof(one), &one);
    }
};

struct options : public sg::DefaultOptions<options> {
    typedef sg::ReadWrite AccessInfoType;
    typedef Disable Lockable;
    typedef place ThreadAffinity;
};

std::unique_ptr<sg::SuperGlue<options>> superglue;
std::unique_ptr<sg::Handle<options>[]> handle;

template <int accesses> struct task : public sg::Task<options, accesses> {
    uint32_t index;

    task(const peer_task *t, uint32_t i) : index(i)
    {
        for (int32_t k = 0; k < t->read_count; k++)
            this->register_access(sg::ReadWrite::read, handle[t->read[k]]);
        if (t->write >= 0)
            this->register_access(sg::ReadWrite::write, handle[t->write]);
    }
    void run()
    {
        PEER_BODY(index);
    }
};

struct free_task : public sg::Task<options, 0> {
    uint32_t index;

    explicit free_task(uint32_t i) : index(i)
    {
    }
    void run()
    {
        PEER_BODY(index);
    }
};

const char *version()
{
    return "-"; /* it has none */
}

bool open_superglue(uint32_t workers)
{
    sched_getaffinity(0, sizeof(allowed), &allowed);
    superglue = std::make_unique<sg::SuperGlue<options>>(static_cast<int>(workers));
    return true;
}

bool prepare(const peer_load *load, uint32_t variant)
{
    (void)variant;
    handle = std::make_unique<sg::Handle<options>[]>(load->item_count);
    return true;
}

uint64_t run(const peer_load *load, uint32_t variant)
{
    uint64_t start = peer_now_ns();

    (void)variant;
    for (uint32_t i = 0; i < load->task_count; i++) {
        const peer_task *t = &load->task[i];

        switch (t->read_count + (t->write >= 0)) {
        case 0:
            superglue->submit(new free_task(i));
            break;
        case 1:
            superglue->submit(new task<1>(t, i));
            break;
        case 2:
            superglue->submit(new task<2>(t, i));
            break;
        case 3:
            superglue->submit(new task<3>(t, i));
            break;
        case 4:
            superglue->submit(new task<4>(t, i));
            break;
        default:
            superglue->submit(new task<6>(t, i));
            break;
        }
    }
    superglue->barrier();
    return peer_now_ns() - start;
}

void discard()
{
    handle.reset();
}

void close_superglue()
{
    superglue.reset();
}

} // namespace

extern "C" const peer_ops peer = { "SuperGlue", variants, version, open_superglue,
                                   prepare,     run,      discard, close_superglue };
