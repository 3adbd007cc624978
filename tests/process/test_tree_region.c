/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * Regions and queues: first with both ends in one process, with every valid and invalid kind of
 * message; then between the host and a task on a chip of a worker, and which waits end when one of
 * them ends.
 */
#include <signal.h>
#include <stdalign.h>

#include "pto/worker_region.h"
#include "tests/fixture/tree_test.h"

static struct bytes chip_object, reference_artefact;

/* ---- both ends here ---- */

enum { DEPTH = 8, ARENA = 1024, PAYLOAD = 2 * DEPTH * PTO_QUEUE_SLOT_BYTES + 2 * ARENA };

struct pair {
    alignas(64) char counters[PTO_QUEUE_COUNTER_BYTES];
    alignas(64) char payload[PAYLOAD];
    uint64_t scalars[PTO_QUEUE_SCALARS];
    struct pto_queue host, chip;
};

/* Sets the counters as if `first` messages had already been sent. */
static void make_pair(struct pair *p, uint64_t first)
{
    static const uint32_t counters[] = { 0, 64, 128, 192 };
    struct pto_queue_way *ways[] = { &p->host.in, &p->host.out, &p->chip.in, &p->chip.out };
    const uint64_t scalars[] = { PTO_REGION_MAGIC,
                                 7,
                                 (uint64_t)(uintptr_t)p->payload,
                                 PAYLOAD,
                                 (uint64_t)(uintptr_t)p->counters,
                                 PTO_QUEUE_COUNTER_BYTES,
                                 PTO_QUEUE_MAGIC,
                                 DEPTH,
                                 ARENA,
                                 ARENA,
                                 PAYLOAD,
                                 PTO_QUEUE_COUNTER_BYTES };

    memset(p, 0, sizeof(*p));
    memcpy(p->scalars, scalars, sizeof(scalars));
    assert_int_equal(pto_queue_init(&p->host, p->scalars, false), PTO_OK);
    assert_int_equal(pto_queue_init(&p->chip, p->scalars, true), PTO_OK);
    for (int i = 0; i < 4; i++) {
        uint32_t low = (uint32_t)first;

        ways[i]->tail = ways[i]->head = ways[i]->taken = first;
        memcpy(p->counters + counters[i], &low, sizeof(low));
    }
}

static unsigned step(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

static void fill_bytes(unsigned char *to, uint64_t bytes, uint64_t number)
{
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(number * 31 + i);
}

static void check_message(const struct pto_message *m, uint64_t number, uint64_t bytes)
{
    unsigned char expected[ARENA];

    assert_true(m->number == number);
    assert_true(m->bytes == bytes);
    fill_bytes(expected, bytes, number);
    if (bytes != 0)
        assert_memory_equal(m->data, expected, bytes);
}

/*
 * Sends messages in one direction, in steps that a seed determines; messages are released in any
 * order.
 */
static void exchange(struct pto_queue *from, struct pto_queue *to, uint64_t first, uint64_t count,
                     unsigned seed)
{
    static uint64_t size[1 << 18];
    struct pto_message active[PTO_QUEUE_ACTIVE_MAX];
    uint64_t sent = 0, received = 0, in_use = 0;
    bool was_full = false, was_empty = false;

    while (received < count || in_use != 0) {
        struct pto_message m;
        int status;

        switch (step(&seed) % 3) {
        case 0:
            if (sent == count)
                break;
            size[sent] = step(&seed) % 16 == 0 ? ARENA : step(&seed) % 300;
            status = pto_queue_reserve(from, size[sent], &m);
            was_full = was_full || status == PTO_EAGAIN;
            if (status == PTO_EAGAIN)
                break;
            assert_int_equal(status, PTO_OK);
            if (size[sent] != 0)
                fill_bytes(m.data, m.bytes, m.number);
            assert_int_equal(pto_queue_publish(from, &m, PTO_MESSAGE_DATA), PTO_OK);
            sent++;
            break;
        case 1:
            status = pto_queue_peek(to, &m);
            was_empty = was_empty || status == PTO_EAGAIN;
            if (status == PTO_EAGAIN)
                break;
            assert_int_equal(status, PTO_OK);
            check_message(&m, first + received + 1, size[received]);
            received++;
            active[in_use++] = m;
            break;
        default:
            if (in_use != 0) {
                uint64_t i = step(&seed) % in_use;

                assert_int_equal(pto_queue_release(to, &active[i]), PTO_OK);
                assert_int_equal(pto_queue_release(to, &active[i]), PTO_EINVAL);
                active[i] = active[--in_use];
            }
        }
    }
    assert_true(was_full && was_empty);
}

static void messages_arrive_whole_and_in_order(void **state)
{
    const uint64_t count = IS_SANITIZED ? 5000 : 50000;
    static struct pair p;

    (void)state;
    make_pair(&p, 0);
    exchange(&p.host, &p.chip, 0, count, 1);
    exchange(&p.chip, &p.host, 0, count, 2);
}

static void counters_wrap(void **state)
{
    static const uint64_t first[] = { (1ull << 31) - 50, (1ull << 32) - 50, (5ull << 32) - 50 };
    static struct pair p;

    (void)state;
    for (int i = 0; i < 3; i++) {
        make_pair(&p, first[i]);
        exchange(&p.host, &p.chip, first[i], 500, 3);
        exchange(&p.chip, &p.host, first[i], 500, 4);
    }
}

struct stream_test {
    struct pair *pair;
    uint64_t count;
};

static void *send_all(void *context)
{
    const struct stream_test *x = context;
    uint64_t end = now_ns() + 60000 * MS;

    for (uint64_t i = 0; i < x->count && now_ns() < end;) {
        struct pto_message m;

        if (pto_queue_reserve(&x->pair->host, i % 200, &m) < 0) {
            sched_yield();
            continue;
        }
        if (m.bytes != 0)
            fill_bytes(m.data, m.bytes, m.number);
        EXPECT(pto_queue_publish(&x->pair->host, &m, PTO_MESSAGE_DATA) == PTO_OK);
        i++;
    }
    return NULL;
}

static void what_was_written_before_a_counter_is_seen(void **state)
{
    static struct pair p;
    struct stream_test x = { &p, IS_SANITIZED ? 5000 : 100000 };
    uint64_t end = now_ns() + 60000 * MS;
    pthread_t thread;

    (void)state;
    make_pair(&p, 0);
    assert_int_equal(pthread_create(&thread, NULL, send_all, &x), 0);
    for (uint64_t i = 0; i < x.count;) {
        struct pto_message m;
        int status = pto_queue_peek(&p.chip, &m);

        assert_true(now_ns() < end);
        if (status == PTO_EAGAIN) {
            sched_yield();
            continue;
        }
        assert_int_equal(status, PTO_OK);
        check_message(&m, i + 1, i % 200);
        assert_int_equal(pto_queue_release(&p.chip, &m), PTO_OK);
        i++;
    }
    pthread_join(thread, NULL);
    assert_nothing_unexpected();
}

/* A message of 100 bytes is in the queue; one of its words, or a counter, is changed. */
static void expect_broken(int word, uint64_t value, int32_t tail)
{
    static struct pair p;
    struct pto_message m;

    make_pair(&p, 0);
    assert_int_equal(pto_queue_reserve(&p.host, 100, &m), PTO_OK);
    assert_int_equal(pto_queue_publish(&p.host, &m, PTO_MESSAGE_DATA), PTO_OK);
    if (word >= 0)
        memcpy(p.payload + 8 * word, &value, sizeof(value));
    else
        memcpy(p.counters, &tail, sizeof(tail));
    assert_int_equal(pto_queue_peek(&p.chip, &m), PTO_EFORMAT);
    assert_int_equal(pto_queue_peek(&p.chip, &m), PTO_EFORMAT); /* it stays so */
    assert_int_equal(pto_queue_reserve(&p.chip, 1, &m), PTO_EFORMAT);
    assert_true(pto_queue_is_aborted(&p.host)); /* and the other end gets the error */
    assert_int_equal(pto_queue_peek(&p.host, &m), PTO_EPEER);
}

static void what_is_no_message_ends_the_queue(void **state)
{
    static struct pair p;
    struct pto_message m;
    int32_t head = 3;

    (void)state;
    expect_broken(0, 2, 0); /* its number */
    expect_broken(1, 0, 0); /* its kind */
    expect_broken(1, 4, 0);
    expect_broken(1, PTO_MESSAGE_STOP, 0); /* with bytes */
    expect_broken(2, 0, 0);                /* where it is */
    expect_broken(2, UINT64_MAX, 0);
    expect_broken(3, ARENA + 1, 0); /* how much */
    expect_broken(3, UINT64_MAX, 0);
    expect_broken(-1, 0, DEPTH + 1); /* more than there can be */
    expect_broken(-1, 0, -1);        /* fewer than before */
    make_pair(&p, 0);
    assert_int_equal(pto_queue_reserve(&p.host, 100, &m), PTO_OK);
    assert_int_equal(pto_queue_publish(&p.host, &m, PTO_MESSAGE_DATA), PTO_OK);
    memcpy(p.counters + 64, &head, sizeof(head)); /* releases a message that was never sent */
    assert_int_equal(pto_queue_reserve(&p.host, 1, &m), PTO_EFORMAT);
}

static void a_stop_is_the_last(void **state)
{
    static struct pair p;
    struct pto_message m, stop;

    (void)state;
    make_pair(&p, 0);
    assert_int_equal(pto_queue_reserve(&p.chip, 0, &m), PTO_OK);
    assert_int_equal(pto_queue_publish(&p.chip, &m, PTO_MESSAGE_STOP), PTO_EINVAL);
    assert_int_equal(pto_queue_reserve(&p.host, 10, &m), PTO_OK);
    assert_int_equal(pto_queue_reserve(&p.host, 10, &stop), PTO_EINVAL); /* one at a time */
    assert_int_equal(pto_queue_publish(&p.host, &m, PTO_MESSAGE_ERROR), PTO_OK);
    assert_int_equal(pto_queue_reserve(&p.host, ARENA + 1, &m), PTO_EINVAL);
    assert_int_equal(pto_queue_reserve(&p.host, 0, &m), PTO_OK);
    assert_int_equal(pto_queue_publish(&p.host, &m, PTO_MESSAGE_STOP), PTO_OK);
    assert_int_equal(pto_queue_reserve(&p.host, 0, &m), PTO_EINVAL);
    assert_int_equal(pto_queue_peek(&p.chip, &m), PTO_OK);
    assert_int_equal(m.kind, PTO_MESSAGE_ERROR);
    assert_int_equal(pto_queue_peek(&p.chip, &stop), PTO_OK);
    assert_int_equal(stop.kind, PTO_MESSAGE_STOP);
    assert_int_equal(pto_queue_release(&p.chip, &stop), PTO_OK);
    assert_false(pto_queue_is_drained(&p.chip));
    assert_int_equal(pto_queue_release(&p.chip, &m), PTO_OK);
    assert_true(pto_queue_is_drained(&p.chip));
    assert_int_equal(pto_queue_peek(&p.chip, &m), PTO_EAGAIN);
}

static void scalars_that_are_no_queue_are_refused(void **state)
{
    static struct pair p;
    struct pto_queue q;

    (void)state;
    make_pair(&p, 0);
    for (int i = 0; i < PTO_QUEUE_SCALARS; i++) {
        uint64_t scalars[PTO_QUEUE_SCALARS];

        if (i == 2)
            continue; /* any address could be one */
        memcpy(scalars, p.scalars, sizeof(scalars));
        scalars[i] = i == 4 ? scalars[i] + 4 : i == 1 ? 0 : scalars[i] + (1 << 16);
        assert_int_equal(pto_queue_init(&q, scalars, true), PTO_EINVAL);
    }
}

/* ---- the host and a chip ---- */

static const char chip_text[] =
    "#include <pto/pto.h>\n"
    "#include <pto/region.h>\n"
    "#include <unistd.h>\n"
    "#define MINUTE 60000000000ull\n"
    /* Twice each number. */
    "static void twice(int64_t *args)\n"
    "{\n"
    "    struct pto_tensor *x = pto_arg_tensor(args, 0);\n"
    "    int *from = pto_tensor_data(x), *to = pto_tensor_data(pto_arg_tensor(args, 1));\n"
    "    for (uint32_t i = 0; i < x->shapes[0]; i++) to[i] = 2 * from[i];\n"
    "}\n"
    /* A kernel that signals to the host that it runs. */
    "static void tell(int64_t *args)\n"
    "{\n"
    "    struct pto_region r;\n"
    "    uint64_t scalars[6];\n"
    "    for (int i = 0; i < 6; i++) scalars[i] = (uint64_t)args[i];\n"
    "    if (pto_region_init(&r, scalars) == 0)\n"
    "        (void)pto_region_notify(&r, 64, PTO_SIGNAL_ADD, 1);\n"
    "}\n"
    "static void end(struct pto_orch *o, int status, const char *what)\n"
    "{ if (status < 0) (void)pto_orch_fail(o, status, what); }\n"
    /* Returns each message, by a kernel if it consists of numbers; the scalar is a delay in us. */
    "static void echo(struct pto_orch *o, const struct pto_entry *e)\n"
    "{\n"
    "    struct pto_queue q;\n"
    "    struct pto_message m, out;\n"
    "    int status = pto_queue_init(&q, e->scalar, true);\n"
    "    while (status >= 0) {\n"
    "        status = pto_queue_receive(o, &q, MINUTE, &m);\n"
    "        if (status < 0) break;\n"
    "        if (e->scalar[12] != 0) usleep((useconds_t)e->scalar[12]);\n"
    "        if (m.kind == PTO_MESSAGE_STOP) { status = pto_queue_release(&q, &m); break; }\n"
    "        status = pto_queue_await_room(o, &q, m.bytes, MINUTE, &out);\n"
    "        if (status < 0) break;\n"
    "        if (m.bytes != 0 && e->scalar[13] != 0) {\n"
    "            uint32_t shape[] = { (uint32_t)(m.bytes / 4) }, first[] = { 0 };\n"
    "            struct pto_tensor in = pto_tensor_external(m.data, shape, 1, PTO_INT32);\n"
    "            struct pto_tensor to = pto_tensor_external(out.data, shape, 1, PTO_INT32);\n"
    "            pto_aiv(o, 0, PTO_IN(&in), PTO_WRITE(&to));\n"
    "            (void)pto_get_data(o, &to, 1, first);\n"
    "            status = pto_orch_status(o);\n"
    "            if (status < 0) break;\n"
    "        } else if (m.bytes != 0)\n"
    "            memcpy(out.data, m.data, m.bytes);\n"
    "        status = pto_queue_publish(&q, &out, (enum pto_message_kind)m.kind);\n"
    "        if (status >= 0) status = pto_queue_release(&q, &m);\n"
    "    }\n"
    "    end(o, status, \"the queue is over\");\n"
    "}\n"
    /* Tasks, each of which signals the host and then waits for its answer. */
    "static void converse(struct pto_orch *o, const struct pto_entry *e)\n"
    "{\n"
    "    struct pto_region r;\n"
    "    int status = pto_region_init(&r, e->scalar);\n"
    "    for (int i = 0; i < 10 && status >= 0; i++) {\n"
    "        struct pto_args args;\n"
    "        pto_args_init(&args);\n"
    "        for (int k = 0; k < 6; k++) pto_add_scalar(&args, e->scalar[k]);\n"
    "        (void)pto_submit_aiv(o, 1, &args);\n"
    "    }\n"
    "    if (status >= 0)\n"
    "        status = pto_region_wait(o, &r, 0, PTO_COMPARE_GE, 10, MINUTE, NULL);\n"
    "    if (status >= 0) *(int *)pto_region_payload(&r, 0, 4) *= 3;\n"
    "    if (status >= 0) status = pto_region_notify(&r, 64, PTO_SIGNAL_SET, 1000);\n"
    "    end(o, status, \"the region is over\");\n"
    "}\n"
    /*
     * The first scalar after those of the region selects what the task does: nothing, return an
     * error, or wait for a message that never comes.
     */
    "static void behave(struct pto_orch *o, const struct pto_entry *e)\n"
    "{\n"
    "    struct pto_region r;\n"
    "    int status = pto_region_init(&r, e->scalar);\n"
    "    if (status >= 0) status = pto_region_notify(&r, 64, PTO_SIGNAL_SET, 1);\n"
    "    if (e->scalar[6] == 1) (void)pto_orch_fail(o, PTO_EFORMAT, \"no\");\n"
    "    if (e->scalar[6] == 2) {\n"
    "        status = pto_region_wait(o, &r, 0, PTO_COMPARE_EQ, 12345, MINUTE, NULL);\n"
    "        if (status == PTO_EPEER) *(int *)pto_region_payload(&r, 0, 4) = 77;\n"
    "    }\n"
    "}\n"
    "static const struct pto_kernel kernels[] = { { \"twice\", twice, PTO_CORE_AIV },\n"
    "                                             { \"tell\", tell, PTO_CORE_AIV } };\n"
    "#define CALLABLE(fn) struct pto_callable_params fn##s = { .size = sizeof(fn##s),\\\n"
    "    .name = #fn, .orchestration = fn, .kernels = kernels, .kernel_count = 2 }\n"
    "CALLABLE(echo);\nCALLABLE(converse);\nCALLABLE(behave);\n";

struct call {
    uint64_t callable;
    uint64_t scalar[14];
    uint32_t count;
};

static void submit_call(struct pto_level *level, void *context)
{
    const struct call *x = context;
    struct pto_args args;

    pto_args_init(&args);
    for (uint32_t i = 0; i < x->count; i++)
        if ((PTO_REGION_ADDRESSES >> i & 1) != 0)
            pto_add_address(&args, x->scalar[i]);
        else
            pto_add_scalar(&args, x->scalar[i]);
    (void)pto_level_submit(level, x->callable, 0, &args);
}

static struct pto_worker_run *launch(struct call *x)
{
    struct pto_worker_run *handle = NULL;

    assert_int_equal(pto_worker_launch(worker, submit_call, x, &handle), PTO_OK);
    return handle;
}

static void finish(struct pto_worker_run *handle, int expected)
{
    assert_int_equal(pto_worker_run_wait(handle, 0), expected);
    assert_int_equal(pto_worker_run_finish(handle, NULL), expected);
}

static struct pto_worker_queue *open_queue(uint64_t depth, struct call *x)
{
    struct pto_worker_queue_params params;
    struct pto_worker_queue *queue = NULL;

    pto_worker_queue_params_init(&params);
    params.depth = depth;
    params.input_bytes = params.output_bytes = 4096;
    assert_int_equal(pto_worker_queue_open(worker, &params, &queue), PTO_OK);
    assert_int_equal(pto_worker_queue_scalars(queue, x->scalar), PTO_OK);
    x->count = 14;
    return queue;
}

static struct pto_worker_region *open_region(struct call *x)
{
    struct pto_worker_region_params params;
    struct pto_worker_region *region = NULL;

    pto_worker_region_params_init(&params);
    params.payload_bytes = 256;
    params.counter_bytes = 128;
    assert_int_equal(pto_worker_region_open(worker, &params, &region), PTO_OK);
    assert_int_equal(pto_worker_region_scalars(region, x->scalar), PTO_OK);
    x->count = 7;
    return region;
}

struct talk {
    struct pto_worker_queue *queue;
    int count;
    bool is_slow;
};

static int bytes_of(int message)
{
    return message % 97 * 4;
}

static void *append_all(void *context)
{
    const struct talk *x = context;
    int numbers[100];

    for (int i = 0; i < x->count; i++) {
        for (int k = 0; k < bytes_of(i) / 4; k++)
            numbers[k] = i + k;
        EXPECT(pto_worker_queue_send(x->queue, PTO_MESSAGE_DATA, numbers, (uint64_t)bytes_of(i), 0,
                                     NULL) == PTO_OK);
    }
    EXPECT(pto_worker_queue_send(x->queue, PTO_MESSAGE_STOP, NULL, 0, 0, NULL) == PTO_OK);
    EXPECT(pto_worker_queue_send(x->queue, PTO_MESSAGE_DATA, NULL, 0, 0, NULL) == PTO_EINVAL);
    return NULL;
}

static void talk_with_echo(uint64_t depth, int count, int pace_us, bool is_slow, int factor)
{
    struct call x = { .callable = register_bytes(chip_object, PTO_CHILD_CHIP, "echos") };
    struct talk talk = { open_queue(depth, &x), count, is_slow };
    struct pto_worker_run *handle;
    struct pto_worker_message m;
    int numbers[100];
    pthread_t thread;

    x.scalar[12] = (uint64_t)pace_us;
    x.scalar[13] = factor == 2;
    handle = launch(&x);
    assert_int_equal(pthread_create(&thread, NULL, append_all, &talk), 0);
    for (int i = 0; i < count; i++) {
        pto_worker_message_init(&m);
        m.to = numbers;
        m.room = sizeof(numbers);
        if (is_slow)
            nap_ns(MS / 5);
        assert_int_equal(pto_worker_queue_receive(talk.queue, &m, 0, NULL), PTO_OK);
        assert_int_equal(m.number, i + 1);
        assert_int_equal(m.bytes, bytes_of(i));
        for (int k = 0; k < bytes_of(i) / 4; k++)
            assert_int_equal(numbers[k], factor * (i + k));
    }
    pthread_join(thread, NULL);
    assert_nothing_unexpected();
    finish(handle, PTO_OK);
    pto_worker_message_init(&m);
    assert_int_equal(pto_worker_queue_receive(talk.queue, &m, 0, NULL), PTO_EPEER); /* none comes */
    assert_int_equal(pto_worker_queue_close(talk.queue), PTO_OK);
}

static void a_chip_answers_messages(void **state)
{
    (void)state;
    open_worker(1, 0);
    talk_with_echo(64, IS_SANITIZED ? 1000 : 100000, 0, false, 1);
    talk_with_echo(8, 300, 0, false, 2);   /* through kernels */
    talk_with_echo(2, 100, 200, false, 1); /* the chip is slower */
    talk_with_echo(2, 100, 0, true, 1);    /* the host is */
    close_worker();
}

static void errors_and_sizes_are_told(void **state)
{
    struct call x;
    struct pto_worker_queue *queue;
    struct pto_worker_run *handle;
    struct pto_worker_message m;
    struct pto_error error;
    char text[64] = "";

    (void)state;
    open_worker(1, 0);
    pto_error_init(&error);
    x.callable = register_bytes(chip_object, PTO_CHILD_CHIP, "echos");
    queue = open_queue(4, &x);
    x.scalar[12] = x.scalar[13] = 0;
    pto_worker_message_init(&m);
    assert_int_equal(pto_worker_queue_receive(queue, &m, MS, &error), PTO_ETIMEOUT);
    handle = launch(&x);
    assert_int_equal(pto_worker_queue_send(queue, PTO_MESSAGE_DATA, text, 4097, 0, &error),
                     PTO_EINVAL);
    assert_int_equal(pto_worker_queue_send(queue, PTO_MESSAGE_STOP, text, 1, 0, &error),
                     PTO_EINVAL);
    assert_int_equal(pto_worker_queue_send(queue, PTO_MESSAGE_ERROR, "bad luck", 9, 0, &error),
                     PTO_OK);
    m.room = 4;
    m.to = text;
    assert_int_equal(pto_worker_queue_receive(queue, &m, 0, &error), PTO_EMEMORY);
    assert_int_equal(m.bytes, 9);
    m.room = sizeof(text);
    assert_int_equal(pto_worker_queue_receive(queue, &m, 0, &error), PTO_OK);
    assert_int_equal(m.kind, PTO_MESSAGE_ERROR);
    assert_string_equal(text, "bad luck");
    assert_int_equal(pto_worker_queue_close(queue), PTO_EBUSY); /* and the chip is notified */
    finish(handle, PTO_EPEER);
    assert_int_equal(pto_worker_queue_receive(queue, &m, 0, &error), PTO_EPEER);
    assert_non_null(strstr(error.text, "failed"));
    assert_int_equal(pto_worker_queue_close(queue), PTO_OK);
    assert_int_equal(pto_worker_queue_close(queue), PTO_EINVAL);

    queue = open_queue(4, &x);
    x.scalar[12] = x.scalar[13] = 0;
    handle = launch(&x);
    assert_int_equal(pto_worker_queue_abort(queue), PTO_OK);
    finish(handle, PTO_EPEER);
    assert_int_equal(pto_worker_queue_send(queue, PTO_MESSAGE_DATA, text, 1, 0, &error), PTO_EPEER);
    close_worker(); /* with the queue */
}

static void tasks_go_on_while_a_region_is_polled(void **state)
{
    struct pto_worker_params params;
    struct pto_worker_region *region;
    struct pto_worker_run *handle;
    struct call x;
    int32_t value = 14;

    (void)state;
    assert_int_equal(setenv("SIMPLER_SCHEDULER_TIMEOUT_MS", "700", 1), 0);
    pto_worker_params_init(&params);
    params.platform = "a2a3sim";
    params.chip_workers = 1; /* the thread that builds the graph has to run the tasks as well */
    assert_int_equal(pto_worker_open(&params, &worker), PTO_OK);
    x.callable = register_bytes(chip_object, PTO_CHILD_CHIP, "converses");
    region = open_region(&x);
    x.scalar[6] = 0;
    handle = launch(&x);
    assert_int_equal(
        pto_worker_region_wait(region, (struct pto_wait_for){ 64, PTO_COMPARE_GE, 10 }, 0, NULL),
        PTO_OK);
    nap_ns(1600 * MS); /* the run makes no progress in the meantime, and that is not a stall */
    assert_int_equal(pto_worker_region_write(region, 0, &value, sizeof(value)), PTO_OK);
    assert_int_equal(
        pto_worker_region_notify(region, (struct pto_signal_at){ 0, PTO_SIGNAL_ADD, 10 }), PTO_OK);
    assert_int_equal(
        pto_worker_region_wait(region, (struct pto_wait_for){ 64, PTO_COMPARE_EQ, 1000 }, 0, NULL),
        PTO_OK);
    assert_int_equal(pto_worker_region_read(region, 0, &value, sizeof(value)), PTO_OK);
    assert_int_equal(value, 42);
    finish(handle, PTO_OK);
    assert_int_equal(pto_worker_region_write(region, 254, &value, sizeof(value)), PTO_EMEMORY);
    assert_int_equal(pto_worker_region_counter(region, 128, &value), PTO_EINVAL);
    assert_int_equal(pto_worker_region_counter(region, 0, &value), PTO_OK);
    assert_int_equal(value, 10);
    assert_int_equal(pto_worker_region_close(region), PTO_OK);
    close_worker();
    assert_int_equal(unsetenv("SIMPLER_SCHEDULER_TIMEOUT_MS"), 0);
}

static void whoever_waits_is_woken(void **state)
{
    const struct pto_wait_for never = { 64, PTO_COMPARE_EQ, 5 }, begun = { 64, PTO_COMPARE_EQ, 1 };
    struct pto_worker_region *region;
    struct pto_child_info info;
    struct pto_worker_run *handle;
    struct pto_error error;
    struct call x;
    int32_t value = 0;

    (void)state;
    open_worker(1, 0);
    pto_error_init(&error);
    x.callable = register_bytes(chip_object, PTO_CHILD_CHIP, "behaves");
    /* the task ends, the task fails, the host closes, the child dies */
    for (uint64_t how = 0; how < 4; how++) {
        region = open_region(&x);
        x.scalar[6] = how < 2 ? how : 2;
        handle = launch(&x);
        assert_int_equal(pto_worker_region_wait(region, begun, 0, &error), PTO_OK);
        if (how == 2) {
            assert_int_equal(pto_worker_region_wait(region, never, MS, &error), PTO_ETIMEOUT);
            assert_int_equal(pto_worker_region_close(region), PTO_EBUSY);
        }
        if (how == 3) {
            pto_child_info_init(&info);
            assert_int_equal(pto_worker_child(worker, 0, &info), PTO_OK);
            assert_int_equal(kill(info.pid, SIGKILL), 0);
        }
        assert_int_equal(pto_worker_region_wait(region, never, 0, &error), PTO_EPEER);
        assert_non_null(strstr(error.text, how == 0 || how == 2 ? "has ended" : "failed"));
        finish(handle, how == 1 ? PTO_EFORMAT : how == 3 ? PTO_EPEER : PTO_OK);
        assert_int_equal(pto_worker_region_read(region, 0, &value, sizeof(value)), PTO_OK);
        assert_int_equal(value, how == 2 ? 77 : 0);
        assert_int_equal(pto_worker_region_close(region), PTO_OK);
    }
    close_worker();
}

/* ---- orchestrations that were written for the reference ---- */

static const char reference_text[] =
    "#include \"aicpu/worker_chip_message_queue.h\"\n"
    "#include \"pto_orchestration_api.h\"\n"
    "#define MINUTE 60000000000ull\n"
    "#define EXPORT extern \"C\" __attribute__((visibility(\"default\")))\n"
    "static WorkerChipOrchRegionDesc desc_of(const ChipTaskArgs &args)\n"
    "{\n"
    "    return WorkerChipOrchRegionDesc{ args.scalar(0), args.scalar(1), args.scalar(2),\n"
    "                                     args.scalar(3), args.scalar(4), args.scalar(5) };\n"
    "}\n"
    /* Sends two messages at a time, the second one first. */
    "EXPORT void pairs(const ChipTaskArgs &args)\n"
    "{\n"
    "    WorkerChipQueueEndpoint<2> queue(desc_of(args), WorkerChipQueueArgs{ args.scalar(6),\n"
    "        args.scalar(7), args.scalar(8), args.scalar(9), args.scalar(10), args.scalar(11) });\n"
    "    WorkerChipQueueInputHandle in[2] = {};\n"
    "    WorkerChipQueueOutputReservation out = {};\n"
    "    for (;;) {\n"
    "        for (int i = 0; i < 2; i++) {\n"
    "            if (!queue.input().peek(MINUTE, in[i])) goto failed;\n"
    "            if (in[i].opcode == WorkerChipQueueOpcode::STOP) {\n"
    "                if (!queue.input().release(in[i]) || !queue.input().drained()) goto failed;\n"
    "                return;\n"
    "            }\n"
    "        }\n"
    "        for (int i = 1; i >= 0; i--) {\n"
    "            if (!queue.output().reserve(in[i].payload_nbytes, MINUTE, out)) goto failed;\n"
    "            memcpy(reinterpret_cast<void *>(out.payload.gm_addr),\n"
    "                   reinterpret_cast<void *>(in[i].payload.gm_addr), in[i].payload_nbytes);\n"
    "            if (!queue.output().publish(out, WorkerChipQueueOpcode::DATA) ||\n"
    "                !queue.input().release(in[i])) goto failed;\n"
    "        }\n"
    "    }\n"
    "failed:\n"
    "    rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, \"%s: %s\",\n"
    "        worker_chip_queue_op_to_string(queue.error().op), queue.error().message);\n"
    "}\n"
    /* Adds one to each received number, until it receives 0. */
    "EXPORT void counts(const ChipTaskArgs &args)\n"
    "{\n"
    "    WorkerChipOrchRegionDesc desc = desc_of(args);\n"
    "    uint64_t scalars[WORKER_CHIP_ORCH_REGION_DESC_SCALAR_COUNT], there = 0, here = 0;\n"
    "    memcpy(scalars, &desc, sizeof(scalars));\n"
    "    WorkerChipOrchEndpoint end(scalars, WORKER_CHIP_ORCH_REGION_DESC_SCALAR_COUNT);\n"
    "    WorkerChipOrchPayloadView view{};\n"
    "    int32_t seen = 0, value = 1;\n"
    "    bool is_well = end.counter_addr(0, there) && end.counter_addr(64, here);\n"
    "    for (int i = 1; is_well && value != 0; i++) {\n"
    "        is_well = end.signal_wait(there, i, WorkerChipOrchWaitCmp::GE, MINUTE, seen) &&\n"
    "                  end.payload_read(0, sizeof(value), view);\n"
    "        if (!is_well) break;\n"
    "        memcpy(&value, reinterpret_cast<void *>(view.gm_addr), sizeof(value));\n"
    "        int32_t next = value + 1;\n"
    "        is_well = end.payload_write(4, &next, sizeof(next)) &&\n"
    "                  end.signal_notify(here, 1, WorkerChipOrchNotifyOp::Add);\n"
    "    }\n"
    "    if (!is_well)\n"
    "        rt_report_fatal(PTO2_ERROR_EXPLICIT_ORCH_FATAL, \"%s: %s\",\n"
    "            worker_chip_endpoint_op_to_string(end.error().op), end.error().message);\n"
    "}\n";

static void count_with(uint64_t callable)
{
    struct call x = { .callable = callable };
    struct pto_worker_region *region = open_region(&x);
    struct pto_worker_run *handle;
    int32_t value;

    x.count = 6;
    handle = launch(&x);
    for (int i = 1; i <= 20; i++) {
        value = 20 - i;
        assert_int_equal(pto_worker_region_write(region, 0, &value, sizeof(value)), PTO_OK);
        assert_int_equal(
            pto_worker_region_notify(region, (struct pto_signal_at){ 0, PTO_SIGNAL_SET, i }), 0);
        assert_int_equal(
            pto_worker_region_wait(region, (struct pto_wait_for){ 64, PTO_COMPARE_GE, i }, 0, NULL),
            PTO_OK);
        assert_int_equal(pto_worker_region_read(region, 4, &value, sizeof(value)), PTO_OK);
        assert_int_equal(value, 21 - i);
    }
    finish(handle, PTO_OK);
    assert_int_equal(pto_worker_region_close(region), PTO_OK);
}

static void sources_for_the_reference_talk(void **state)
{
    struct call x = { 0 };
    struct pto_worker_queue *queue;
    struct pto_worker_run *handle;
    struct pto_worker_message m;

    (void)state;
    open_worker(1, 0);
    count_with(register_bytes(reference_artefact, PTO_CHILD_CHIP, "counts"));
    x.callable = register_bytes(reference_artefact, PTO_CHILD_CHIP, "pairs");
    queue = open_queue(4, &x);
    x.count = 12;
    handle = launch(&x);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(pto_worker_queue_send(queue, PTO_MESSAGE_DATA, &i, sizeof(i), 0, NULL), 0);
        for (int k = 0; i % 2 == 1 && k < 2; k++) {
            int value = -1;

            pto_worker_message_init(&m);
            m.to = &value;
            m.room = sizeof(value);
            assert_int_equal(pto_worker_queue_receive(queue, &m, 0, NULL), PTO_OK);
            assert_int_equal(value, i - k);
        }
    }
    assert_int_equal(pto_worker_queue_send(queue, PTO_MESSAGE_STOP, NULL, 0, 0, NULL), PTO_OK);
    finish(handle, PTO_OK);
    assert_int_equal(pto_worker_queue_close(queue), PTO_OK);

    queue = open_queue(4, &x);
    x.count = 12;
    handle = launch(&x);
    assert_int_equal(pto_worker_queue_abort(queue), PTO_OK);
    assert_true(pto_worker_run_wait(handle, 0) < 0);
    pto_worker_report_init(&run_report);
    assert_true(pto_worker_run_finish(handle, &run_report) < 0);
    assert_non_null(strstr(run_report.error.text, "the host has given up"));
    close_worker();
}

static int set_up_all(void **state)
{
    struct recipe recipe;

    if (make_folder(state) != 0)
        return -1;
    chip_object = keep(compile(chip_text, ""));
    recipe = make_recipe(ADD); /* a kernel does not take part in the conversation */
    free(recipe.orchestration_bytes.at);
    recipe.orchestration_bytes = compile_as("c++", reference_text, "-I\"$OLDPWD/include/simpler\"");
    recipe.parts.orchestration = recipe.orchestration_bytes.at;
    recipe.parts.orchestration_size = recipe.orchestration_bytes.size;
    recipe.parts.signature_count = 0;
    reference_artefact = keep(make_artefact(&recipe));
    free_recipe(&recipe);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(messages_arrive_whole_and_in_order),
        TEST(counters_wrap),
        TEST(what_was_written_before_a_counter_is_seen),
        TEST(what_is_no_message_ends_the_queue),
        TEST(a_stop_is_the_last),
        TEST(scalars_that_are_no_queue_are_refused),
        TEST(a_chip_answers_messages),
        TEST(errors_and_sizes_are_told),
        TEST(tasks_go_on_while_a_region_is_polled),
        TEST(whoever_waits_is_woken),
        TEST(sources_for_the_reference_talk),
    };

    alarm(HANG_SECONDS);
    return cmocka_run_group_tests(tests, set_up_all, tear_down);
}
