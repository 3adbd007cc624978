/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A level-3 worker whose chips are cards, with cases that scenes do not show: conversations through
 * regions and queues, windows that are copied and that are tensors, domains without bytes, a child
 * that is killed in the middle of each of these, and whether everything works after the child was
 * started again.
 *
 *     level PLATFORM ARTEFACT PART...    talk, windows, numbers, beside, pause, kill; sweep: killed at the first call of each name
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <pto/pto.h>
#include <pto/worker_domain.h>
#include <pto/worker_region.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/standin/level/level_tasks.h"
#include "tests/standin/client.h"

enum {
    CHIPS = 2,
    COUNT = 8,
    MESSAGES = 60,
    ROUNDS = 20,
    NAMES = 63,
    NAME_BYTES = 64,
    LATE_S = 60,
    HANG_SECONDS = 240
};
#define MS 1000000ull
#define STALL_NS (1500 * MS)

static struct pto_worker *worker;
static struct pto_error error;
static uint64_t callable;
static const char *platform, *artefact;
static int32_t *numbers; /* COUNT numbers for each chip */
static bool is_card;

#define EXPECT(what)                                                                    \
    do {                                                                                \
        if (!(what))                                                                    \
            fail("%s:%d: %s does not hold: %s", __FILE__, __LINE__, #what, error.text); \
    } while (0)
#define EXPECT_STATUS(what, wanted)                                                               \
    do {                                                                                          \
        int got_ = (what);                                                                        \
        if (got_ != (wanted))                                                                     \
            fail("%s:%d: %s is %d (%s): %s", __FILE__, __LINE__, #what, got_, pto_strerror(got_), \
                 error.text);                                                                     \
    } while (0)

static void nap_ns(uint64_t ns)
{
    (void)nanosleep(&(struct timespec){ (time_t)(ns / 1000000000), (long)(ns % 1000000000) }, NULL);
}

static void open_worker(void)
{
    struct pto_worker_params params;
    struct pto_worker_callable code;
    void *memory;

    pto_worker_params_init(&params);
    params.platform = platform;
    params.chip_count = CHIPS;
    params.memory_max = 1ull << 30;
    params.clusters = 1;
    params.startup_timeout_ns = HANG_SECONDS * 1000 * MS;
    params.error = &error;
    EXPECT_STATUS(pto_worker_open(&params, &worker), PTO_OK);
    pto_worker_callable_init(&code);
    code.kind = PTO_CHILD_CHIP;
    code.path = artefact;
    code.error = &error;
    EXPECT_STATUS(pto_worker_register(worker, &code, &callable), PTO_OK);
    EXPECT_STATUS(pto_worker_alloc(worker, CHIPS * COUNT * sizeof(int32_t), &memory), PTO_OK);
    numbers = memory;
}

/* ---- tasks ---- */

struct call {
    uint32_t chip;
    struct pto_tensor tensor;
    uint64_t scalar[SCALARS];
    uint32_t addresses; /* bit k: scalar k is one */
    uint64_t stall_ns;  /* 0: the default */
};

static struct call call_of(uint32_t chip, enum task task)
{
    const uint32_t shape[] = { COUNT };
    struct call call = { .chip = chip, .scalar = { task } };

    call.tensor = pto_tensor_external(numbers + chip * COUNT, shape, 1, PTO_INT32);
    return call;
}

static struct pto_args args_of(const struct call *call)
{
    struct pto_args args;

    pto_args_init(&args);
    pto_add_inout(&args, &call->tensor);
    for (int i = 0; i < SCALARS; i++)
        if ((call->addresses >> i & 1) != 0)
            pto_add_address(&args, call->scalar[i]);
        else
            pto_add_scalar(&args, call->scalar[i]);
    return args;
}

static void submit_one(struct pto_level *level, void *context)
{
    const struct call *call = context;
    struct pto_args args = args_of(call);
    struct pto_run_options options;

    pto_run_options_init(&options);
    options.stall_timeout_ns = call->stall_ns;
    (void)pto_level_set_run_options(level, &options);
    (void)pto_level_submit(level, callable, PTO_ON(call->chip), &args);
}

static void submit_group(struct pto_level *level, void *context)
{
    const struct call *call = context;
    const uint32_t chips[] = { call[0].chip, call[1].chip };
    struct pto_args args[] = { args_of(&call[0]), args_of(&call[1]) };

    (void)pto_level_submit_group(level, callable, chips, args, CHIPS, NULL);
}

static int run(pto_level_fn fn, void *context)
{
    static struct pto_worker_report report;
    int status;

    pto_worker_report_init(&report);
    status = pto_worker_run(worker, fn, context, &report);
    error = report.error;
    return status;
}

static struct pto_worker_run *launch(struct call *call)
{
    struct pto_worker_run *handle;

    EXPECT_STATUS(pto_worker_launch(worker, submit_one, call, &handle), PTO_OK);
    return handle;
}

static int finish(struct pto_worker_run *handle)
{
    static struct pto_worker_report report;

    (void)pto_worker_run_wait(handle, 0);
    pto_worker_report_init(&report);
    (void)pto_worker_run_finish(handle, &report);
    error = report.error;
    return report.error.status;
}

/* A task that uses only its tensor. */
static void expect_works(uint32_t chip)
{
    struct call call = call_of(chip, ADD);

    for (int i = 0; i < COUNT; i++)
        numbers[chip * COUNT + i] = i;
    call.scalar[1] = 5;
    EXPECT_STATUS(run(submit_one, &call), PTO_OK);
    for (int i = 0; i < COUNT; i++)
        EXPECT(numbers[chip * COUNT + i] == i + 5);
}

/* ---- children ---- */

static void signal_child(uint32_t chip, int number)
{
    struct pto_child_info info;

    pto_child_info_init(&info);
    EXPECT_STATUS(pto_worker_child(worker, chip, &info), PTO_OK);
    EXPECT(kill(info.pid, number) == 0);
}

static void kill_child(uint32_t chip)
{
    signal_child(chip, SIGKILL);
}

static void await_death(uint32_t chip)
{
    struct pto_child_info info;

    pto_child_info_init(&info);
    do {
        nap_ns(MS / 10);
        EXPECT_STATUS(pto_worker_child(worker, chip, &info), PTO_OK);
    } while (info.state != PTO_CHILD_DEAD);
}

static void reopen(uint32_t chip)
{
    await_death(chip);
    EXPECT_STATUS(pto_worker_reopen(worker, chip, &error), PTO_OK);
    expect_works(chip);
}

/* ---- regions ---- */

static struct pto_worker_region *open_region(struct call *call)
{
    struct pto_worker_region_params params;
    struct pto_worker_region *region;

    pto_worker_region_params_init(&params);
    params.chip = call->chip;
    params.payload_bytes = 256;
    params.counter_bytes = 128;
    params.error = &error;
    EXPECT_STATUS(pto_worker_region_open(worker, &params, &region), PTO_OK);
    EXPECT_STATUS(pto_worker_region_scalars(region, call->scalar + 1), PTO_OK);
    call->addresses = PTO_REGION_ADDRESSES << 1;
    return region;
}

static void await_counter(struct pto_worker_region *region, int32_t value)
{
    const struct pto_wait_for counter = { 64, PTO_COMPARE_GE, value };

    EXPECT_STATUS(pto_worker_region_wait(region, counter, 0, &error), PTO_OK);
}

/*
 * The task answers each number. It does not count as a stall if the host takes longer than a task
 * may make no progress.
 */
static void say(struct pto_worker_region *region, int32_t turn, int32_t number)
{
    const struct pto_signal_at counter = { 0, PTO_SIGNAL_ADD, 1 };
    int32_t answer = -1;

    EXPECT_STATUS(pto_worker_region_write(region, 0, &number, sizeof(number)), PTO_OK);
    EXPECT_STATUS(pto_worker_region_notify(region, counter), PTO_OK);
    await_counter(region, turn);
    EXPECT_STATUS(pto_worker_region_read(region, 64, &answer, sizeof(answer)), PTO_OK);
    EXPECT(answer == number + (number != 0));
}

static void converse(uint32_t chip)
{
    struct call call = call_of(chip, TALK);
    struct pto_worker_region *region = open_region(&call);
    struct pto_worker_run *handle;
    int32_t value = -1;

    EXPECT_STATUS(pto_worker_region_read(region, 128, &value, sizeof(value)), PTO_OK);
    EXPECT(value == 0); /* memory of a card cannot */
    call.stall_ns = 1000 * MS;
    handle = launch(&call);
    for (int32_t turn = 1; turn <= 10; turn++) {
        say(region, turn, 1000 - turn);
        if (turn == 5)
            nap_ns(1700 * MS);
    }
    EXPECT_STATUS(pto_worker_region_counter(region, 0, &value), PTO_OK);
    EXPECT(value == 10);
    EXPECT_STATUS(pto_worker_region_counter(region, 64, &value), PTO_OK);
    EXPECT(value == 10);
    say(region, 11, 0);
    EXPECT_STATUS(finish(handle), PTO_OK);
    EXPECT_STATUS(pto_worker_region_write(region, 254, &value, sizeof(value)), PTO_EMEMORY);
    EXPECT_STATUS(pto_worker_region_counter(region, 128, &value), PTO_EINVAL);
    EXPECT_STATUS(pto_worker_region_close(region), PTO_OK);
}

/* The host closes the region: the task is notified, and what it wrote is there. */
static void leave(uint32_t chip)
{
    const struct pto_wait_for never = { 64, PTO_COMPARE_EQ, 5 };
    struct call call = call_of(chip, HOLD);
    struct pto_worker_region *region = open_region(&call);
    struct pto_worker_run *handle = launch(&call);
    int32_t value = 0;

    await_counter(region, 1);
    EXPECT_STATUS(pto_worker_region_wait(region, never, 3 * MS, &error), PTO_ETIMEOUT);
    EXPECT_STATUS(pto_worker_region_close(region), PTO_EBUSY);
    EXPECT_STATUS(pto_worker_region_wait(region, never, 0, &error), PTO_EPEER);
    EXPECT(strstr(error.text, "has ended") != NULL);
    EXPECT_STATUS(finish(handle), PTO_OK);
    EXPECT_STATUS(pto_worker_region_read(region, 64, &value, sizeof(value)), PTO_OK);
    EXPECT(value == 77);
    EXPECT_STATUS(pto_worker_region_close(region), PTO_OK);
    EXPECT_STATUS(pto_worker_region_close(region), PTO_EINVAL);
}

/* ---- queues ---- */

static struct pto_worker_queue *open_queue(struct call *call)
{
    struct pto_worker_queue_params params;
    struct pto_worker_queue *queue;

    pto_worker_queue_params_init(&params);
    params.chip = call->chip;
    params.depth = 4;
    params.input_bytes = params.output_bytes = 512;
    params.error = &error;
    EXPECT_STATUS(pto_worker_queue_open(worker, &params, &queue), PTO_OK);
    EXPECT_STATUS(pto_worker_queue_scalars(queue, call->scalar + 1), PTO_OK);
    call->addresses = PTO_REGION_ADDRESSES << 1;
    return queue;
}

/*
 * Message sizes such that messages wrap around in the arena, share cache lines, and are as large as
 * the arena.
 */
static uint32_t size_of(uint32_t number)
{
    return number % 17 == 0 ? 512 : number % 5 == 0 ? 0 : number % 3 == 0 ? 37 : 4 * (number % 41);
}

static unsigned char byte_of(uint32_t number, uint32_t at, uint32_t bytes, bool is_answer)
{
    unsigned char byte = at % 4 == 0 ? (unsigned char)((number + at) % 100) : 0;

    return is_answer && bytes % 4 == 0 ? (unsigned char)(2 * byte) : byte;
}

static void *send_all(void *context)
{
    struct pto_worker_queue *queue = context;
    unsigned char bytes[512];

    for (uint32_t i = 1; i <= MESSAGES; i++) {
        for (uint32_t k = 0; k < size_of(i); k++)
            bytes[k] = byte_of(i, k, size_of(i), false);
        if (pto_worker_queue_send(queue, i % 7 == 0 ? PTO_MESSAGE_ERROR : PTO_MESSAGE_DATA, bytes,
                                  size_of(i), 0, NULL) < 0)
            return "a message could not be sent";
    }
    return pto_worker_queue_send(queue, PTO_MESSAGE_STOP, NULL, 0, 0, NULL) < 0 ? "no STOP" : NULL;
}

static void exchange(uint32_t chip)
{
    struct call call = call_of(chip, ECHO);
    struct pto_worker_queue *queue = open_queue(&call);
    struct pto_worker_run *handle = launch(&call);
    struct pto_worker_message m;
    unsigned char bytes[512];
    pthread_t sender;
    void *wrong;

    EXPECT(pthread_create(&sender, NULL, send_all, queue) == 0);
    for (uint32_t i = 1; i <= MESSAGES; i++) {
        pto_worker_message_init(&m);
        m.to = bytes;
        m.room = 3;
        if (size_of(i) > m.room) { /* it stays */
            EXPECT_STATUS(pto_worker_queue_receive(queue, &m, 0, &error), PTO_EMEMORY);
            EXPECT(m.bytes == size_of(i));
        }
        m.room = sizeof(bytes);
        EXPECT_STATUS(pto_worker_queue_receive(queue, &m, 0, &error), PTO_OK);
        EXPECT(m.number == i && m.bytes == size_of(i));
        EXPECT(m.kind == (i % 7 == 0 ? PTO_MESSAGE_ERROR : PTO_MESSAGE_DATA));
        for (uint32_t k = 0; k < m.bytes; k++)
            EXPECT(bytes[k] == byte_of(i, k, size_of(i), true));
    }
    EXPECT(pthread_join(sender, &wrong) == 0 && wrong == NULL);
    EXPECT_STATUS(pto_worker_queue_receive(queue, &m, 0, &error), PTO_EPEER); /* nothing comes */
    EXPECT_STATUS(finish(handle), PTO_OK);
    EXPECT_STATUS(pto_worker_queue_close(queue), PTO_OK);
}

static void give_up(uint32_t chip)
{
    struct call call = call_of(chip, ECHO);
    struct pto_worker_queue *queue = open_queue(&call);
    struct pto_worker_run *handle = launch(&call);

    EXPECT_STATUS(pto_worker_queue_abort(queue), PTO_OK);
    EXPECT_STATUS(finish(handle), PTO_EPEER);
    EXPECT_STATUS(pto_worker_queue_send(queue, PTO_MESSAGE_DATA, "x", 1, 0, &error), PTO_EPEER);
    EXPECT_STATUS(pto_worker_queue_close(queue), PTO_OK);
}

static void refuse(void)
{
    struct pto_worker_queue_params params;
    struct pto_worker_queue *queue;

    pto_worker_queue_params_init(&params);
    params.depth = 1;
    params.error = &error;
    EXPECT_STATUS(pto_worker_queue_open(worker, &params, &queue), is_card ? PTO_EINVAL : PTO_OK);
    EXPECT(!is_card || strstr(error.text, "would write to one cache line") != NULL);
    if (!is_card)
        EXPECT_STATUS(pto_worker_queue_close(queue), PTO_OK);
}

/* Two conversations at a time, each with a different chip. */
static void *exchange_beside(void *context)
{
    (void)context;
    exchange(1);
    return NULL;
}

static void test_talk(void)
{
    pthread_t other;

    EXPECT(pthread_create(&other, NULL, exchange_beside, NULL) == 0);
    exchange(0);
    EXPECT(pthread_join(other, NULL) == 0);
    converse(0);
    leave(1);
    give_up(0);
    refuse();
    (void)open_region(&(struct call){ .chip = 1 }); /* it is closed together with the worker */
    expect_works(0);
    expect_works(1);
}

/* ---- windows ---- */

static int try_domain(const char *name, uint64_t bytes, struct pto_worker_member *member,
                      uint64_t *domain_out)
{
    struct pto_worker_domain_params params;
    int status;

    pto_worker_domain_params_init(&params);
    params.name = name;
    params.window_bytes = bytes;
    params.is_retained = true;
    params.error = &error;
    status = pto_worker_domain_open(worker, &params, domain_out);
    for (uint32_t i = 0; i < CHIPS && status >= 0; i++) {
        pto_worker_member_init(&member[i]);
        EXPECT_STATUS(pto_worker_domain_member(worker, *domain_out, i, &member[i]), PTO_OK);
    }
    return status;
}

static uint64_t open_domain(uint64_t bytes, struct pto_worker_member *member)
{
    uint64_t domain;

    EXPECT_STATUS(try_domain("both", bytes, member, &domain), PTO_OK);
    return domain;
}

/* Each task passes a number on to the other one, and waits for the other one's number. */
static int pass(const struct pto_worker_member *member, uint64_t round)
{
    struct call call[] = { call_of(0, PASS), call_of(1, PASS) };

    for (uint32_t i = 0; i < CHIPS; i++) {
        call[i].scalar[1] = member[i].context;
        call[i].addresses = 1 << 1;
        call[i].scalar[2] = 100 * round + i;
        call[i].scalar[3] = round;
    }
    return run(submit_group, call);
}

static void expect_passed(const struct pto_worker_member *member, int32_t round)
{
    EXPECT_STATUS(pass(member, (uint64_t)round), PTO_OK);
    EXPECT(numbers[0] == 100 * round + 1 && numbers[COUNT] == 100 * round);
}

struct both {
    struct pto_tensor from, to;
};

static void copy_level(struct pto_level *level, void *context)
{
    const struct both *both = context;

    (void)pto_level_copy(level, &both->to, &both->from);
}

static void *at(uint64_t addr)
{
    return (void *)(uintptr_t)addr;
}

/* Copies data to the window, where a task changes it through a tensor, and back. */
static void test_windows(void)
{
    const uint32_t shape[] = { COUNT };
    struct pto_worker_member member[CHIPS];
    int32_t sent[COUNT], received[COUNT];
    uint64_t domain = open_domain(4096, member);
    struct both both;
    struct call call;

    for (uint32_t chip = 0; chip < CHIPS; chip++) {
        EXPECT_STATUS(pto_worker_copy_from(worker, received, at(member[chip].window + 2048),
                                           sizeof(received), 0, &error),
                      PTO_OK);
        for (int i = 0; i < COUNT; i++) {
            EXPECT(received[i] == 0); /* windows are zero at first */
            sent[i] = 10 * i + (int)chip;
        }
        EXPECT_STATUS(pto_worker_copy_to(worker, at(member[chip].window + 2048), sent, sizeof(sent),
                                         0, &error),
                      PTO_OK);
        call = call_of(chip, ADD);
        call.tensor = pto_tensor_external(at(member[chip].window + 2048), shape, 1, PTO_INT32);
        call.scalar[1] = 3;
        EXPECT_STATUS(run(submit_one, &call), PTO_OK);
        EXPECT_STATUS(pto_worker_copy_from(worker, received, at(member[chip].window + 2048),
                                           sizeof(received), 0, &error),
                      PTO_OK);
        for (int i = 0; i < COUNT; i++)
            EXPECT(received[i] == sent[i] + 3);
        both.from = call.tensor;
        both.to = call_of(chip, ADD).tensor;
        EXPECT_STATUS(run(copy_level, &both), PTO_OK);
        EXPECT(numbers[chip * COUNT + 7] == sent[7] + 3);
        both.to = pto_tensor_external(at(member[chip].window + 1024), shape, 1, PTO_INT32);
        EXPECT_STATUS(run(copy_level, &both), PTO_OK); /* from the window to the window */
        EXPECT_STATUS(pto_worker_copy_from(worker, received, at(member[chip].window + 1024),
                                           sizeof(received), 0, &error),
                      PTO_OK);
        EXPECT(received[7] == sent[7] + 3);
    }
    expect_passed(member, 1);
    call = call_of(1, ADD); /* of the other chip */
    call.tensor = pto_tensor_external(at(member[0].window), shape, 1, PTO_INT32);
    EXPECT_STATUS(run(submit_one, &call), PTO_EMEMORY);
    EXPECT_STATUS(pto_worker_domain_release(worker, domain), PTO_OK);
    EXPECT_STATUS(run(submit_one, &call), PTO_EMEMORY);
    domain = open_domain(0, member); /* without bytes */
    for (uint32_t chip = 0; chip < CHIPS; chip++) {
        EXPECT(member[chip].window == 0 && member[chip].window_bytes == 0);
        call = call_of(chip, TELL);
        call.scalar[1] = member[chip].context;
        call.addresses = 1 << 1;
        EXPECT_STATUS(run(submit_one, &call), PTO_OK);
        EXPECT(numbers[chip * COUNT] == (int32_t)chip && numbers[chip * COUNT + 1] == CHIPS &&
               numbers[chip * COUNT + 2] == 0);
    }
    EXPECT_STATUS(pto_worker_domain_release(worker, domain), PTO_OK);
}

/* A number that equals an address in memory of the worker reaches the kernel unchanged. */
static void expect_kept(uint32_t chip, uint64_t number)
{
    struct call call = call_of(chip, ADD);

    memset(numbers + chip * COUNT, 0, COUNT * sizeof(*numbers));
    call.scalar[1] = number;
    EXPECT_STATUS(run(submit_one, &call), PTO_OK);
    for (int i = 0; i < COUNT; i++)
        EXPECT(numbers[chip * COUNT + i] == (int32_t)number);
}

static void test_numbers(void)
{
    struct pto_worker_member member[CHIPS];
    uint64_t domain = open_domain(4096, member);
    struct call call = call_of(1, TALK);
    struct pto_worker_region *region = open_region(&call);
    const struct pto_region *r = (const struct pto_region *)(const void *)(call.scalar + 1);

    expect_kept(1, r->id);
    expect_kept(1, r->payload + 8);
    expect_kept(1, r->counters + 64);
    for (uint32_t chip = 0; chip < CHIPS; chip++) {
        expect_kept(chip, member[chip].context);
        expect_kept(chip, member[chip].window + 100);
    }
    /* here it is a number, not an address in another chip's memory */
    expect_kept(0, member[1].window);
    call = call_of(0, ADD);
    call.addresses = 1 << 1;
    EXPECT_STATUS(run(submit_one, &call), PTO_OK); /* 0 is no address of anything */
    call.scalar[1] = member[1].window;
    EXPECT_STATUS(run(submit_one, &call), PTO_EMEMORY);
    call.scalar[1] = (uint64_t)(uintptr_t)numbers;
    EXPECT_STATUS(run(submit_one, &call), PTO_EMEMORY);
    EXPECT(strstr(error.text, "is not in a region, window or context") != NULL);
    EXPECT_STATUS(pto_worker_region_close(region), PTO_OK);
    EXPECT_STATUS(pto_worker_domain_release(worker, domain), PTO_OK);
}

/* Opens other domains, one after the other, while members of a group wait for each other. */
static void *open_beside(void *context)
{
    (void)context;
    for (int i = 0; i < ROUNDS / 4; i++) {
        struct pto_worker_member member[CHIPS];
        uint64_t domain;

        EXPECT_STATUS(try_domain("beside", 64, member, &domain), PTO_OK);
        EXPECT_STATUS(pto_worker_domain_release(worker, domain), PTO_OK);
    }
    return NULL;
}

static void test_beside(void)
{
    struct pto_worker_member member[CHIPS];
    uint64_t domain = open_domain(4096, member);
    pthread_t other;

    EXPECT(pthread_create(&other, NULL, open_beside, NULL) == 0);
    for (int32_t round = 1; round <= ROUNDS; round++)
        expect_passed(member, round);
    EXPECT(pthread_join(other, NULL) == 0);
    EXPECT_STATUS(pto_worker_domain_release(worker, domain), PTO_OK);
}

/* ---- a child does not run for a while ---- */

/* Waits until the kernel of the other chip has signalled this chip's window. */
static void await_signal(const struct pto_worker_member *member, int32_t value)
{
    int32_t word;

    do {
        nap_ns(MS);
        EXPECT_STATUS(
            pto_worker_copy_from(worker, &word, at(member->window), sizeof(word), 0, &error),
            PTO_OK);
    } while (word != value);
}

/* No stall is counted while the watchdog itself does not run, as on a very busy machine. */
static void test_pause(void)
{
    struct pto_worker_member member[CHIPS];
    uint64_t domain = open_domain(4096, member);
    struct call call[] = { call_of(0, PASS), call_of(1, PASS) };
    struct pto_worker_run *handle[CHIPS];

    for (uint32_t i = 0; i < CHIPS; i++) {
        call[i].scalar[1] = member[i].context;
        call[i].addresses = 1 << 1;
        call[i].scalar[2] = i;
        call[i].scalar[3] = 1;
        call[i].stall_ns = STALL_NS;
        handle[i] = launch(&call[i]);
        if (i == 0) {
            await_signal(&member[1], 1); /* its kernel runs and waits for the other one's */
            signal_child(0, SIGSTOP);
            nap_ns(2 * STALL_NS);
            signal_child(0, SIGCONT);
            nap_ns(STALL_NS / 5); /* a false alarm has its effect */
        }
    }
    for (uint32_t i = 0; i < CHIPS; i++)
        EXPECT_STATUS(finish(handle[i]), PTO_OK);
    EXPECT(numbers[0] == 1 && numbers[COUNT] == 0);
    EXPECT_STATUS(pto_worker_domain_release(worker, domain), PTO_OK);
}

/* ---- a child is killed ---- */

/*
 * Kills a child during a conversation: the other end is notified, and the next conversation works.
 */
static void kill_in_region(uint32_t chip)
{
    const struct pto_wait_for never = { 64, PTO_COMPARE_EQ, 5 };
    struct call call = call_of(chip, HOLD);
    struct pto_worker_region *region = open_region(&call), *idle;
    struct pto_worker_run *handle = launch(&call);
    struct call unused = call_of(chip, TALK);
    int32_t value = 1;

    /* registered while the task runs, and freed by none of the processes */
    idle = open_region(&unused);
    await_counter(region, 1);
    kill_child(chip);
    EXPECT_STATUS(pto_worker_region_wait(region, never, 0, &error), PTO_EPEER);
    EXPECT_STATUS(finish(handle), PTO_EPEER);
    if (is_card) { /* the memory is gone with it */
        EXPECT_STATUS(pto_worker_region_read(region, 0, &value, sizeof(value)), PTO_EPEER);
        EXPECT_STATUS(pto_worker_region_write(idle, 0, &value, sizeof(value)), PTO_EPEER);
        EXPECT_STATUS(pto_worker_region_wait(idle, never, 0, &error), PTO_EPEER);
    }
    reopen(chip);
    if (is_card)
        EXPECT_STATUS(pto_worker_region_read(idle, 0, &value, sizeof(value)), PTO_EPEER);
    EXPECT_STATUS(pto_worker_region_close(idle), PTO_OK);
    EXPECT_STATUS(pto_worker_region_close(region), PTO_OK);
    converse(chip);
}

static void kill_in_queue(uint32_t chip)
{
    struct call call = call_of(chip, ECHO);
    struct pto_worker_queue *queue = open_queue(&call);
    struct pto_worker_run *handle = launch(&call);
    struct pto_worker_message m;
    unsigned char bytes[512];

    pto_worker_message_init(&m);
    m.to = bytes;
    m.room = sizeof(bytes);
    EXPECT_STATUS(pto_worker_queue_send(queue, PTO_MESSAGE_DATA, "xyz", 3, 0, &error), PTO_OK);
    EXPECT_STATUS(pto_worker_queue_receive(queue, &m, 0, &error), PTO_OK);
    kill_child(chip);
    EXPECT_STATUS(pto_worker_queue_receive(queue, &m, 0, &error), PTO_EPEER);
    EXPECT_STATUS(finish(handle), PTO_EPEER);
    EXPECT_STATUS(pto_worker_queue_close(queue), PTO_OK);
    reopen(chip);
    exchange(chip);
}

/*
 * Kills a child with a domain: the other member is notified, and is not lost itself; the next
 * domain works.
 */
static void kill_in_domain(uint32_t chip)
{
    struct pto_worker_member member[CHIPS];
    uint64_t domain = open_domain(4096, member);
    struct call call = call_of(1 - chip, PASS), held = call_of(chip, HOLD);
    struct pto_worker_region *region = open_region(&held);
    struct pto_worker_run *holding = launch(&held), *waiting;

    call.scalar[1] = member[1 - chip].context;
    call.addresses = 1 << 1;
    await_counter(region, 1);
    waiting = launch(&call); /* waits for data that the other one would send next */
    kill_child(chip);
    EXPECT_STATUS(finish(waiting), PTO_OK); /* its kernel was notified */
    EXPECT_STATUS(finish(holding), PTO_EPEER);
    EXPECT_STATUS(pto_worker_region_close(region), PTO_OK);
    EXPECT_STATUS(run(submit_one, &call), PTO_EPEER);
    EXPECT_STATUS(pto_worker_domain_release(worker, domain), PTO_OK);
    expect_works(1 - chip);
    reopen(chip);
    domain = open_domain(4096, member);
    expect_passed(member, 1);
    EXPECT_STATUS(pto_worker_domain_release(worker, domain), PTO_OK);
}

static void test_kill(void)
{
    kill_in_region(0);
    kill_in_queue(1);
    kill_in_domain(0);
}

/* ---- a child is killed at a call of the vendor's ---- */

/* Does some of everything; returns the first failure. */
static int play(void)
{
    const struct pto_signal_at said = { 0, PTO_SIGNAL_SET, 1 };
    const struct pto_wait_for heard = { 64, PTO_COMPARE_EQ, 1 };
    struct call call = call_of(1, TALK);
    struct pto_worker_region_params params;
    struct pto_worker_region *region = NULL;
    struct pto_worker_member member[CHIPS];
    struct pto_worker_run *handle;
    int32_t received[COUNT];
    uint64_t domain;
    int status = try_domain("both", 4096, member, &domain);

    if (status < 0)
        return status;
    status = pass(member, 1);
    if (status >= 0)
        status = pto_worker_copy_from(worker, received, at(member[1].window), sizeof(received), 0,
                                      &error);
    EXPECT(status < 0 || received[0] == 1);
    pto_worker_region_params_init(&params);
    params.chip = 1;
    params.payload_bytes = 256;
    params.counter_bytes = 128;
    params.error = &error;
    if (status >= 0)
        status = pto_worker_region_open(worker, &params, &region);
    if (status >= 0) {
        EXPECT_STATUS(pto_worker_region_scalars(region, call.scalar + 1), PTO_OK);
        call.addresses = PTO_REGION_ADDRESSES << 1;
        handle = launch(&call);
        status = pto_worker_region_notify(region, said); /* a 0 ends the task */
        if (status >= 0)
            status = pto_worker_region_wait(region, heard, 0, &error);
        if (status >= 0)
            status = finish(handle);
        else
            (void)finish(handle);
    }
    if (region != NULL)
        EXPECT_STATUS(pto_worker_region_close(region), PTO_OK);
    EXPECT_STATUS(pto_worker_domain_release(worker, domain), PTO_OK);
    return status;
}

/* Starts child 1 again, with an environment variable that the other one does not have. */
static int reopen_with(const char *name, const char *value)
{
    int status;

    kill_child(1);
    await_death(1);
    EXPECT(setenv(name, value, 1) == 0);
    status = pto_worker_reopen(worker, 1, &error);
    EXPECT(unsetenv(name) == 0);
    return status;
}

static void close_worker(void)
{
    EXPECT_STATUS(pto_worker_close(worker), PTO_OK);
}

/*
 * The other child still works, or was lost with a call that waited for the dead one, and is started
 * again.
 */
static void expect_other_works(void)
{
    struct call call = call_of(0, ADD);
    int status = run(submit_one, &call);

    EXPECT(status == PTO_OK || status == PTO_EPEER || status == PTO_ELOST);
    if (status < 0) {
        await_death(0);
        EXPECT_STATUS(pto_worker_reopen(worker, 0, &error), PTO_OK);
    }
    expect_works(0);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Child 1 is killed at its first call of this name. */
static bool die_at(const char *name)
{
    char plan[NAME_BYTES + 16];
    double begin = now_s();
    int status;

    snprintf(plan, sizeof(plan), "%.63s@1=die", name);
    open_worker();
    status = reopen_with("STANDIN_PLAN", plan);
    if (status >= 0)
        status = play();
    EXPECT(status >= 0 || (status != PTO_ETIMEOUT && error.text[0] != '\0')); /* at once */
    if (status < 0)
        expect_other_works();
    close_worker();
    EXPECT(now_s() - begin < LATE_S);
    open_worker();
    EXPECT_STATUS(play(), PTO_OK);
    close_worker();
    return status < 0;
}

/* Returns the names of all calls in the log. */
static uint32_t list_calls(char name[][NAME_BYTES])
{
    char path[] = "/tmp/pto-level-XXXXXX", line[256];
    int file = mkstemp(path);
    uint32_t count = 0, i;
    FILE *calls;

    EXPECT(file >= 0);
    EXPECT_STATUS(reopen_with("PTO_CANN_LOG", path), PTO_OK);
    EXPECT_STATUS(play(), PTO_OK);
    close_worker();
    calls = fdopen(file, "r");
    EXPECT(calls != NULL);
    while (fgets(line, sizeof(line), calls) != NULL && count < NAMES) {
        if (line[0] == '#' || sscanf(line, "%*s %*s %63s", name[count]) != 1)
            continue;
        for (i = 0; strcmp(name[i], name[count]) != 0; i++)
            ;
        count += i == count;
    }
    (void)fclose(calls);
    (void)unlink(path);
    return count;
}

static void test_sweep(void)
{
    static char name[NAMES + 1][NAME_BYTES];
    const char *only = getenv("LEVEL_ONLY"); /* names that begin with this text */
    uint32_t recorded = 0, tried = 0, count = list_calls(name);

    for (uint32_t i = 0; i < count; i++)
        if (only == NULL || strncmp(name[i], only, strlen(only)) == 0) {
            tried++;
            recorded += die_at(name[i]);
        }
    EXPECT(recorded != 0);
    printf("%u of %u names, %u told\n", tried, count, recorded);
    open_worker();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*test)(void);
    } parts[] = { { "talk", test_talk },       { "windows", test_windows },
                  { "numbers", test_numbers }, { "beside", test_beside },
                  { "pause", test_pause },     { "kill", test_kill },
                  { "sweep", test_sweep } };

    if (argc < 4)
        fail("usage: level PLATFORM ARTEFACT PART...");
    alarm(HANG_SECONDS);
    pto_error_init(&error);
    platform = argv[1];
    artefact = argv[2];
    is_card = strstr(platform, "sim") == NULL;
    open_worker();
    for (int i = 3; i < argc; i++) {
        size_t k = 0;

        while (k < sizeof(parts) / sizeof(parts[0]) && strcmp(parts[k].name, argv[i]) != 0)
            k++;
        if (k == sizeof(parts) / sizeof(parts[0]))
            fail("there is no part %s", argv[i]);
        parts[k].test();
    }
    close_worker();
    return 0;
}
