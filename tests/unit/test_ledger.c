/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of the reference's rings, with a graph that the test steps: each rule on its own, and
 * random programs compared with a naive model that has no rings, only lists of tasks.
 */
#include "graph/ledger.h"

#include "tests/fixture/port_test.h"

enum { BOOK_KIB = 1024 };

struct book {
    struct rig *rig;
    struct ledger l;
};

static struct book *book_left;

static void start_book(struct book *b, const struct ledger_limits *limits)
{
    assert_int_equal(rig_start(b->rig, PTO_DEPS_SIMPLER, false), PTO_OK);
    assert_int_equal(ledger_start(&b->l, limits), PTO_OK);
    ledger_scope_begin(&b->l);
}

static void close_book(struct book *b)
{
    ledger_each_pool(&b->l, rig_release_pool, NULL);
    rig_close(b->rig);
    free(b);
    book_left = NULL;
}

static struct book *open_book(struct ledger_limits limits)
{
    struct book *b = calloc(1, sizeof(*b));

    assert_true(b != NULL);
    if (book_left != NULL) { /* left by a test that failed */
        ledger_each_pool(&book_left->l, rig_release_pool, NULL);
        free(book_left);
    }
    book_left = b;
    b->rig = rig_open(PTO_DEPS_SIMPLER);
    ledger_each_pool(&b->l, rig_reserve_pool, &b->rig->memory);
    start_book(b, &limits);
    return b;
}

/* The same size for every ring. */
static struct ledger_limits sizes(uint32_t window, uint64_t heap, uint32_t dep_pool)
{
    struct ledger_limits limits = { 0 };

    for (uint32_t i = 0; i < GRAPH_RINGS; i++) {
        limits.window[i] = window;
        limits.heap[i] = heap;
        limits.dep_pool[i] = dep_pool;
    }
    return limits;
}

static void begin_as(struct book *b, enum pto_scope_mode mode)
{
    assert_int_equal(graph_scope_begin(&b->rig->g, mode, NULL), PTO_OK);
    ledger_scope_begin(&b->l);
}

static void begin_scope(struct book *b)
{
    begin_as(b, PTO_SCOPE_AUTO);
}

static void end_scope(struct book *b)
{
    assert_int_equal(graph_scope_end(&b->rig->g), PTO_OK);
    ledger_scope_end(&b->l);
}

static const struct pto_kernels dummy = { -1, -1, -1 };

/* Submits as the host does; PTO_EAGAIN is left to the caller. */
static int try_kernels(struct book *b, const struct pto_kernels *kernels,
                       const struct pto_args *args, struct pto_outputs *out)
{
    struct graph *g = &b->rig->g;
    uint32_t seq = g->seq;
    struct slot *ready;
    int status = ledger_admit(&b->l, g, args);

    if (status < 0)
        return status;
    assert_int_equal(graph_submit(g, kernels, args, NULL, out, &ready), PTO_OK);
    return ledger_commit(&b->l, g, args, out->task, rig_slot(b->rig, out->task)->number, seq);
}

static int try_submit(struct book *b, const struct pto_args *args, struct pto_outputs *out)
{
    return try_kernels(b, &rig_aiv, args, out);
}

static int try_alloc(struct book *b, const struct pto_args *args, struct pto_outputs *out)
{
    struct graph *g = &b->rig->g;
    uint32_t seq = g->seq;
    int status = ledger_admit(&b->l, g, args);

    if (status < 0)
        return status;
    assert_int_equal(graph_alloc(g, args, out), PTO_OK);
    return ledger_commit(&b->l, g, args, out->task, 0, seq);
}

static int try_empty(struct book *b, struct pto_task_id *id)
{
    struct pto_args args;
    struct pto_outputs out = { .task = pto_task_id_invalid() };
    int status;

    pto_args_init(&args);
    status = try_submit(b, &args, &out);
    if (id != NULL)
        *id = out.task;
    return status;
}

static struct pto_task_id book_empty(struct book *b)
{
    struct pto_task_id id;

    assert_int_equal(try_empty(b, &id), PTO_OK);
    return id;
}

static struct pto_tensor_info bytes_info(uint32_t bytes)
{
    const uint32_t shape[] = { bytes };

    return pto_tensor_info_make(shape, 1, PTO_UINT8);
}

static int try_bytes(struct book *b, uint32_t bytes, struct pto_outputs *out)
{
    struct pto_tensor_info info = bytes_info(bytes);
    struct pto_args args;

    pto_args_init(&args);
    pto_add_output(&args, &info);
    return try_submit(b, &args, out);
}

static struct pto_outputs submit_bytes(struct book *b, uint32_t bytes)
{
    struct pto_outputs out;

    assert_int_equal(try_bytes(b, bytes, &out), PTO_OK);
    return out;
}

static int try_after(struct book *b, const struct pto_task_id *deps, const uint8_t *kinds,
                     uint32_t count, struct pto_task_id *id)
{
    struct pto_args args;
    struct pto_outputs out;
    int status;

    pto_args_init(&args);
    pto_set_deps(&args, deps, kinds, count);
    status = try_submit(b, &args, &out);
    if (status >= 0)
        *id = out.task;
    return status;
}

static int try_use(struct book *b, const struct pto_tensor *t, enum pto_tag tag,
                   struct pto_task_id *id)
{
    struct pto_args args;
    struct pto_outputs out;
    int status;

    pto_args_init(&args);
    pto_args_add(&args, t, tag);
    status = try_submit(b, &args, &out);
    if (status >= 0)
        *id = out.task;
    return status;
}

static struct pto_tensor book_tensor(uint32_t index)
{
    uintptr_t addr = 0x200000000ull + 4096ull * index;
    const uint32_t shape[] = { 16 };

    return pto_tensor_external((void *)addr, shape, 1, PTO_FLOAT32);
}

static void complete(struct book *b, struct pto_task_id id)
{
    rig_complete(b->rig, id);
}

static void assert_waits_for(const struct book *b, struct pto_task_id id)
{
    const struct slot *s = rig_slot(b->rig, id);

    assert_false(b->l.refusal.is_structural);
    assert_int_equal(b->l.refusal.wait_slot, s->number);
    assert_int_equal(b->l.refusal.wait_seq, s->seq);
}

/* ---- the window ---- */

static void a_scope_that_fills_its_window_fails_at_once(void **state)
{
    struct book *b = open_book(sizes(8, 0, 0));

    (void)state;
    begin_scope(b);
    for (uint32_t i = 0; i < 7; i++)
        complete(b, book_empty(b)); /* their completion does not help */
    assert_int_equal(try_empty(b, NULL), PTO_ESCOPE_DEADLOCK);
    assert_true(b->l.refusal.is_structural);
    assert_int_equal(b->l.refusal.ring, 1);
    assert_int_equal(b->l.refusal.scope_tasks, 7);
    close_book(b);
}

static void a_scope_counts_its_own_tasks_only(void **state)
{
    struct book *b = open_book(sizes(4, 0, 0));

    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        complete(b, book_empty(b));
    begin_scope(b);
    for (uint32_t i = 0; i < 3; i++)
        complete(b, book_empty(b));
    assert_int_equal(try_empty(b, NULL), PTO_ESCOPE_DEADLOCK);
    end_scope(b);
    begin_scope(b);
    book_empty(b);
    end_scope(b);
    book_empty(b);
    assert_int_equal(try_empty(b, NULL), PTO_ESCOPE_DEADLOCK);
    close_book(b);
}

/* Scopes nested 3 or more deep share a ring, as in the reference's test of code 3. */
static void nested_scopes_fill_the_last_ring(void **state)
{
    struct book *b = open_book(sizes(4, 0, 0));

    (void)state;
    for (uint32_t depth = 1; depth < 4; depth++) {
        begin_scope(b);
        for (uint32_t i = 0; i < 3; i++)
            book_empty(b);
    }
    begin_scope(b);
    assert_int_equal(try_empty(b, NULL), PTO_EWINDOW);
    assert_true(b->l.refusal.is_structural);
    assert_int_equal(b->l.refusal.ring, 3);
    assert_int_equal(b->l.refusal.scope_tasks, 0);
    assert_int_equal(b->l.refusal.head, 0);
    close_book(b);
}

static void a_full_window_waits_for_its_oldest_task(void **state)
{
    struct book *b = open_book(sizes(4, 0, 0));
    struct pto_task_id id[3];

    (void)state;
    begin_scope(b);
    for (uint32_t i = 0; i < 3; i++)
        id[i] = book_empty(b);
    end_scope(b);
    begin_scope(b);
    assert_int_equal(try_empty(b, NULL), PTO_EAGAIN);
    assert_int_equal(b->l.refusal.status, PTO_EWINDOW);
    assert_waits_for(b, id[0]);
    complete(b, id[1]); /* out of order */
    complete(b, id[2]);
    assert_int_equal(try_empty(b, NULL), PTO_EAGAIN);
    assert_waits_for(b, id[0]);
    assert_int_equal(b->l.refusal.progress, 0);
    complete(b, id[0]);
    for (uint32_t i = 0; i < 3; i++)
        book_empty(b);
    assert_int_equal(b->l.ring[1].head, 3);
    close_book(b);
}

static void the_scope_is_looked_at_before_the_window(void **state)
{
    struct book *b = open_book(sizes(4, 1024, 0));
    struct pto_outputs out;

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        book_empty(b);
    assert_int_equal(try_bytes(b, 4096, &out), PTO_ESCOPE_DEADLOCK);
    close_book(b);
}

static void the_window_is_looked_at_before_the_heap(void **state)
{
    struct book *b = open_book(sizes(4, 1024, 0));
    struct pto_outputs out;

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        begin_scope(b);
    for (uint32_t i = 0; i < 3; i++)
        book_empty(b);
    begin_scope(b);
    assert_int_equal(try_bytes(b, 4096, &out), PTO_EWINDOW);
    close_book(b);
}

static void allocations_take_a_place_and_are_complete(void **state)
{
    struct book *b = open_book(sizes(4, 0, 0));
    struct pto_tensor_info info = bytes_info(16);
    struct pto_args args;
    struct pto_outputs out;

    (void)state;
    pto_args_init(&args);
    pto_add_output(&args, &info);
    begin_scope(b);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(try_alloc(b, &args, &out), PTO_OK);
    assert_int_equal(try_alloc(b, &args, &out), PTO_ESCOPE_DEADLOCK);
    end_scope(b);
    begin_scope(b);
    assert_int_equal(try_alloc(b, &args, &out), PTO_OK);
    assert_int_equal(b->l.ring[1].head, 3);
    close_book(b);
}

static void only_rings_with_a_size_are_checked(void **state)
{
    struct ledger_limits limits = { .window = { 0, 4, 0, 0 } };
    struct book *b = open_book(limits);

    (void)state;
    for (uint32_t i = 0; i < 1000; i++)
        book_empty(b);
    begin_scope(b);
    for (uint32_t i = 0; i < 3; i++)
        book_empty(b);
    begin_scope(b);
    for (uint32_t i = 0; i < 1000; i++)
        submit_bytes(b, 4096);
    end_scope(b);
    assert_int_equal(try_empty(b, NULL), PTO_ESCOPE_DEADLOCK);
    close_book(b);
}

/* ---- what a ring cannot take back yet ---- */

/* A task of ring 1 that has completed and whose scope has ended, retained or not. */
static struct pto_outputs finished(struct book *b)
{
    struct pto_outputs out;

    begin_scope(b);
    out = submit_bytes(b, 16);
    return out;
}

static bool is_taken_back(struct book *b)
{
    struct pto_args args;
    bool is_empty;

    pto_args_init(&args);
    begin_scope(b);
    assert_int_equal(ledger_admit(&b->l, &b->rig->g, &args), PTO_OK);
    is_empty = b->l.ring[1].head == b->l.ring[1].next;
    end_scope(b);
    return is_empty;
}

static void a_task_is_kept_by_its_scope(void **state)
{
    struct book *b = open_book(sizes(16, 0, 0));
    struct pto_outputs out = finished(b);
    struct pto_args args;

    (void)state;
    complete(b, out.task);
    pto_args_init(&args);
    assert_int_equal(ledger_admit(&b->l, &b->rig->g, &args), PTO_OK);
    assert_int_equal(b->l.ring[1].head, 0);
    end_scope(b);
    assert_true(is_taken_back(b));
    close_book(b);
}

static void explicit_dependencies_retain_unless_they_only_wait(void **state)
{
    static const uint8_t kinds[] = { PTO_DEP_WAIT, PTO_DEP_RETAIN, PTO_DEP_WAIT | PTO_DEP_RETAIN };

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct book *b = open_book(sizes(16, 0, 0));
        struct pto_outputs out = finished(b);
        struct pto_task_id user;

        end_scope(b);
        assert_int_equal(try_after(b, &out.task, i < 3 ? &kinds[i] : NULL, 1, &user), PTO_OK);
        complete(b, out.task);
        assert_int_equal(is_taken_back(b), i == 0);
        complete(b, user);
        assert_true(is_taken_back(b));
        close_book(b);
    }
}

static void arguments_retain_their_creator_with_any_tag(void **state)
{
    static const enum pto_tag tags[] = { PTO_TAG_INPUT, PTO_TAG_INOUT, PTO_TAG_OUTPUT_EXISTING,
                                         PTO_TAG_NO_DEP };

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct book *b = open_book(sizes(16, 0, 0));
        struct pto_outputs out = finished(b);
        struct pto_tensor t = out.tensor[0];
        struct pto_task_id user;

        t.manual_dep = i % 2 != 0;
        end_scope(b);
        assert_int_equal(try_use(b, &t, tags[i], &user), PTO_OK);
        complete(b, out.task);
        assert_false(is_taken_back(b));
        complete(b, user);
        assert_true(is_taken_back(b));
        close_book(b);
    }
}

static void a_manual_scope_retains_no_creator(void **state)
{
    struct book *b = open_book(sizes(16, 0, 0));
    struct pto_outputs out = finished(b);
    struct pto_tensor t = out.tensor[0];
    struct pto_task_id user;

    (void)state;
    end_scope(b);
    begin_as(b, PTO_SCOPE_MANUAL);
    begin_as(b, PTO_SCOPE_MANUAL);
    assert_int_equal(try_use(b, &t, PTO_TAG_INPUT, &user), PTO_OK);
    end_scope(b);
    end_scope(b);
    complete(b, out.task);
    assert_true(is_taken_back(b));
    complete(b, user);
    close_book(b);
}

static void writers_that_are_looked_up_are_not_retained(void **state)
{
    struct book *b = open_book(sizes(16, 0, 16));
    struct pto_tensor t = book_tensor(0);
    struct pto_task_id writer, reader;

    (void)state;
    begin_scope(b);
    assert_int_equal(try_use(b, &t, PTO_TAG_INOUT, &writer), PTO_OK);
    end_scope(b);
    assert_int_equal(try_use(b, &t, PTO_TAG_INPUT, &reader), PTO_OK);
    complete(b, writer);
    assert_true(is_taken_back(b));
    complete(b, reader);
    close_book(b);
}

static void the_wait_is_for_the_retainer_once_the_task_has_completed(void **state)
{
    struct ledger_limits limits = { .window = { 0, 4, 0, 0 } };
    struct book *b = open_book(limits);
    struct pto_outputs out = finished(b);
    struct pto_task_id user, other;

    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        complete(b, book_empty(b));
    end_scope(b);
    assert_int_equal(try_after(b, &out.task, NULL, 1, &user), PTO_OK);
    assert_int_equal(try_after(b, &out.task, NULL, 1, &other), PTO_OK);
    begin_scope(b);
    assert_int_equal(try_empty(b, NULL), PTO_EAGAIN);
    assert_waits_for(b, out.task);
    complete(b, out.task);
    assert_int_equal(try_empty(b, NULL), PTO_EAGAIN);
    assert_waits_for(b, other); /* the newest first */
    complete(b, other);
    assert_int_equal(try_empty(b, NULL), PTO_EAGAIN);
    assert_waits_for(b, user);
    complete(b, user);
    book_empty(b);
    close_book(b);
}

static void a_consumed_task_is_not_retained_again(void **state)
{
    struct ledger_limits limits = { .window = { 0, 8, 0, 0 } };
    struct book *b = open_book(limits);
    struct pto_task_id first, second, user;

    (void)state;
    begin_scope(b);
    first = book_empty(b);
    second = book_empty(b);
    end_scope(b);
    complete(b, second); /* can be released, but follows a task that cannot */
    assert_int_equal(try_after(b, &second, NULL, 1, &user), PTO_OK);
    complete(b, first);
    assert_true(is_taken_back(b));
    complete(b, user);
    close_book(b);
}

/* ---- the heap ---- */

static void outputs_are_rounded_and_packed(void **state)
{
    struct book *b = open_book(sizes(0, 8 * BOOK_KIB, 0));
    struct pto_tensor_info info[3] = { bytes_info(1), bytes_info(1025), bytes_info(0) };
    struct pto_args args;
    struct pto_outputs out;

    (void)state;
    pto_args_init(&args);
    for (uint32_t i = 0; i < 3; i++)
        pto_add_output(&args, &info[i]);
    assert_int_equal(try_submit(b, &args, &out), PTO_OK);
    assert_int_equal(b->l.ring[0].heap_top, 3 * BOOK_KIB);
    close_book(b);
}

static void an_output_that_never_fits_is_refused_at_once(void **state)
{
    struct book *b = open_book(sizes(0, 1024, 0));
    struct pto_outputs out;

    (void)state;
    begin_scope(b);
    assert_int_equal(try_bytes(b, 32 * BOOK_KIB, &out), PTO_EHEAP);
    assert_true(b->l.refusal.is_structural);
    assert_int_equal(b->l.refusal.needed, 32 * BOOK_KIB);
    assert_int_equal(b->l.refusal.size, 1024);
    submit_bytes(b, 1024);
    close_book(b);
}

static void a_heap_held_by_an_open_scope_is_refused_at_once(void **state)
{
    struct book *b = open_book(sizes(0, 4 * BOOK_KIB, 0));
    struct pto_outputs out;

    (void)state;
    complete(b, submit_bytes(b, 3 * BOOK_KIB).task);
    assert_int_equal(try_bytes(b, 2 * BOOK_KIB, &out), PTO_EHEAP);
    assert_true(b->l.refusal.is_structural);
    submit_bytes(b, BOOK_KIB); /* up to the end */
    close_book(b);
}

/* One task, one scope. */
static struct pto_task_id scoped_bytes(struct book *b, uint32_t bytes, int expected)
{
    struct pto_outputs out = { .task = pto_task_id_invalid() };

    begin_scope(b);
    assert_int_equal(try_bytes(b, bytes, &out), expected);
    end_scope(b);
    return out.task;
}

static void an_allocation_never_straddles_the_end(void **state)
{
    struct book *b = open_book(sizes(0, 8 * BOOK_KIB, 0));
    struct pto_task_id a = scoped_bytes(b, 3 * BOOK_KIB, PTO_OK);
    struct pto_task_id c = scoped_bytes(b, 3 * BOOK_KIB, PTO_OK), d;

    (void)state;
    scoped_bytes(b, 3 * BOOK_KIB, PTO_EAGAIN); /* 2 KiB at the end of the ring */
    assert_waits_for(b, a);
    assert_int_equal(b->l.refusal.status, PTO_EHEAP);
    complete(b, a);
    scoped_bytes(b, 3 * BOOK_KIB, PTO_EAGAIN); /* 3 at the beginning: top must not reach tail */
    d = scoped_bytes(b, 2 * BOOK_KIB, PTO_OK); /* is placed at the end */
    assert_int_equal(b->l.ring[1].heap_top, 8 * BOOK_KIB);
    scoped_bytes(b, 2 * BOOK_KIB, PTO_OK); /* and this one at the beginning */
    assert_int_equal(b->l.ring[1].heap_top, 2 * BOOK_KIB);
    scoped_bytes(b, BOOK_KIB, PTO_EAGAIN); /* it would reach the tail again */
    complete(b, c);
    scoped_bytes(b, 3 * BOOK_KIB, PTO_OK); /* 4 are free by now */
    scoped_bytes(b, BOOK_KIB, PTO_EAGAIN);
    assert_waits_for(b, d);
    close_book(b);
}

/* The end of the heap stays unusable while an allocation at its beginning lives. */
static void what_was_left_at_the_end_is_not_used_before_the_tail_has_passed(void **state)
{
    struct book *b = open_book(sizes(0, 8 * BOOK_KIB, 0));
    struct pto_task_id a = scoped_bytes(b, 6 * BOOK_KIB, PTO_OK), c;

    (void)state;
    complete(b, a);
    c = scoped_bytes(b, 4 * BOOK_KIB, PTO_OK); /* top = tail = 6: at the start, below the tail */
    assert_int_equal(b->l.ring[1].heap_top, 4 * BOOK_KIB);
    assert_int_equal(b->l.ring[1].heap_tail, 6 * BOOK_KIB);
    scoped_bytes(b, 2 * BOOK_KIB, PTO_EAGAIN);
    assert_waits_for(b, c);
    scoped_bytes(b, BOOK_KIB, PTO_OK);
    close_book(b);
}

static void an_empty_heap_starts_anew(void **state)
{
    struct book *b = open_book(sizes(0, 8 * BOOK_KIB, 0));
    struct pto_task_id a = scoped_bytes(b, 3 * BOOK_KIB, PTO_OK), none, c;

    (void)state;
    none = scoped_bytes(b, 0, PTO_OK); /* alive, but without bytes */
    complete(b, a);
    c = scoped_bytes(b, 8 * BOOK_KIB, PTO_OK); /* all of it */
    assert_int_equal(b->l.ring[1].heap_top, 8 * BOOK_KIB);
    assert_int_equal(b->l.ring[1].heap_tail, 0);
    complete(b, none); /* it ends at the former position of the heap */
    scoped_bytes(b, BOOK_KIB, PTO_EAGAIN);
    assert_int_equal(b->l.ring[1].heap_tail, 0);
    assert_waits_for(b, c);
    complete(b, c);
    scoped_bytes(b, BOOK_KIB, PTO_OK);
    assert_int_equal(b->l.ring[1].heap_top, BOOK_KIB);
    close_book(b);
}

/* ---- predecessors ---- */

enum { BOOK_FAN = 128 };

static void book_fan(struct book *b, struct pto_task_id id[], uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        id[i] = book_empty(b);
}

static void sixty_four_predecessors_need_no_pool(void **state)
{
    struct book *b = open_book(sizes(0, 0, 4));
    struct pto_task_id id[BOOK_FAN], user;

    (void)state;
    begin_scope(b);
    book_fan(b, id, BOOK_FAN);
    assert_int_equal(try_after(b, id, NULL, 64, &user), PTO_OK);
    assert_int_equal(b->l.ring[1].dep_used, 0);
    assert_int_equal(try_after(b, id, NULL, 66, &user), PTO_OK);
    assert_int_equal(b->l.ring[1].dep_used, 2);
    assert_int_equal(try_after(b, id, NULL, 67, &user), PTO_EDEP_POOL); /* held by the scope */
    assert_true(b->l.refusal.is_structural);
    assert_int_equal(b->l.refusal.needed, 3);
    assert_int_equal(try_after(b, id, NULL, 66, &user), PTO_OK);
    assert_int_equal(b->l.ring[1].dep_used, 4);
    close_book(b);
}

/* As in the reference's test of code 4. */
static void more_predecessors_than_the_pool_ever_holds(void **state)
{
    struct book *b = open_book(sizes(0, 0, 4));
    struct pto_task_id id[BOOK_FAN], user;

    (void)state;
    begin_scope(b);
    book_fan(b, id, BOOK_FAN);
    assert_int_equal(try_after(b, id, NULL, BOOK_FAN, &user), PTO_EDEP_POOL);
    assert_true(b->l.refusal.is_structural);
    assert_int_equal(b->l.refusal.needed, BOOK_FAN - 64);
    close_book(b);
}

static void entries_come_back_with_their_consumer(void **state)
{
    struct ledger_limits limits = { .dep_pool = { 0, 0, 4, 0 } };
    struct book *b = open_book(limits);
    struct pto_task_id id[BOOK_FAN], user, next;

    (void)state;
    begin_scope(b);
    book_fan(b, id, BOOK_FAN);
    begin_scope(b);
    assert_int_equal(try_after(b, id, NULL, 68, &user), PTO_OK);
    end_scope(b);
    begin_scope(b);
    assert_int_equal(try_after(b, id, NULL, 68, &next), PTO_EAGAIN);
    assert_int_equal(b->l.refusal.status, PTO_EDEP_POOL);
    assert_waits_for(b, user);
    complete(b, user);
    assert_int_equal(try_after(b, id, NULL, 68, &next), PTO_OK);
    close_book(b);
}

static void a_predecessor_counts_once_and_not_when_consumed(void **state)
{
    struct book *b = open_book(sizes(0, 0, 4));
    struct pto_task_id id[BOOK_FAN], user;

    (void)state;
    begin_scope(b);
    book_fan(b, id, 64);
    for (uint32_t i = 0; i < 64; i++)
        id[64 + i] = id[i];
    assert_int_equal(try_after(b, id, NULL, BOOK_FAN, &user), PTO_OK); /* each twice */
    assert_int_equal(b->l.ring[1].dep_used, 0);
    end_scope(b);
    for (uint32_t i = 0; i < 64; i++)
        complete(b, id[i]);
    complete(b, user);
    begin_scope(b);
    book_fan(b, id, 68);
    end_scope(b);
    complete(b, id[0]); /* consumed: its scope has ended */
    complete(b, id[67]);
    begin_scope(b);
    assert_int_equal(try_after(b, id, NULL, 68, &user), PTO_OK);
    assert_int_equal(b->l.ring[1].dep_used, 2);
    end_scope(b);
    begin_scope(b);
    book_fan(b, id, 68);
    complete(b, id[0]); /* completed only */
    assert_int_equal(try_after(b, id, NULL, 66, &user), PTO_OK);
    assert_int_equal(b->l.ring[1].dep_used, 4);
    close_book(b);
}

/* Creators and writers that a look-up finds are predecessors as well; replaced writers are not. */
static void creators_and_writers_count(void **state)
{
    struct book *b = open_book(sizes(0, 0, 8));
    struct pto_tensor t = book_tensor(0), part, made;
    struct pto_task_id id[BOOK_FAN], user;
    struct pto_args args;
    struct pto_outputs out;

    (void)state;
    book_fan(b, id, 62);
    made = submit_bytes(b, 64).tensor[0];
    for (uint32_t i = 0; i < 8; i++) { /* pieces: none covers another */
        const uint32_t shape[] = { 2 }, offset[] = { 2 * i };

        part = pto_tensor_view(&t, shape, offset);
        assert_int_equal(try_use(b, &part, PTO_TAG_INOUT, &user), PTO_OK);
    }
    pto_args_init(&args);
    pto_add_input(&args, &made);
    pto_add_input(&args, &t);
    pto_set_deps(&args, id, NULL, 62);
    assert_int_equal(try_submit(b, &args, &out), PTO_OK);
    assert_int_equal(b->l.ring[0].dep_used, 62 + 1 + 8 - 64);
    assert_int_equal(try_use(b, &t, PTO_TAG_INOUT, &user), PTO_OK); /* covers the pieces */
    assert_int_equal(b->l.region_count, 1);
    assert_int_equal(try_submit(b, &args, &out), PTO_OK); /* 62 + 1 + 1 */
    assert_int_equal(b->l.ring[0].dep_used, 7);
    begin_as(b, PTO_SCOPE_MANUAL);
    assert_int_equal(try_submit(b, &args, &out), PTO_OK);
    assert_int_equal(b->l.ring[1].dep_used, 0);
    end_scope(b);
    close_book(b);
}

static void what_orders_nothing_does_not_count(void **state)
{
    struct book *b = open_book(sizes(0, 0, 4));
    struct pto_tensor t[4], view;
    struct pto_tensor_info info = bytes_info(16);
    struct pto_task_id id[68], user;
    uint8_t none[68] = { PTO_DEP_NONE };
    struct pto_args args;
    struct pto_outputs out;

    (void)state;
    book_fan(b, id, 64);
    for (uint32_t i = 0; i < 4; i++) {
        t[i] = book_tensor(i);
        assert_int_equal(try_use(b, &t[i], PTO_TAG_OUTPUT_EXISTING, &id[64 + i]), PTO_OK);
    }
    assert_int_equal(try_after(b, id, none, 68, &user), PTO_OK);
    assert_int_equal(b->l.ring[0].dep_used, 0);
    pto_args_init(&args);
    pto_add_output(&args, &info);
    pto_set_deps(&args, id, NULL, 68);
    assert_int_equal(try_alloc(b, &args, &out), PTO_OK); /* waits for nobody */
    assert_int_equal(b->l.ring[0].dep_used, 0);
    pto_args_init(&args);
    view = t[0];
    view.manual_dep = true;
    pto_add_input(&args, &view);
    pto_args_add(&args, &t[1], PTO_TAG_OUTPUT_EXISTING);
    pto_args_add(&args, &t[2], PTO_TAG_NO_DEP);
    pto_set_deps(&args, id, NULL, 64);
    assert_int_equal(try_submit(b, &args, &out), PTO_OK);
    assert_int_equal(b->l.ring[0].dep_used, 0);
    pto_add_input(&args, &t[3]);
    assert_int_equal(try_submit(b, &args, &out), PTO_OK);
    assert_int_equal(b->l.ring[0].dep_used, 1);
    close_book(b);
}

/* ---- the reference's fixed pools ---- */

static void the_reference_has_its_defaults(void **state)
{
    struct ledger_limits limits = { .is_reference = true, .window = { 8, 0, 0, 0 } };
    struct book *b = open_book(limits);

    (void)state;
    assert_int_equal(b->l.ring[0].window, 8);
    assert_int_equal(b->l.ring[1].window, 16384);
    assert_int_equal(b->l.ring[1].heap, 256 << 20);
    assert_int_equal(b->l.ring[3].dep_pool, 16384);
    assert_int_equal(b->l.region_max, 65536);
    begin_scope(b);
    for (uint32_t i = 0; i < 16383; i++)
        complete(b, book_empty(b));
    assert_int_equal(try_empty(b, NULL), PTO_ESCOPE_DEADLOCK);
    close_book(b);
}

static void regions_run_out(void **state)
{
    struct ledger_limits limits = { .is_reference = true };
    struct book *b = open_book(limits);
    struct pto_tensor t[5];
    struct pto_task_id id[3], user;
    struct pto_args args;
    struct pto_outputs out;

    (void)state;
    b->l.region_max = 4;
    for (uint32_t i = 0; i < 5; i++)
        t[i] = book_tensor(i);
    begin_scope(b);
    assert_int_equal(try_use(b, &t[0], PTO_TAG_INOUT, &id[0]), PTO_OK);
    assert_int_equal(try_use(b, &t[1], PTO_TAG_OUTPUT_EXISTING, &id[1]), PTO_OK);
    assert_int_equal(try_use(b, &t[2], PTO_TAG_INPUT, &id[2]), PTO_OK);
    end_scope(b);
    assert_int_equal(b->l.region_count, 2);
    pto_args_init(&args);
    for (uint32_t i = 2; i < 5; i++)
        pto_args_add(&args, &t[i], PTO_TAG_OUTPUT_EXISTING);
    assert_int_equal(try_submit(b, &args, &out), PTO_EAGAIN); /* 3 more */
    assert_int_equal(b->l.refusal.status, PTO_EREGIONS);
    assert_waits_for(b, id[0]); /* in another ring */
    complete(b, id[1]);
    assert_int_equal(try_submit(b, &args, &out), PTO_EAGAIN);
    complete(b, id[0]);
    assert_int_equal(try_submit(b, &args, &out), PTO_OK);
    assert_int_equal(b->l.region_count, 3);
    assert_int_equal(b->l.region_returned, 2);
    assert_int_equal(try_use(b, &t[0], PTO_TAG_INOUT, &user), PTO_OK);
    assert_int_equal(try_use(b, &t[1], PTO_TAG_INOUT, &user), PTO_EREGIONS); /* scope open */
    assert_true(b->l.refusal.is_structural);
    assert_int_equal(try_use(b, &t[2], PTO_TAG_INOUT, &user), PTO_OK); /* replaces */
    t[1].manual_dep = true;
    assert_int_equal(try_use(b, &t[1], PTO_TAG_INOUT, &user), PTO_OK); /* is not registered */
    t[1].manual_dep = false;
    begin_as(b, PTO_SCOPE_MANUAL);
    assert_int_equal(try_use(b, &t[1], PTO_TAG_INOUT, &user), PTO_OK);
    end_scope(b);
    assert_int_equal(try_use(b, &t[2], PTO_TAG_OUTPUT_EXISTING, &user), PTO_EREGIONS);
    close_book(b);
}

/* ---- host mode ---- */

static struct ledger_limits held(uint32_t window, uint64_t heap, bool is_reference)
{
    struct ledger_limits limits = { .is_held = true, .is_reference = is_reference };

    limits.window[0] = window;
    limits.heap[0] = heap;
    limits.window[1] = 4; /* nobody looks */
    return limits;
}

static void host_mode_uses_window_and_heap_once(void **state)
{
    struct book *b = open_book(held(8, 4 * BOOK_KIB, false));
    struct pto_outputs out;

    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        scoped_bytes(b, BOOK_KIB, PTO_OK);
    begin_scope(b);
    assert_int_equal(try_bytes(b, 2 * BOOK_KIB, &out), PTO_EHEAP);
    assert_true(b->l.refusal.is_structural);
    submit_bytes(b, BOOK_KIB);
    end_scope(b);
    for (uint32_t i = 0; i < 4; i++)
        book_empty(b);
    assert_int_equal(try_bytes(b, BOOK_KIB, &out), PTO_EWINDOW); /* all 8 were available */
    assert_true(b->l.refusal.is_structural);
    close_book(b);
}

static void host_mode_allows_so_many_predecessors(void **state)
{
    struct book *b = open_book(held(0, 0, true));
    struct pto_task_id id[129], user;
    struct pto_tensor_info info = bytes_info(16);
    struct pto_args args;
    struct pto_outputs out;

    (void)state;
    pto_args_init(&args);
    pto_add_output(&args, &info);
    begin_scope(b);
    for (uint32_t i = 0; i < 129; i++) { /* complete, but they still count here */
        assert_int_equal(try_alloc(b, &args, &out), PTO_OK);
        id[i] = out.task;
    }
    end_scope(b);
    assert_int_equal(try_after(b, id, NULL, 128, &user), PTO_OK);
    assert_int_equal(try_after(b, id, NULL, 129, &user), PTO_EDEP_POOL);
    assert_true(b->l.refusal.is_structural);
    close_book(b);
}

static void host_mode_without_fixed_pools_keeps_no_books(void **state)
{
    struct book *b = open_book(held(1 << 20, 0, false));
    struct pto_task_id id[129], user;

    (void)state;
    book_fan(b, id, 129);
    assert_int_equal(try_after(b, id, NULL, 129, &user), PTO_OK);
    assert_int_equal(b->l.ring[0].pool.used, 0);
    close_book(b);
}

static void host_mode_queues_so_many_ready_tasks(void **state)
{
    static const struct pto_kernels aic = { RIG_KERNEL_AIC, -1, -1 };
    struct book *b = open_book(held(32768, 0, true));
    struct pto_task_id first, user;
    struct pto_args args;
    struct pto_outputs out;

    (void)state;
    pto_args_init(&args);
    first = book_empty(b);
    for (uint32_t i = 1; i < LEDGER_READY_HELD; i++)
        book_empty(b);
    assert_int_equal(try_after(b, &first, NULL, 1, &user), PTO_OK); /* is not ready */
    /* each ring has a separate queue */
    assert_int_equal(try_kernels(b, &aic, &args, &out), PTO_OK);
    assert_int_equal(try_kernels(b, &dummy, &args, &out), PTO_OK);
    assert_int_equal(try_empty(b, NULL), PTO_EREADY);
    assert_int_equal(b->l.refusal.size, LEDGER_READY_HELD);
    close_book(b);
}

static void host_mode_replaces_regions_but_takes_none_back(void **state)
{
    struct book *b = open_book(held(0, 0, true));
    struct pto_tensor t[2] = { book_tensor(0), book_tensor(1) };
    struct pto_task_id id;

    (void)state;
    b->l.region_max = 1;
    begin_scope(b);
    assert_int_equal(try_use(b, &t[0], PTO_TAG_INOUT, &id), PTO_OK);
    end_scope(b);
    assert_int_equal(try_use(b, &t[1], PTO_TAG_INOUT, &id), PTO_EREGIONS); /* no waiting */
    assert_int_equal(try_use(b, &t[0], PTO_TAG_INOUT, &id), PTO_OK);
    assert_int_equal(try_use(b, &t[1], PTO_TAG_INOUT, &id), PTO_EREGIONS);
    assert_true(b->l.refusal.is_structural);
    close_book(b);
}

/* ---- its own memory ---- */

static void arguments_that_the_graph_refuses_are_let_through(void **state)
{
    struct book *b = open_book(sizes(4, 1024, 4));
    const uint32_t shape[] = { 4, 4 };
    struct pto_tensor bad = pto_tensor_external((void *)4096, shape, 2, PTO_FLOAT32);
    struct pto_tensor_info info = bytes_info(4096);
    struct pto_task_id unknown = pto_task_id_make(7, 7);
    struct pto_args args;

    (void)state;
    pto_args_init(&args);
    pto_add_output(&args, &info);
    assert_int_equal(ledger_admit(&b->l, &b->rig->g, &args), PTO_EHEAP);
    args.error = "mistaken";
    assert_int_equal(ledger_admit(&b->l, &b->rig->g, &args), PTO_OK);
    args.error = NULL;
    info.ndims = 9;
    assert_int_equal(ledger_admit(&b->l, &b->rig->g, &args), PTO_OK);
    args.tag[0] = 77;
    assert_int_equal(ledger_admit(&b->l, &b->rig->g, &args), PTO_OK);
    bad.strides[0] = 0;
    pto_args_init(&args);
    pto_add_inout(&args, &bad);
    assert_int_equal(ledger_admit(&b->l, &b->rig->g, &args), PTO_OK);
    pto_args_init(&args);
    pto_set_deps(&args, &unknown, NULL, 1);
    assert_int_equal(ledger_admit(&b->l, &b->rig->g, &args), PTO_OK);
    unknown = pto_task_id_invalid();
    assert_int_equal(ledger_admit(&b->l, &b->rig->g, &args), PTO_OK);
    close_book(b);
}

static void memory_that_runs_out_is_reported(void **state)
{
    struct book *b = open_book(sizes(0, 1 << 30, 0));

    (void)state;
    for (uint32_t i = 0; i < 256; i++)
        book_empty(b);
    b->l.ring[0].pool.max = b->l.ring[0].pool.limit = b->l.ring[0].pool.used;
    assert_int_equal(try_empty(b, NULL), PTO_ENOMEM);
    close_book(b);
}

static void many_tasks_use_the_same_memory(void **state)
{
    struct book *b = open_book(sizes(64, 1 << 20, 64));
    struct pto_tensor t = book_tensor(0), made;
    struct pto_tensor_info info = bytes_info(512);
    struct pto_args args;
    struct pto_outputs out;
    uint64_t retainers = 0, regions = 0;

    (void)state;
    made = submit_bytes(b, 16).tensor[0]; /* all of them retain it */
    for (uint32_t i = 0; i < 200000 / TEST_SHARE; i++) {
        pto_args_init(&args);
        pto_add_input(&args, &made);
        pto_add_inout(&args, &t);
        pto_add_output(&args, &info);
        begin_scope(b);
        assert_int_equal(try_submit(b, &args, &out), PTO_OK);
        end_scope(b);
        complete(b, out.task);
        if (i == 1000) {
            retainers = b->l.retainer_pool.used;
            regions = b->l.region_pool.used;
        }
    }
    assert_int_equal(b->l.retainer_pool.used, retainers);
    assert_int_equal(b->l.region_pool.used, regions);
    assert_true(b->l.ring[1].mask < 256);
    close_book(b);
}

static void a_new_run_starts_with_empty_books(void **state)
{
    struct ledger_limits limits = sizes(4, 4 * BOOK_KIB, 4);
    struct book *b = open_book(limits);
    struct pto_tensor t = book_tensor(0);
    struct pto_task_id id;

    (void)state;
    limits.is_reference = true;
    for (uint32_t round = 0; round < 3; round++) {
        start_book(b, &limits);
        assert_int_equal(try_use(b, &t, PTO_TAG_INOUT, &id), PTO_OK);
        submit_bytes(b, 4 * BOOK_KIB);
        book_empty(b);
        assert_int_equal(try_empty(b, NULL), PTO_ESCOPE_DEADLOCK);
        assert_int_equal(b->l.region_count, 1);
    }
    close_book(b);
}

/* ---- random programs against a model ---- */

enum { MODEL_TASKS = 600, MODEL_BUFFERS = 3, MODEL_CELLS = 16, SEEN_WAITS = 128 };

struct model_task {
    struct pto_task_id id;
    struct pto_tensor made; /* its output */
    uint32_t ring;
    uint32_t scope; /* index of its scope among all */
    bool is_alloc;
    bool is_done;
    bool is_back; /* taken back */
    bool is_ready;
    uint64_t bytes;
    uint64_t top;    /* top of its ring's heap before it */
    bool is_rebased; /* the heap was empty, and it started at 0 */
    uint32_t entries;
    bool retains[MODEL_TASKS];
    /* The cells of a buffer that it wrote; `to` is 0 after a replacement. */
    uint32_t write_count;
    uint32_t buffer[4], from[4], to[4];
};

struct model {
    struct rng rng;
    struct book *b;
    struct ledger_limits limits;
    uint32_t task_count;
    uint32_t scope_count;
    uint32_t open[PTO_SCOPE_DEPTH_MAX + 1];
    uint32_t depth; /* open scopes */
    bool is_manual[PTO_SCOPE_DEPTH_MAX + 1];
    bool is_ended[4 * MODEL_TASKS];
    uint64_t top[GRAPH_RINGS];
    struct model_task task[MODEL_TASKS];
};

/* One random step, chosen before it is tried. */
struct draft {
    bool is_alloc;
    struct pto_args args;
    struct pto_tensor_info info;
    struct pto_tensor tensor[4];
    struct pto_task_id deps[MODEL_TASKS];
    uint8_t kinds[MODEL_TASKS];
    uint32_t dep_task[MODEL_TASKS];
    uint32_t tensor_owner[4]; /* task + 1 */
    uint32_t buffer[4], from[4], to[4];
    enum pto_tag tag[4];
    uint32_t dep_count, tensor_count;
    uint64_t bytes;
};

static bool model_consumed(const struct model *m, uint32_t i)
{
    const struct model_task *t = &m->task[i];

    if (t->is_back)
        return true;
    if (!t->is_done || !m->is_ended[t->scope])
        return false;
    for (uint32_t k = i + 1; k < m->task_count; k++)
        if (m->task[k].retains[i] && !m->task[k].is_done)
            return false;
    return true;
}

/* Returns the oldest task of the ring that has not been released, or task_count. */
static uint32_t model_head(const struct model *m, uint32_t ring)
{
    uint32_t i = 0;

    while (i < m->task_count && (m->task[i].ring != ring || m->task[i].is_back))
        i++;
    return i;
}

static void model_reclaim(struct model *m, uint32_t ring)
{
    for (;;) {
        uint32_t i = model_head(m, ring);

        if (i == m->task_count || !model_consumed(m, i))
            return;
        m->task[i].is_back = true;
    }
}

/* Returns how far the heap may be filled, up to the oldest bytes in use. */
static bool model_place(const struct model *m, uint32_t ring, uint64_t bytes, uint64_t *top_out,
                        bool *is_rebased_out)
{
    uint64_t size = m->limits.heap[ring], top = m->top[ring], tail = top;
    bool is_empty = true;

    for (uint32_t i = 0; i < m->task_count && is_empty; i++) {
        const struct model_task *t = &m->task[i];

        if (t->ring != ring || t->is_back || t->bytes == 0)
            continue;
        tail = t->is_rebased ? 0 : t->top;
        is_empty = false;
    }
    *is_rebased_out = false;
    *top_out = top + bytes;
    if (bytes == 0)
        return true;
    if (is_empty) {
        if (top + bytes <= size)
            return true;
        *top_out = bytes;
        *is_rebased_out = bytes >= top;
        return bytes <= size;
    }
    if (tail > top)
        return top + bytes < tail;
    if (top + bytes <= size)
        return true;
    *top_out = bytes;
    return bytes < tail;
}

static uint32_t model_live(const struct model *m, uint32_t ring)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < m->task_count; i++)
        count += m->task[i].ring == ring && !m->task[i].is_back;
    return count;
}

/* Fills met[] with the predecessors; 1: the task waits, 2: it retains. */
static uint32_t model_predecessors(const struct model *m, const struct draft *d, bool is_manual,
                                   uint8_t met[MODEL_TASKS])
{
    uint32_t count = 0;

    memset(met, 0, MODEL_TASKS);
    if (d->is_alloc)
        return 0;
    for (uint32_t i = 0; i < d->dep_count; i++)
        met[d->dep_task[i]] |= d->kinds[i];
    for (uint32_t i = 0; i < d->tensor_count && !is_manual; i++) {
        if (d->tensor_owner[i] != 0)
            met[d->tensor_owner[i] - 1] |= PTO_DEP_WAIT | PTO_DEP_RETAIN;
        if (d->tag[i] != PTO_TAG_INPUT && d->tag[i] != PTO_TAG_INOUT)
            continue;
        for (uint32_t k = 0; k < m->task_count && d->tensor_owner[i] == 0; k++)
            for (uint32_t w = 0; w < m->task[k].write_count; w++)
                if (m->task[k].buffer[w] == d->buffer[i] && m->task[k].from[w] < d->to[i] &&
                    d->from[i] < m->task[k].to[w])
                    met[k] |= PTO_DEP_WAIT;
    }
    for (uint32_t i = 0; i < m->task_count; i++) {
        if (met[i] != 0 && model_consumed(m, i))
            met[i] = 0;
        count += met[i] != 0;
    }
    return count;
}

/* Returns the number of regions that stay if the draft replaces those that its INOUTs cover. */
static uint32_t model_regions(struct model *m, const struct draft *d, bool is_manual, bool is_done)
{
    uint32_t count = 0;

    for (uint32_t k = 0; k < m->task_count; k++)
        for (uint32_t w = 0; w < m->task[k].write_count && !m->task[k].is_back; w++) {
            struct model_task *t = &m->task[k];
            bool is_covered = false;

            for (uint32_t i = 0; i < d->tensor_count && !is_manual; i++)
                is_covered |= d->tag[i] == PTO_TAG_INOUT && d->tensor_owner[i] == 0 &&
                              t->buffer[w] == d->buffer[i] && d->from[i] <= t->from[w] &&
                              t->to[w] <= d->to[i] && t->to[w] != 0;
            count += t->to[w] != 0 && !is_covered;
            if (is_covered && is_done)
                t->to[w] = 0;
        }
    return count;
}

static uint32_t draft_registered(const struct draft *d)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < d->tensor_count; i++)
        count += d->tag[i] == PTO_TAG_INOUT || d->tag[i] == PTO_TAG_OUTPUT_EXISTING;
    return count;
}

/* Whether something in the ring can be released while the submitter waits. */
static int model_wait(const struct model *m, uint32_t ring, int status)
{
    uint32_t head = model_head(m, ring);

    if (head == m->task_count || !m->is_ended[m->task[head].scope])
        return status;
    return PTO_EAGAIN;
}

/* Returns the reference's result, and the code after a wait. */
static int model_admit(struct model *m, const struct draft *d, int *code_out)
{
    uint32_t ring = m->depth - 1 < 3 ? m->depth - 1 : 3;
    uint32_t window = m->limits.window[ring], pool = m->limits.dep_pool[ring];
    uint32_t own = 0, used = 0, count, regions, registered = 0;
    bool is_manual = m->is_manual[m->depth - 1], is_rebased;
    uint8_t met[MODEL_TASKS];
    uint64_t top;

    for (uint32_t i = 0; i < m->task_count; i++)
        own += m->task[i].scope == m->open[m->depth - 1];
    model_reclaim(m, ring);
    *code_out = PTO_ESCOPE_DEADLOCK;
    if (window != 0 && own >= window - 1)
        return PTO_ESCOPE_DEADLOCK;
    *code_out = PTO_EWINDOW;
    if (window != 0 && model_live(m, ring) >= window - 1)
        return model_wait(m, ring, PTO_EWINDOW);
    *code_out = PTO_EHEAP;
    if (m->limits.heap[ring] != 0 && !model_place(m, ring, d->bytes, &top, &is_rebased))
        return d->bytes > m->limits.heap[ring] ? PTO_EHEAP : model_wait(m, ring, PTO_EHEAP);
    if (!d->is_alloc && !is_manual && m->b->l.is_reference)
        registered = draft_registered(d);
    regions = model_regions(m, d, is_manual, false);
    for (uint32_t i = 0; i < GRAPH_RINGS && regions + registered > m->b->l.region_max; i++) {
        model_reclaim(m, i);
        regions = model_regions(m, d, is_manual, false);
    }
    count = model_predecessors(m, d, is_manual, met);
    for (uint32_t i = 0; i < m->task_count; i++)
        used += m->task[i].ring == ring && !m->task[i].is_back ? m->task[i].entries : 0;
    *code_out = PTO_EDEP_POOL;
    if (pool != 0 && count > 64 && used + count - 64 > pool)
        return count - 64 > pool ? PTO_EDEP_POOL : model_wait(m, ring, PTO_EDEP_POOL);
    *code_out = PTO_EREGIONS;
    if (registered != 0 && regions + registered > m->b->l.region_max) {
        bool can_wait = false;

        /* rings with a region whose head can be released */
        for (uint32_t i = 0; i < m->task_count; i++)
            for (uint32_t w = 0; w < m->task[i].write_count && !m->task[i].is_back; w++)
                can_wait |=
                    m->task[i].to[w] != 0 && model_wait(m, m->task[i].ring, 0) == PTO_EAGAIN;
        return registered <= m->b->l.region_max && can_wait ? PTO_EAGAIN : PTO_EREGIONS;
    }
    return PTO_OK;
}

static void model_commit(struct model *m, const struct draft *d, const struct pto_outputs *out)
{
    uint32_t ring = m->depth - 1 < 3 ? m->depth - 1 : 3;
    struct model_task *t = &m->task[m->task_count];
    bool is_manual = m->is_manual[m->depth - 1];
    uint8_t met[MODEL_TASKS];
    uint32_t count;

    memset(t, 0, sizeof(*t));
    t->id = out->task;
    if (d->bytes != 0)
        t->made = out->tensor[0];
    t->ring = ring;
    t->scope = m->open[m->depth - 1];
    t->is_alloc = t->is_done = d->is_alloc;
    t->bytes = d->bytes;
    t->top = m->top[ring];
    if (m->limits.heap[ring] != 0) {
        bool is_placed = model_place(m, ring, d->bytes, &m->top[ring], &t->is_rebased);

        assert_true(is_placed);
    }
    count = model_predecessors(m, d, is_manual, met);
    t->entries = count > 64 ? count - 64 : 0;
    for (uint32_t i = 0; i < m->task_count; i++)
        t->retains[i] = (met[i] & PTO_DEP_RETAIN) != 0;
    if (!d->is_alloc && !is_manual) {
        (void)model_regions(m, d, is_manual, true);
        for (uint32_t i = 0; i < d->tensor_count; i++)
            if (d->tag[i] == PTO_TAG_INOUT || d->tag[i] == PTO_TAG_OUTPUT_EXISTING) {
                t->buffer[t->write_count] =
                    d->tensor_owner[i] != 0 ? MODEL_BUFFERS + d->tensor_owner[i] : d->buffer[i];
                t->from[t->write_count] = d->from[i];
                t->to[t->write_count++] = d->to[i];
            }
    }
    m->task_count++;
    assert_int_equal(pto_task_id_ring(t->id), ring);
}

/* Makes a view of some cells of an external buffer, or of a task's output. */
static void draw_tensor(struct model *m, struct draft *d, uint32_t i)
{
    static const enum pto_tag tags[] = { PTO_TAG_INPUT, PTO_TAG_INOUT, PTO_TAG_OUTPUT_EXISTING,
                                         PTO_TAG_NO_DEP };
    uint32_t owner = m->task_count != 0 ? rng_below(&m->rng, m->task_count) : 0;

    d->tag[i] = tags[rng_below(&m->rng, 4)];
    d->tensor_owner[i] = 0;
    if (rng_below(&m->rng, 2) == 0 && m->task_count != 0 && m->task[owner].bytes != 0) {
        d->tensor[i] = m->task[owner].made;
        d->tensor_owner[i] = owner + 1;
        d->tag[i] = rng_below(&m->rng, 2) == 0 ? PTO_TAG_NO_DEP : PTO_TAG_OUTPUT_EXISTING;
        d->buffer[i] = MODEL_BUFFERS + owner + 1;
        d->from[i] = 0;
        d->to[i] = 1;
    } else {
        uint32_t cells = 1 + rng_below(&m->rng, MODEL_CELLS);
        uint32_t from = rng_below(&m->rng, MODEL_CELLS - cells + 1);
        struct pto_tensor whole;

        d->buffer[i] = rng_below(&m->rng, MODEL_BUFFERS);
        whole = book_tensor(d->buffer[i]);
        d->tensor[i] = pto_tensor_view(&whole, &cells, &from);
        d->from[i] = from;
        d->to[i] = from + cells;
    }
    pto_args_add(&d->args, &d->tensor[i], d->tag[i]);
}

static void draw(struct model *m, struct draft *d)
{
    uint32_t back = 0;

    pto_args_init(&d->args);
    d->dep_count = d->tensor_count = 0;
    d->bytes = 0;
    d->is_alloc = rng_below(&m->rng, 6) == 0;
    if (d->is_alloc || rng_below(&m->rng, 2) == 0) {
        d->bytes = BOOK_KIB * (1 + rng_below(&m->rng, 6));
        d->info = bytes_info((uint32_t)d->bytes - rng_below(&m->rng, BOOK_KIB));
        pto_add_output(&d->args, &d->info);
    }
    if (d->is_alloc)
        return;
    d->tensor_count = rng_below(&m->rng, 4);
    for (uint32_t i = 0; i < d->tensor_count; i++)
        draw_tensor(m, d, i);
    d->dep_count = rng_below(&m->rng, 8) == 0 ? rng_below(&m->rng, 90) : rng_below(&m->rng, 4);
    if (m->task_count == 0)
        d->dep_count = 0;
    for (uint32_t i = 0; i < d->dep_count; i++) {
        uint32_t reach = m->task_count < 100 ? m->task_count : 100;

        /* Many accesses are to consecutive cells, so that few are to equal ones. */
        back = d->dep_count > 3 ? back + (rng_below(&m->rng, 10) != 0) : rng_below(&m->rng, reach);
        d->dep_task[i] = m->task_count - 1 - back % reach;
        d->deps[i] = m->task[d->dep_task[i]].id;
        d->kinds[i] = rng_below(&m->rng, 2) == 0 ? PTO_DEP_WAIT : PTO_DEP_WAIT | PTO_DEP_RETAIN;
    }
    if (d->dep_count != 0)
        pto_set_deps(&d->args, d->deps, d->kinds, d->dep_count);
}

/* Completes the oldest tasks that can complete, or a random one. */
static bool run_one(struct model *m)
{
    uint32_t start = m->task_count != 0 ? rng_below(&m->rng, m->task_count) : 0;

    for (uint32_t k = 0; k < m->task_count; k++) {
        struct model_task *t = &m->task[(start + k) % m->task_count];
        struct slot *s;

        if (t->is_done)
            continue;
        s = rig_slot(m->b->rig, t->id);
        if (a32_load_relaxed(&s->pending) != 0 && !t->is_ready)
            continue;
        rig_complete_slot(m->b->rig, s, NULL);
        t->is_done = true;
        return true;
    }
    return false;
}

static void model_begin(struct model *m)
{
    bool is_manual = (m->depth != 0 && m->is_manual[m->depth - 1]) || rng_below(&m->rng, 5) == 0;

    if (m->depth != 0)
        begin_as(m->b, is_manual ? PTO_SCOPE_MANUAL : PTO_SCOPE_AUTO);
    else
        is_manual = false;
    m->is_manual[m->depth] = is_manual;
    m->open[m->depth++] = m->scope_count++;
}

/* Returns whether the program ended with an error code. */
static bool step(struct model *m, struct draft *d, uint32_t seen[])
{
    struct graph *g = &m->b->rig->g;
    struct pto_outputs out;
    struct slot *ready = NULL;
    int expected, status, code;
    uint32_t seq = g->seq;

    draw(m, d);
    for (;;) {
        const struct ledger_refusal *r = &m->b->l.refusal;

        expected = model_admit(m, d, &code);
        status = ledger_admit(&m->b->l, g, &d->args);
        assert_int_equal(status, expected);
        if (status == PTO_OK)
            break;
        assert_int_equal(r->status, code);
        assert_int_equal(r->is_structural, status != PTO_EAGAIN);
        if (status != PTO_EAGAIN) {
            seen[-status]++;
            return true;
        }
        seen[SEEN_WAITS - code]++;
        assert_true(graph_is_alive(g, (struct ref){ r->wait_slot, r->wait_seq }));
        assert_true(run_one(m)); /* every ready task can run, so the program ends */
    }
    if (d->is_alloc) {
        assert_int_equal(graph_alloc(g, &d->args, &out), PTO_OK);
        assert_int_equal(ledger_commit(&m->b->l, g, &d->args, out.task, 0, seq), PTO_OK);
    } else {
        assert_int_equal(graph_submit(g, &rig_aiv, &d->args, NULL, &out, &ready), PTO_OK);
        assert_int_equal(ledger_commit(&m->b->l, g, &d->args, out.task,
                                       rig_slot(m->b->rig, out.task)->number, seq),
                         PTO_OK);
    }
    model_commit(m, d, &out);
    m->task[m->task_count - 1].is_ready = ready != NULL;
    for (uint32_t ring = 0; ring < GRAPH_RINGS; ring++)
        if (m->limits.heap[ring] != 0)
            assert_int_equal(m->b->l.ring[ring].heap_top, m->top[ring]);
    return false;
}

static void random_programs_equal_the_model(void **state)
{
    static struct model m;
    static struct draft d;
    static const int codes[] = { PTO_ESCOPE_DEADLOCK, PTO_EHEAP, PTO_EWINDOW, PTO_EDEP_POOL,
                                 PTO_EREGIONS };
    static uint32_t seen[2 * SEEN_WAITS];
    struct book *b = open_book(sizes(4, 0, 0));

    (void)state;
    for (uint32_t round = 0; round < 1500 / TEST_SHARE; round++) {
        bool is_over = false;
        uint32_t lazy, shape;

        memset(&m, 0, offsetof(struct model, task));
        m.rng.state = round;
        m.b = b;
        /* 0: only the pool of predecessors is limited; 1: everything but the heap */
        shape = rng_below(&m.rng, 3);
        for (uint32_t i = 0; i < GRAPH_RINGS; i++) {
            bool is_set = rng_below(&m.rng, 2) == 0;

            m.limits.window[i] = is_set && shape != 0 ? 4u << rng_below(&m.rng, 7) : 0;
            m.limits.heap[i] = is_set && shape == 2 ? BOOK_KIB * (1 + rng_below(&m.rng, 40)) : 0;
            m.limits.dep_pool[i] = rng_below(&m.rng, 2) == 0 ? 0 : 4 + rng_below(&m.rng, 30);
        }
        m.limits.is_reference = rng_below(&m.rng, 3) == 0;
        start_book(b, &m.limits);
        for (uint32_t i = 0; i < GRAPH_RINGS && m.limits.is_reference; i++) {
            m.limits.window[i] = b->l.ring[i].window;
            m.limits.heap[i] = b->l.ring[i].heap;
            m.limits.dep_pool[i] = b->l.ring[i].dep_pool;
        }
        b->l.region_max = 4 + rng_below(&m.rng, 30);
        lazy = 1 + rng_below(&m.rng, 12);
        model_begin(&m);
        while (!is_over && m.task_count < MODEL_TASKS && m.scope_count < 4 * MODEL_TASKS) {
            uint32_t what = rng_below(&m.rng, 16);

            if (what < 2 && m.depth < 6) {
                model_begin(&m);
            } else if (what < 4 && m.depth > 1) {
                m.is_ended[m.open[--m.depth]] = true;
                end_scope(b);
            } else if (what < 4 + lazy) {
                (void)run_one(&m);
            } else {
                is_over = step(&m, &d, seen);
            }
        }
    }
    /* Every result must have occurred, or the test covers less than intended. */
    for (uint32_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        assert_true(seen[-codes[i]] > 10 / TEST_SHARE);
        assert_true(codes[i] == PTO_ESCOPE_DEADLOCK || /* never waits */
                    seen[SEEN_WAITS - codes[i]] > 100 / TEST_SHARE);
    }
    close_book(b);
}

static const struct CMUnitTest ledger_tests[] = {
    cmocka_unit_test(a_scope_that_fills_its_window_fails_at_once),
    cmocka_unit_test(a_scope_counts_its_own_tasks_only),
    cmocka_unit_test(nested_scopes_fill_the_last_ring),
    cmocka_unit_test(a_full_window_waits_for_its_oldest_task),
    cmocka_unit_test(the_scope_is_looked_at_before_the_window),
    cmocka_unit_test(the_window_is_looked_at_before_the_heap),
    cmocka_unit_test(allocations_take_a_place_and_are_complete),
    cmocka_unit_test(only_rings_with_a_size_are_checked),
    cmocka_unit_test(a_task_is_kept_by_its_scope),
    cmocka_unit_test(explicit_dependencies_retain_unless_they_only_wait),
    cmocka_unit_test(arguments_retain_their_creator_with_any_tag),
    cmocka_unit_test(a_manual_scope_retains_no_creator),
    cmocka_unit_test(writers_that_are_looked_up_are_not_retained),
    cmocka_unit_test(the_wait_is_for_the_retainer_once_the_task_has_completed),
    cmocka_unit_test(a_consumed_task_is_not_retained_again),
    cmocka_unit_test(outputs_are_rounded_and_packed),
    cmocka_unit_test(an_output_that_never_fits_is_refused_at_once),
    cmocka_unit_test(a_heap_held_by_an_open_scope_is_refused_at_once),
    cmocka_unit_test(an_allocation_never_straddles_the_end),
    cmocka_unit_test(what_was_left_at_the_end_is_not_used_before_the_tail_has_passed),
    cmocka_unit_test(an_empty_heap_starts_anew),
    cmocka_unit_test(sixty_four_predecessors_need_no_pool),
    cmocka_unit_test(more_predecessors_than_the_pool_ever_holds),
    cmocka_unit_test(entries_come_back_with_their_consumer),
    cmocka_unit_test(a_predecessor_counts_once_and_not_when_consumed),
    cmocka_unit_test(creators_and_writers_count),
    cmocka_unit_test(what_orders_nothing_does_not_count),
    cmocka_unit_test(the_reference_has_its_defaults),
    cmocka_unit_test(regions_run_out),
    cmocka_unit_test(host_mode_uses_window_and_heap_once),
    cmocka_unit_test(host_mode_allows_so_many_predecessors),
    cmocka_unit_test(host_mode_without_fixed_pools_keeps_no_books),
    cmocka_unit_test(host_mode_queues_so_many_ready_tasks),
    cmocka_unit_test(host_mode_replaces_regions_but_takes_none_back),
    cmocka_unit_test(arguments_that_the_graph_refuses_are_let_through),
    cmocka_unit_test(memory_that_runs_out_is_reported),
    cmocka_unit_test(many_tasks_use_the_same_memory),
    cmocka_unit_test(a_new_run_starts_with_empty_books),
    cmocka_unit_test(random_programs_equal_the_model),
};

TEST_MAIN(ledger_tests)
