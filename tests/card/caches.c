/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caches that are not coherent. The dispatcher, the scheduler program and the executors of six
 * cores run unchanged. Each of them has a private copy of the card's memory, which is mapped at the
 * card's addresses while that one runs; all its reads and writes go to that copy. Only a fetch
 * copies a line of the memory to the private copy, and only a publish copies a line back, always
 * the whole line. So a program that forgets a fetch or a publish works with old data. If two of
 * them write to one line, the later publish undoes the other's write, which is detected when the
 * line is written back.
 *
 * The worst that a cache may do: it holds every line, and writes none back on its own. The host's
 * copies go to the memory itself. Registers are no memory. One of them runs at a time, in an order that
 * the seed determines; time is counted in turns, so that a failure comes back with its seed.
 *
 *     caches ORCHESTRATION [SEEDS]
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "aicpu.h"
#include "base/fiber.h"
#include "cann/device/card_files.h"
#include "cann/device/dispatcher.h"
#include "cann/device/fingerprint.h"
#include "core/core.h"
#include "core_port.h"
#include "pto/region.h"
#include "tests/card/drive.h"
#include "tests/fixture/random_test.h"

enum {
    LINE = 64,
    AGENTS = 1 + DRIVE_CORES, /* the scheduler, then AICs, then AIVs */
    MEMORY_BYTES = 3 << 20,
    STACK_BYTES = 256 << 10,
    BELL = 0,
    COND = 4,
    WINDOW = 64,
    ELEMENTS = 40,
    TURN_NS = 10000,
    TURNS_MAX = 400000, /* of one launch */
    CANCEL_TURNS = 2000,
};

#define CARD ((struct drive_memory *)0x120000000000ull)

uint32_t DynTileFwkBackendKernelServerInit(void *launch); /* the dispatcher */
void pto_executor_0_mix_aic(struct board_launch *launch);
void pto_executor_0_mix_aiv(struct board_launch *launch);

struct agent {
    struct fiber *fiber;
    char *view; /* private copy of the memory, mapped so that all of this program can reach it */
    /*
     * the private copy as of the last fetch or publish; differences are what this one has written
     */
    char *base;
    int file; /* of the view */
    bool is_ended;
};

static struct agent agents[AGENTS];
static char *memory;
static uint32_t now; /* index of the one that runs now */
static uint32_t window[BOARD_WINDOWS][WINDOW / 4];
static uint32_t (*program_now)(void *); /* the scheduler, or the dispatcher */
static void *call_now;
static uint64_t turns;
static uint64_t fetched, published, undone;
static uint64_t seed_now;
static const char *scene_now = "";
static uint64_t
    cancel_number;      /* number of the run that the host cancels after some turns; 0: none */
static bool is_talking; /* the host, with the run */

/* ---- turns ---- */

static void give_turn(void)
{
    fiber_yield(agents[now].fiber);
}

static void maybe_give_turn(void)
{
    if (random_below(8) == 0)
        give_turn();
}

/* ---- lines ---- */

static void report_undone(uint64_t at)
{
    const struct drive_memory *d = NULL;
    uint64_t hello = offsetof(struct board, hello), job = offsetof(struct board, job);
    uint64_t engine = (uint64_t)(uintptr_t)d->engine;
    const char *part = at < hello                          ? "the board's head"
                       : at < job                          ? "a core's hello"
                       : at < sizeof(d->board)             ? "a core's job"
                       : at < (uint64_t)(uintptr_t)d->heap ? "messages and tensors"
                       : at < engine                       ? "the heap"
                                                           : "the engine";

    if (undone++ == 0)
        fprintf(stderr,
                "%s, seed %llu: %s writes a line back, at %#llx in %s, and undoes what another one "
                "wrote "
                "into it\n",
                scene_now, (unsigned long long)seed_now, now == 0 ? "the scheduler" : "a core",
                (unsigned long long)at, part);
}

static void write_back(struct agent *a, uint64_t at)
{
    if (memcmp(a->view + at, a->base + at, LINE) == 0)
        return;
    for (uint32_t i = 0; i < LINE; i++)
        if (a->view[at + i] == a->base[at + i] && memory[at + i] != a->base[at + i]) {
            report_undone(at);
            break;
        }
    memcpy(memory + at, a->view + at, LINE);
    memcpy(a->base + at, a->view + at, LINE);
    published++;
}

/* A processor writes the line back first, as real ones do, then fetches it again. */
static void fetch(struct agent *a, uint64_t at)
{
    write_back(a, at);
    if (memcmp(a->view + at, memory + at, LINE) != 0) {
        memcpy(a->view + at, memory + at, LINE);
        fetched++;
    }
    memcpy(a->base + at, memory + at, LINE);
}

static void each_line(const void *at, uint64_t bytes, void (*each)(struct agent *, uint64_t))
{
    uint64_t begin = (uint64_t)((const char *)at - (const char *)CARD) / LINE * LINE;
    uint64_t end = (uint64_t)((const char *)at - (const char *)CARD) + bytes;

    maybe_give_turn();
    if ((uintptr_t)at < (uintptr_t)CARD || end > MEMORY_BYTES)
        drive_fail("%s: %p is no memory of the card", scene_now, at);
    for (; begin < end; begin += LINE)
        each(&agents[now], begin);
}

static void take_turn(uint32_t agent)
{
    now = agent;
    if (mmap(CARD, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, agents[agent].file,
             0) != (void *)CARD)
        drive_fail("memory cannot be mapped");
    fiber_resume(agents[agent].fiber);
    turns++;
}

/* ---- the scheduler's port ---- */

uint32_t aicpu_register(uint64_t addr)
{
    maybe_give_turn();
    return *(volatile uint32_t *)(uintptr_t)addr;
}

void aicpu_set_register(uint64_t addr, uint32_t value)
{
    *(volatile uint32_t *)(uintptr_t)addr = value;
    maybe_give_turn();
}

void aicpu_fetch(const void *at, uint64_t bytes)
{
    each_line(at, bytes, fetch);
}

/*
 * Publishes a line: writes back all changes in it. Bytes outside of `begin` to `end` must be
 * unchanged.
 */
static void write_back_all(struct agent *a, uint64_t at, uint64_t begin, uint64_t end)
{
    for (uint64_t i = at; i < at + LINE; i++)
        if ((i < begin || i >= end) && a->view[i] != memory[i]) {
            report_undone(at);
            break;
        }
    memcpy(memory + at, a->view + at, LINE);
    memcpy(a->base + at, a->view + at, LINE);
    published++;
}

/*
 * In the memory of tasks, publishes what was just written, even if the value is unchanged,
 * according to the private copy.
 */
void aicpu_publish(const void *at, uint64_t bytes)
{
    uint64_t begin = (uint64_t)((const char *)at - (const char *)CARD), end = begin + bytes;
    bool is_for_tasks = begin >= offsetof(struct drive_memory, tensor) &&
                        end <= offsetof(struct drive_memory, load);

    is_for_tasks |= begin >= offsetof(struct drive_memory, kept) &&
                    end <= offsetof(struct drive_memory, engine);
    if (!is_for_tasks) {
        each_line(at, bytes, write_back);
        return;
    }
    for (uint64_t line = begin / LINE * LINE; line < end; line += LINE)
        write_back_all(&agents[now], line, begin, end);
}

void aicpu_send(const void *at, uint64_t bytes)
{
    aicpu_publish(at, bytes);
}

void aicpu_idle(uint32_t times)
{
    (void)times;
    give_turn();
}

uint64_t aicpu_now_ns(void)
{
    return 1000000000 + turns * TURN_NS;
}

static void scheduler_main(void *none)
{
    (void)none;
    if (program_now(call_now) != 0)
        drive_fail("%s: the control processor refuses its call", scene_now);
    agents[0].is_ended = true;
}

/* ---- the executor's ---- */

static uint32_t core_index(void)
{
    return now - 1;
}

uint32_t core_block(void)
{
    return core_index() < DRIVE_CLUSTERS ? core_index() : (core_index() - DRIVE_CLUSTERS) / 2;
}

uint32_t core_sub_block(void)
{
    return core_index() < DRIVE_CLUSTERS ? 0 : (core_index() - DRIVE_CLUSTERS) % 2;
}

/* Not its index. */
uint32_t core_number(void)
{
    return 100 - core_index();
}

uint32_t core_bell(void)
{
    maybe_give_turn();
    return *(volatile uint32_t *)&window[core_number()][BELL / 4];
}

void core_set_cond(uint32_t value)
{
    *(volatile uint32_t *)&window[core_number()][COND / 4] = value;
    maybe_give_turn();
}

void core_fetch_line(const void *at)
{
    each_line(at, 1, fetch);
}

void core_publish_line(const void *at)
{
    each_line(at, 1, write_back);
}

void core_fetch_all(void)
{
    each_line(CARD, MEMORY_BYTES, fetch);
}

void core_publish_all(void)
{
    each_line(CARD, MEMORY_BYTES, write_back);
}

void core_idle(uint32_t times)
{
    (void)times;
    give_turn();
}

static void core_main(void *arg)
{
    struct agent *a = arg;

    if (core_index() < DRIVE_CLUSTERS)
        pto_executor_0_mix_aic(drive_launch(CARD));
    else
        pto_executor_0_mix_aiv(drive_launch(CARD));
    a->is_ended = true;
}

/* ---- the host talks ---- */

enum {
    TALKS = 24, /* messages */
    NUMBERS = 4,
    DEPTH = 4,
    ARENA = 640,
    QUEUE_BYTES = 2 * DEPTH * PTO_QUEUE_SLOT_BYTES + 2 * ARENA,
    COUNTERS = sizeof(struct pto_region_head), /* where they are in a region */
    REGION = 4096,                             /* where the second region is */
    PAYLOAD = COUNTERS + PTO_QUEUE_COUNTER_BYTES,
    TALK_SCALARS = 1 + PTO_QUEUE_SCALARS + PTO_REGION_SCALARS,
};

static struct pto_queue talk_queue; /* this and the next: the host's ends */
static struct pto_region talk_region;
static uint64_t talk_sent, talk_received;
static int32_t talk_turn;

static struct drive_memory *memory_of_card(void)
{
    return (struct drive_memory *)(void *)memory;
}

/* Address as seen by the program that accesses the regions. */
static void put_talk_scalars(uint64_t at, uint64_t *scalar)
{
    const uint64_t queue[] = {
        PTO_REGION_MAGIC, at,    at + PAYLOAD, QUEUE_BYTES, at + COUNTERS, PTO_QUEUE_COUNTER_BYTES,
        PTO_QUEUE_MAGIC,  DEPTH, ARENA,        ARENA,       QUEUE_BYTES,   PTO_QUEUE_COUNTER_BYTES
    };
    const uint64_t region[] = { PTO_REGION_MAGIC,       at + REGION, at + REGION + PAYLOAD, 256,
                                at + REGION + COUNTERS, 128 };

    memcpy(scalar, queue, sizeof(queue));
    memcpy(scalar + PTO_QUEUE_SCALARS, region, sizeof(region));
}

static void begin_talk(uint64_t *scalar)
{
    uint64_t own[TALK_SCALARS - 1];

    memset(memory_of_card()->talk, 0, sizeof(memory_of_card()->talk));
    put_talk_scalars((uint64_t)(uintptr_t)CARD->talk, scalar);
    put_talk_scalars((uint64_t)(uintptr_t)memory_of_card()->talk, own);
    if (pto_queue_init(&talk_queue, own, false) < 0 ||
        pto_region_init(&talk_region, own + PTO_QUEUE_SCALARS) < 0)
        drive_fail("%s: there is no queue", scene_now);
    talk_queue.region.id = 1; /* it wakes nobody */
    talk_sent = talk_received = 0;
    talk_turn = 0;
}

/* Every other message is for the orchestration itself. */
static uint32_t elements_of(uint64_t number)
{
    return number % 2 == 0 ? ELEMENTS : 9;
}

static void send_one(void)
{
    struct pto_message m = { 0 };

    if (pto_queue_reserve(&talk_queue, talk_sent < TALKS ? 4 * elements_of(talk_sent) : 0, &m) < 0)
        return;
    for (uint32_t i = 0; i < m.bytes / 4; i++)
        ((int32_t *)m.data)[i] = (int32_t)(1000 * talk_sent + i);
    (void)pto_queue_publish(&talk_queue, &m,
                            talk_sent < TALKS ? PTO_MESSAGE_DATA : PTO_MESSAGE_STOP);
    talk_sent++;
}

static void receive_one(void)
{
    struct pto_message m = { 0 };
    int status = pto_queue_peek(&talk_queue, &m);
    bool is_right = status >= 0 && m.bytes == 4 * elements_of(talk_received);

    if (status == PTO_EAGAIN)
        return;
    for (uint32_t i = 0; is_right && i < m.bytes / 4; i++)
        is_right =
            ((const int32_t *)m.data)[i] ==
            (int32_t)(1000 * talk_received + i) + (m.bytes == 4 * ELEMENTS ? 2 * (int32_t)i : 0);
    if (!is_right)
        drive_fail("%s, seed %llu: answer %llu is wrong, or none (%d)", scene_now,
                   (unsigned long long)seed_now, (unsigned long long)talk_received, status);
    (void)pto_queue_release(&talk_queue, &m);
    talk_received++;
}

/* Sends the next number when an answer has arrived, and ends the conversation at the end. */
static void append_number(void)
{
    int32_t answer, number = 7 * talk_turn;

    if (pto_region_value(pto_region_counter(&talk_region, 64)) != talk_turn)
        return;
    memcpy(&answer, pto_region_payload(&talk_region, 64, sizeof(answer)), sizeof(answer));
    if (talk_turn != 0 && answer != 7 * (talk_turn - 1) + 1)
        drive_fail("%s, seed %llu: the answer to number %d is %d", scene_now,
                   (unsigned long long)seed_now, talk_turn, answer);
    if (talk_turn++ == NUMBERS) {
        pto_region_head_of(&talk_region)->is_closed = 1;
        return;
    }
    memcpy(pto_region_payload(&talk_region, 0, sizeof(number)), &number, sizeof(number));
    *pto_region_counter(&talk_region, 0) = talk_turn;
}

static void talk(void)
{
    if (random_below(4) != 0)
        return;
    if (talk_received == TALKS && talk_sent == TALKS + 1 && talk_turn <= NUMBERS)
        append_number();
    else if (talk_sent <= TALKS && random_below(2) == 0)
        send_one();
    else if (talk_received < TALKS)
        receive_one();
}

/* ---- launches ---- */

static void launch_program(uint32_t (*program)(void *), void *call, bool is_run)
{
    uint32_t count = is_run ? AGENTS : 1, left = count;

    program_now = program;
    call_now = call;
    turns = 0;
    memset(window, 0, sizeof(window));
    for (uint32_t i = 0; i < count; i++) {
        agents[i].is_ended = false;
        fiber_start(agents[i].fiber, i == 0 ? scheduler_main : core_main, &agents[i]);
    }
    while (left != 0) {
        uint32_t agent = random_below(count);

        if (agents[agent].is_ended)
            continue;
        take_turn(agent);
        if (is_run && is_talking)
            talk();
        if (turns == CANCEL_TURNS && is_run && cancel_number != 0)
            ((struct drive_memory *)(void *)memory)
                ->board.requests.cancelled[cancel_number % BOARD_RUNS] = cancel_number;
        left -= agents[agent].is_ended;
        if (turns > TURNS_MAX)
            drive_fail("%s, seed %llu: no end after %llu turns", scene_now,
                       (unsigned long long)seed_now, (unsigned long long)turns);
    }
}

static void launch(struct board_call *call, bool is_run)
{
    launch_program(pto_scheduler, call, is_run);
}

/* ---- kernels ---- */

static int32_t *data_of(int64_t *args, int index)
{
    return pto_tensor_data(pto_arg_tensor(args, index));
}

static void add(int64_t *args)
{
    for (uint32_t i = 0; i < ELEMENTS; i++)
        data_of(args, 2)[i] = data_of(args, 0)[i] + data_of(args, 1)[i];
}

static void scale(int64_t *args)
{
    for (uint32_t i = 0; i < ELEMENTS; i++)
        data_of(args, 0)[i] *= (int32_t)args[1];
}

/* Each of them has a line of its own. */
static void block(int64_t *args)
{
    int32_t *line = data_of(args, 0) + 16 * pto_block_index(args);

    *line = 100 * pto_block_count(args) + pto_block_index(args);
}

static void lane(int64_t *args)
{
    bool is_aic = core_index() < DRIVE_CLUSTERS;

    data_of(args, 0)[is_aic ? 32 : 16 * pto_sub_block(args)] += 1;
}

static void defer(int64_t *args)
{
    data_of(args, 1)[0] = (int32_t)args[2];
    for (uint32_t i = 0; i < 3; i++) /* they take more than one line */
        (void)pto_defer(args, (uint32_t *)(void *)data_of(args, 0), (uint32_t)args[2]);
}

static void raise_counter(int64_t *args)
{
    *data_of(args, 1) = 10 * (int32_t)args[2];
    *data_of(args, 0) = (int32_t)args[2];
}

static void nothing(int64_t *args)
{
    (void)args;
}

/* One element after a tensor, and after the memory that is allocated for it. */
static void overrun(int64_t *args)
{
    add(args);
    data_of(args, 2)[256] = 0;
}

static const pto_kernel_fn kernels[] = { add,   scale,         block,   lane,
                                         defer, raise_counter, nothing, overrun };
static const uint32_t core_types[] = { PTO_CORE_TYPES, PTO_CORE_AIV, PTO_CORE_AIV, PTO_CORE_TYPES,
                                       PTO_CORE_AIV,   PTO_CORE_AIV, PTO_CORE_AIV, PTO_CORE_AIV };

/* ---- scenes ---- */

static int32_t *tensor(uint32_t index)
{
    return memory_of_card()->tensor[index];
}

static void expect(uint32_t index, uint32_t element, int32_t wanted)
{
    if (tensor(index)[element] != wanted)
        drive_fail("%s, seed %llu: element %u of tensor %u is %d, and not %d: some line was not "
                   "published, or not fetched",
                   scene_now, (unsigned long long)seed_now, element, index, tensor(index)[element],
                   wanted);
}

enum { TIMES = 6 };

static void check_vector(void)
{
    for (int32_t i = 0; i < ELEMENTS; i++)
        expect(2, (uint32_t)i, 3 * (i + 2 * i) + 2 * i);
}

static void check_fan(void)
{
    for (int32_t i = 0; i < ELEMENTS; i++)
        expect(6, (uint32_t)i, 27 * (i + 2 * i + 3 * i + 4 * i));
}

static void check_filled(void)
{
    for (int32_t i = 0; i < ELEMENTS; i++)
        expect(0, (uint32_t)i, i + 7 * TIMES);
}

static void check_elements(void)
{
    int32_t first = 0, second = 1;

    for (int32_t i = 0; i < TIMES; i++) {
        second *= 2;
        first = second + i;
    }
    expect(0, 0, first);
    expect(0, 1, second);
    expect(2, 1, second + 2);
}

static void check_teams(void)
{
    for (int32_t i = 0; i < 4; i++)
        expect(1, (uint32_t)(16 * i), 400 + i);
    for (int32_t i = 0; i < 3; i++)
        expect(0, (uint32_t)(16 * i), 16 * i + TIMES);
    expect(2, 16, 16 + TIMES + 401);
}

static void check_deferred(void)
{
    expect(2, 0, TIMES + 10 * TIMES);
    expect(3, 0, TIMES);
}

static void check_nothing(void)
{
}

static void check_talk(void)
{
    if (talk_turn <= NUMBERS)
        drive_fail("%s, seed %llu: the host has said %d numbers only", scene_now,
                   (unsigned long long)seed_now, talk_turn);
}

static const struct {
    const char *name;
    void (*check)(void);
    uint32_t tensors;
    int status;
    bool is_streamed_only; /* accesses of elements and conditions need tasks to run in between */
} scenes[] = {
    { "deferred", check_deferred, 8, PTO_OK, true }, /* first: on cores that had no job yet */
    { "vector", check_vector, 8, PTO_OK, false },
    { "apart", check_nothing, 0, PTO_OK, false },
    { "fan", check_fan, 8, PTO_OK, false },
    { "filled", check_filled, 1, PTO_OK, false },
    { "elements", check_elements, 8, PTO_OK, true },
    { "teams", check_teams, 3, PTO_OK, false },
    { "talk", check_talk, 8, PTO_OK, true },
    { "endless", check_nothing, 1, PTO_ECANCELED, true },
    { "overrun", check_nothing, 2, PTO_EOVERRUN, false },
    { "unwritten", check_nothing, 2, PTO_EUNWRITTEN, false },
};

/* Tasks in a row, each with its arguments, up to the last byte. */
static bool is_reported(uint64_t bytes)
{
    const char *recorded = memory_of_card()->recorded.recorded;
    uint64_t at = 0;

    while (at + sizeof(struct chip_task) <= bytes) {
        const struct chip_task *task = (const struct chip_task *)(const void *)(recorded + at);

        if (task->tensor_count > DRIVE_TENSORS || task->scalar_count > 2 || task->dep_count != 0)
            return false;
        at += sizeof(*task) + task->file_bytes + task->tensor_count * sizeof(struct chip_argument) +
              task->scalar_count * sizeof(uint64_t) +
              ((task->flags & CHIP_TASK_HAS_OPERAND) != 0 ? sizeof(struct chip_argument) : 0);
    }
    return at == bytes;
}

static bool is_dumped(uint64_t bytes)
{
    const char *dumped = memory_of_card()->recorded.dumped;
    uint64_t at = 0;

    while (at + sizeof(struct chip_dump) <= bytes) {
        const struct chip_dump *dump = (const struct chip_dump *)(const void *)(dumped + at);

        if (dump->index > 100000 || dump->bytes > sizeof(tensor(0)[0]) * ELEMENTS)
            return false;
        at += sizeof(*dump) + (dump->bytes + 7) / 8 * 8;
    }
    return at == bytes;
}

static void check_record(void)
{
    const struct board_record *head = &memory_of_card()->recorded.head;
    bool is_right = head->count != 0 && head->count < 100000 && head->edge_count <= DRIVE_EDGES;

    for (uint64_t i = 0; is_right && i < head->count && i < DRIVE_RECORDS; i++)
        is_right = memory_of_card()->recorded.record[i].kind <= TRACE_CPU &&
                   memory_of_card()->recorded.record[i].time - head->begin_cycles <
                       head->end_cycles - head->begin_cycles;
    for (uint64_t i = 0; is_right && i < head->edge_count; i++)
        is_right =
            memory_of_card()->recorded.edge[i].before < memory_of_card()->recorded.edge[i].after;
    for (uint64_t i = 0; is_right && i < head->scope_count; i++)
        is_right = strncmp(memory_of_card()->recorded.scope[i].site, "orchestration.c", 16) == 0 ||
                   strncmp(memory_of_card()->recorded.scope[i].site, "(unknown)", 10) == 0;
    is_right = is_right && head->task_bytes <= DRIVE_TOLD && head->dumped_bytes <= DRIVE_DUMPED &&
               is_reported(head->task_bytes) && is_dumped(head->dumped_bytes);
    if (!is_right)
        drive_fail("%s, seed %llu: what was recorded is not there", scene_now,
                   (unsigned long long)seed_now);
}

static bool is_for_guards(uint32_t scene)
{
    return scenes[scene].status == PTO_EOVERRUN || scenes[scene].status == PTO_EUNWRITTEN;
}

static void run_once(struct drive *d, uint32_t scene)
{
    uint64_t scalar[TALK_SCALARS] = { TIMES };
    const struct run_ended *ended;

    is_talking = scenes[scene].check == check_talk;
    begin_talk(scalar + 1);
    for (uint32_t k = 0; k < DRIVE_TENSORS; k++)
        for (int32_t i = 0; i < 1024; i++)
            tensor(k)[i] = (int32_t)(k + 1) * i;
    cancel_number = scenes[scene].status == PTO_ECANCELED ? d->runs + 1 : 0;
    d->has_guards = seed_now % 2 == 0 || is_for_guards(scene);
    /*
     * The dump of a tensor fetches it, which would discard writes that should have been published.
     */
    d->is_recorded = seed_now % 3 != 1;
    ended = drive_run(d, scenes[scene].tensors, ELEMENTS, scalar, TALK_SCALARS);
    if (memory_of_card()->board.live.beats == 0)
        drive_fail("%s, seed %llu: there was no sign of life", scene_now,
                   (unsigned long long)seed_now);
    if (ended->failure.status != (d->purpose != CHIP_BUILD ? scenes[scene].status : PTO_OK))
        drive_fail("%s, seed %llu: the run fails with %d, fault %u", scene_now,
                   (unsigned long long)seed_now, ended->failure.status, ended->failure.kind);
    if (d->purpose != CHIP_BUILD) {
        scenes[scene].check();
        if (d->is_recorded)
            check_record();
    }
}

/* The second run finds what the first run has left in the caches. */
static void play(struct drive *d, const char *path, uint32_t scene)
{
    scene_now = scenes[scene].name;
    drive_load(d, path, scene_now, kernels, core_types, sizeof(kernels) / sizeof(kernels[0]));
    run_once(d, scene);
    run_once(d, scene);
    drive_unload(d);
}

/* A refused message leaves nothing in the scheduler's cache that overwrites the next one. */
static void send_damaged(struct drive *d)
{
    const uint64_t times = TIMES;

    *d->last_task += 1; /* looked at when all else is */
    d->expected = PTO_EFORMAT;
    (void)drive_run(d, DRIVE_TENSORS, ELEMENTS, &times, 1);
    if (memory_of_card()->board.answer.status != PTO_EFORMAT)
        drive_fail("%s, seed %llu: a damaged graph is not refused", scene_now,
                   (unsigned long long)seed_now);
    d->expected = 0;
    *d->last_task -= 1;
}

/* A graph that is built once and launched twice, from where it is kept or as the host sends it. */
static void play_kept(struct drive *d, const char *path, uint32_t scene, bool is_sent)
{
    scene_now = scenes[scene].name;
    drive_load(d, path, scene_now, kernels, core_types, sizeof(kernels) / sizeof(kernels[0]));
    d->purpose = CHIP_BUILD;
    run_once(d, scene);
    drive_keep(d);
    if (is_sent)
        drive_send(d);
    d->purpose = CHIP_LAUNCH;
    if (is_sent)
        send_damaged(d);
    run_once(d, scene);
    run_once(d, scene);
    d->purpose = CHIP_RUN;
    drive_drop(d);
    drive_unload(d);
}

/*
 * The dispatcher writes received programs to the disk. The second program is at the address of the
 * first one.
 */
static void play_dispatcher(void)
{
    struct drive_memory *m = memory_of_card();
    struct dispatcher_args *args = (struct dispatcher_args *)(void *)m->message;
    struct dispatcher_launch call = { .args = (uint64_t)(uintptr_t)CARD->message };
    char path[CARD_FILE_PATH];

    scene_now = "dispatcher";
    for (uint32_t round = 0; round < 2; round++) {
        *args = (struct dispatcher_args){ .inner = (uint64_t)(uintptr_t)CARD->load,
                                          .inner_bytes = 1000 + round,
                                          .magic = DISPATCHER_MAGIC,
                                          .version = DISPATCHER_VERSION };
        snprintf(args->name, sizeof(args->name), "dispatched-%ld-%u", (long)getpid(), round);
        memset(m->load, (int)(seed_now + round), args->inner_bytes);
        if (card_file_path(path, CARD_FOLDER_OWN, args->name) < 0)
            drive_fail("%s: it is not known where this program lies", scene_now);
        launch_program(DynTileFwkBackendKernelServerInit, &call, false);
        (void)unlink(path);
        if (args->answer_magic != DISPATCHER_MAGIC || args->step != DISPATCHER_DONE ||
            args->bytes != args->inner_bytes ||
            args->fingerprint != fingerprint_of(m->load, args->inner_bytes))
            drive_fail("%s, seed %llu: what it answers is not what was sent: some line was not "
                       "published, or not fetched",
                       scene_now, (unsigned long long)seed_now);
    }
}

static void *map_file(int file, void *at)
{
    void *map = mmap(at, MEMORY_BYTES, PROT_READ | PROT_WRITE,
                     MAP_SHARED | (at != NULL ? MAP_FIXED_NOREPLACE : 0), file, 0);

    if (map == MAP_FAILED)
        drive_fail("memory cannot be mapped");
    return map;
}

int main(int argc, char **argv)
{
    uint64_t seeds = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint64_t windows[BOARD_WINDOWS] = { 0 };
    struct drive drive = { .at = CARD,
                           .engine_bytes = MEMORY_BYTES - sizeof(struct drive_memory),
                           .launch = launch,
                           .is_recorded = true };

    if (argc < 2)
        drive_fail("usage: caches ORCHESTRATION [SEEDS]");
    memory = aligned_alloc(4096, MEMORY_BYTES);
    memset(memory, 0xa5, MEMORY_BYTES); /* nobody gets zeros */
    drive.memory = memory_of_card();
    for (uint32_t i = 0; i < AGENTS; i++) {
        agents[i].file = memfd_create("view", MFD_CLOEXEC);
        if (agents[i].file < 0 || ftruncate(agents[i].file, MEMORY_BYTES) != 0 ||
            fiber_create(STACK_BYTES, &agents[i].fiber) < 0)
            drive_fail("there is no memory for caches");
        agents[i].view = map_file(agents[i].file, NULL);
        agents[i].base = malloc(MEMORY_BYTES);
        memcpy(agents[i].base, memory, MEMORY_BYTES);
        memcpy(agents[i].view, memory, MEMORY_BYTES);
    }
    (void)map_file(agents[0].file, CARD);
    for (uint32_t i = 0; i < BOARD_WINDOWS; i++)
        windows[i] = (uint64_t)(uintptr_t)window[i];
    for (seed_now = 1; seed_now <= seeds; seed_now++) {
        chance.state = seed_now;
        play_dispatcher();
        drive_open(&drive, windows, BELL, COND);
        for (uint32_t scene = 0; scene < sizeof(scenes) / sizeof(scenes[0]); scene++) {
            play(&drive, argv[1], scene);
            if (!scenes[scene].is_streamed_only) {
                play_kept(&drive, argv[1], scene, false);
                play_kept(&drive, argv[1], scene, true);
            }
        }
        drive_close(&drive);
    }
    if (undone != 0)
        drive_fail("%llu lines were written back over what others had written",
                   (unsigned long long)undone);
    printf("%llu seeds, %zu scenes: %llu lines published, %llu fetched, none undone\n",
           (unsigned long long)seeds, sizeof(scenes) / sizeof(scenes[0]),
           (unsigned long long)published, (unsigned long long)fetched);
    return 0;
}
