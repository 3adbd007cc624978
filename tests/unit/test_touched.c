/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accesses of a kernel, compared with the arguments of its task: random views of every size, with
 * strides that nest and that overlap, and random accesses through the hooks that a compiler would
 * call. A model that knows every byte decides which accesses are allowed, why not, and which
 * argument is concerned. Each access is made twice from the same place in the code, because the
 * hooks remember allowed accesses. Repeats until there were enough accesses of each kind. The
 * recorded elements must be those that were used.
 */
#define PTO_ACCESS_HOOKS
#include "pto/access_hooks.h"

#include "graph/guards.h"
#include "pto/orch.h"
#include "sim/touched.h"
#include "tests/fixture/fixture.h"
#include "tests/fixture/random_test.h"

enum { ARENA = 8192, ARGUMENTS = 4, ACCESSES = 60, MEMORY_END = 6144 };
enum { KINDS = TOUCHED_UNWRITTEN + 1, OF_EACH_KIND = 10000 };

static _Alignas(1024) unsigned char arena[ARENA];
static uint64_t bits[ARENA / 8];

/* ---- a random task ---- */

static struct {
    struct pto_tensor tensor[ARGUMENTS];
    uint32_t count;
    bool overlaps; /* its arguments share bytes */
    bool is_alone;
    bool has[ARGUMENTS][ARENA]; /* bytes of elements */
    bool is_written[ARGUMENTS][ARENA];
    bool is_used[2][ARGUMENTS][ARENA]; /* by reads, and by writes; whole elements */
    uint64_t end[ARGUMENTS];           /* behind the last element, in the arena */
} task;

static struct {
    uint32_t count;
    struct touched_finding last;
} found;

static void note_found(void *context, const struct touched_finding *finding)
{
    (void)context;
    found.count++;
    found.last = *finding;
}

/* The device's memory is the arena except for its last part, which belongs to the kernel. */
static bool is_device(void *context, uint64_t addr)
{
    (void)context;
    return addr - (uint64_t)(uintptr_t)arena < MEMORY_END;
}

static uint64_t reach_of(const struct pto_tensor *x)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < x->ndims; i++)
        last += (uint64_t)(x->shapes[i] - 1) * x->strides[i];
    return last + 1;
}

static void make_shape(struct pto_tensor *x)
{
    uint64_t stride = 1 + random_below(2) * random_below(3);

    x->ndims = 1 + random_below(3);
    for (uint32_t i = x->ndims; i-- != 0;) {
        x->shapes[i] = 1 + random_below(6);
        x->strides[i] = (uint32_t)stride;
        if (random_below(8) == 0)
            stride += 1; /* elements may share their storage */
        else
            stride = stride * x->shapes[i] + random_below(4);
    }
    x->extent = reach_of(x);
    x->is_contiguous = true;
    stride = 1;
    for (uint32_t i = x->ndims; i-- != 0; stride *= x->shapes[i])
        x->is_contiguous = x->is_contiguous && x->strides[i] == stride;
}

/* A random address between `from` and `to` in the arena. */
static bool make_argument(uint32_t index, uint64_t from, uint64_t to)
{
    static const uint8_t dtypes[] = { PTO_FLOAT32, PTO_FLOAT16, PTO_INT8, PTO_INT64 };
    struct pto_tensor *x = &task.tensor[index];
    uint64_t size, room;

    *x = (struct pto_tensor){ .owner = pto_task_id_invalid(),
                              .dtype = dtypes[random_below(4)],
                              .tag = (uint8_t)random_below(PTO_TAG_COUNT) };
    make_shape(x);
    size = pto_dtype_size(x->dtype);
    from = (from + size - 1) / size * size;
    if (from + x->extent * size > to)
        return false;
    room = (to - from) / size - x->extent;
    x->addr = (uint64_t)(uintptr_t)arena;
    x->start = from / size + random_below((uint32_t)room + 1);
    task.end[index] = (x->start + x->extent) * size;
    return true;
}

static void note_bytes(uint32_t index)
{
    const struct pto_tensor *x = &task.tensor[index];
    uint64_t size = pto_dtype_size(x->dtype);
    uint32_t at[PTO_MAX_DIMS] = { 0 };

    for (uint64_t n = 0; n < pto_tensor_numel(x); n++) {
        uint64_t element = x->start, left = n;

        for (uint32_t i = x->ndims; i-- != 0; left /= x->shapes[i])
            at[i] = (uint32_t)(left % x->shapes[i]);
        for (uint32_t i = 0; i < x->ndims; i++)
            element += (uint64_t)at[i] * x->strides[i];
        memset(&task.has[index][element * size], true, size);
    }
}

static void make_task(void)
{
    uint32_t count = 1 + random_below(ARGUMENTS);

    memset(&task, 0, sizeof(task));
    task.is_alone = random_below(4) != 0;
    task.overlaps = random_below(3) == 0;
    while (task.count < count) {
        uint64_t part = MEMORY_END / count, from = task.overlaps ? 0 : task.count * part;

        if (!make_argument(task.count, from, from + (task.overlaps ? 1024 : part)))
            continue;
        if (task.overlaps) /* otherwise the result would depend on the order of the accesses */
            task.tensor[task.count].tag = random_below(2)   ? PTO_TAG_INPUT
                                          : random_below(2) ? PTO_TAG_INOUT
                                                            : PTO_TAG_NO_DEP;
        note_bytes(task.count++);
    }
}

/* ---- the model ---- */

static bool is_allowed(uint32_t index, uint64_t byte, bool is_write)
{
    uint32_t use = pto_tag_use(task.tensor[index].tag);

    if (!task.has[index][byte])
        return false;
    if (is_write)
        return use == 0 || (use & PTO_WRITES) != 0;
    return use == 0 || (use & PTO_READS) != 0 || !task.is_alone || task.is_written[index][byte];
}

/* Returns the reason for the first byte that no argument allows; false: all are allowed. */
static bool model_refuses(uint64_t at, uint64_t bytes, bool is_write, uint64_t *byte_out,
                          enum touched_kind *kind_out)
{
    for (uint64_t byte = at; byte < at + bytes; byte++) {
        bool is_ok = false, is_in = false, is_between = false;

        for (uint32_t i = 0; i < task.count && !is_ok; i++) {
            uint64_t size = pto_dtype_size(task.tensor[i].dtype);

            is_ok = is_allowed(i, byte, is_write);
            is_in = is_in || task.has[i][byte];
            is_between = is_between || (byte >= task.tensor[i].start * size && byte < task.end[i]);
        }
        if (is_ok || (!is_in && !is_between && byte >= MEMORY_END))
            continue;
        *byte_out = byte;
        *kind_out = is_in && is_write ? TOUCHED_INPUT
                    : is_in           ? TOUCHED_UNWRITTEN
                    : is_between      ? TOUCHED_BETWEEN
                                      : TOUCHED_OUTSIDE;
        return true;
    }
    return false;
}

static void model_use(uint64_t at, uint64_t bytes, bool is_write)
{
    for (uint32_t i = 0; i < task.count; i++) {
        uint64_t size = pto_dtype_size(task.tensor[i].dtype);

        for (uint64_t byte = at; byte < at + bytes; byte++)
            if (task.has[i][byte])
                memset(&task.is_used[is_write][i][byte / size * size], true, size);
    }
}

static void model_write(uint64_t at, uint64_t bytes)
{
    for (uint32_t i = 0; i < task.count; i++) {
        uint64_t size = pto_dtype_size(task.tensor[i].dtype);

        for (uint64_t byte = at; byte < at + bytes; byte++)
            if (task.has[i][byte]) /* an element of which a part was written counts as a whole */
                memset(&task.is_written[i][byte / size * size], true, size);
    }
}

/* ---- accesses ---- */

static void touch(uint64_t at, uint64_t bytes, bool is_write)
{
    static _Thread_local char own[64];
    void *to = arena + at;

    switch (is_write ? 100 + bytes : bytes) {
    case 1:
        pto_access_read1(to);
        break;
    case 4:
        pto_access_read4(to);
        break;
    case 8:
        pto_access_unaligned_read8(to);
        break;
    case 101:
        pto_access_write1(to);
        break;
    case 104:
        pto_access_write4(to);
        break;
    case 108:
        pto_access_unaligned_write8(to);
        break;
    default:
        if (is_write)
            at % 2 == 0 ? pto_access_memset(to, 0, bytes) : pto_access_memmove(to, own, bytes);
        else if (at % 3 == 0)
            pto_access_read_range(to, bytes);
        else
            at % 3 == 1 ? pto_access_memcpy(own, to, bytes) : pto_access_memmove(own, to, bytes);
        break;
    }
}

static uint64_t pick_place(uint64_t *bytes)
{
    static const uint8_t widths[] = { 1, 4, 8, 0 };
    const struct pto_tensor *x = &task.tensor[random_below(task.count)];
    uint64_t size = pto_dtype_size(x->dtype), at = x->start * size;

    *bytes = widths[random_below(4)];
    if (*bytes == 0)
        *bytes = 1 + random_below(40);
    if (random_below(3) == 0)
        *bytes = size;
    if (random_below(20) == 0)
        return random_below(ARENA - 64);
    at += (uint64_t)random_below((uint32_t)x->extent) * size;
    return random_below(6) == 0 ? at + random_below(9) : at;
}

static uint64_t begin_of(uint32_t index)
{
    return task.tensor[index].start * pto_dtype_size(task.tensor[index].dtype);
}

/*
 * Returns the argument that a refused byte concerns; -1: several are possible. Outside of all
 * arguments it is the nearest one.
 */
static int32_t model_concerns(uint64_t byte, enum touched_kind kind)
{
    uint64_t best = UINT64_MAX;
    int32_t found = -1;

    if (task.overlaps)
        return -1;
    for (uint32_t i = 0; i < task.count; i++) {
        uint64_t begin = begin_of(i);
        uint64_t away = byte < begin         ? begin - byte
                        : byte < task.end[i] ? 0
                                             : byte - task.end[i] + 1;

        if (kind == TOUCHED_OUTSIDE ? away < best : away == 0) {
            best = away;
            found = (int32_t)i;
        }
    }
    return found;
}

/* Makes accesses until one is refused. Returns its kind; KINDS: none was. */
static uint32_t run_accesses(struct touched *t, bool only_allowed)
{
    for (uint32_t i = 0; i < ACCESSES; i++) {
        enum touched_kind kind = TOUCHED_OUTSIDE;
        bool is_write = random_below(2) != 0;
        uint64_t bytes, byte = 0, at = pick_place(&bytes);
        bool is_refused = model_refuses(at, bytes, is_write, &byte, &kind);

        if (is_refused && only_allowed)
            continue;
        for (uint32_t pass = 0; pass < 2; pass++)
            touch(at, bytes, is_write);
        if (!is_refused) {
            assert_int_equal(found.count, 0);
            model_use(at, bytes, is_write);
            if (is_write)
                model_write(at, bytes);
            continue;
        }
        assert_int_equal(found.count, 1);
        assert_true(t->has_refused);
        assert_int_equal(found.last.addr, (uint64_t)(uintptr_t)arena + byte);
        assert_int_equal(found.last.kind, kind);
        assert_int_equal(found.last.is_write, is_write);
        if (kind == TOUCHED_INPUT || kind == TOUCHED_UNWRITTEN)
            assert_true(task.has[found.last.argument][byte]);
        if (!task.overlaps)
            assert_int_equal(found.last.argument, model_concerns(byte, kind));
        assert_int_equal(found.last.offset,
                         (int64_t)byte - (int64_t)begin_of((uint32_t)found.last.argument));
        return kind;
    }
    return KINDS;
}

/* Marks the elements that the part describes, from its dimension `d` on. */
static void set_part(bool *is_set, const struct touched_part *part, uint32_t d, uint64_t at)
{
    if (d == part->ndims) {
        assert_false(is_set[at]);
        is_set[at] = true;
        return;
    }
    for (uint32_t i = 0; i < part->count[d]; i++)
        set_part(is_set, part, d + 1, at + (uint64_t)i * part->stride[d]);
}

static void expect_kept(const struct touched *t)
{
    static struct touched_part part[ARENA];
    static bool is_set[ARENA];

    assert_true(t->keeps);
    for (uint32_t i = 0; i < 2 * task.count; i++) {
        const struct touched_argument *a = &t->argument[i / 2];
        const uint64_t *kept = i % 2 != 0 ? a->written : a->read;
        uint64_t size = pto_dtype_size(a->tensor->dtype);
        uint32_t count;

        /* reads of a tracked argument must follow its writes; inputs have no writes */
        if (kept == NULL) {
            assert_true(i % 2 == 0 ? a->is_tracked : a->use == PTO_READS);
            continue;
        }
        count = touched_parts(kept, a->tensor->extent, part, ARENA);
        memset(is_set, false, sizeof(is_set));
        for (uint32_t k = 0; k < count; k++)
            set_part(is_set, &part[k], 0, part[k].start);
        for (uint64_t k = 0; k < a->tensor->extent; k++)
            assert_int_equal(is_set[k], task.is_used[i % 2][i / 2][(a->tensor->start + k) * size]);
        if (count > 1)
            assert_true(touched_parts(kept, a->tensor->extent, part, count - 1) >= count);
    }
}

/*
 * Runs tasks until `count` accesses were refused for each reason or, if only allowed accesses are
 * tried, that many tasks.
 */
static void run_tasks(uint32_t count, bool only_allowed)
{
    static struct touched t;
    struct slot s = { 0 };
    uint32_t refused[KINDS + 1] = { 0 }, left = only_allowed ? 1 : KINDS, kind;

    while (left != 0) {
        struct touched_mode mode;

        make_task();
        mode = (struct touched_mode){ .is_alone = task.is_alone, .keeps = random_below(2) != 0 };
        memset(&found, 0, sizeof(found));
        s.tensor_count = (uint8_t)task.count;
        t.bits = bits;
        t.bits_bytes = sizeof(bits);
        t.is_memory = is_device;
        t.found = note_found;
        assert_true(touched_bits_bytes(&s, task.tensor, mode) <= sizeof(bits));
        touched_begin(&t, &s, task.tensor, mode);
        pto_access_set(&t.access);
        kind = run_accesses(&t, only_allowed);
        if (kind == KINDS && mode.keeps &&
            random_below(2) == 0) { /* what was written stays readable */
            touched_next_segment(&t);
            memset(task.is_used, 0, sizeof(task.is_used));
            kind = run_accesses(&t, only_allowed);
        }
        assert_true(!only_allowed || kind == KINDS);
        if (only_allowed && !task.overlaps && mode.keeps)
            expect_kept(&t);
        left -= ++refused[kind] == count && (only_allowed || kind != KINDS);
        pto_access_set(NULL);
    }
}

static void parts_are_few(void **state)
{
    struct touched_part part[2];
    uint64_t word[8] = { 0 };

    (void)state;
    for (uint64_t i = 0; i < 24; i++) /* 3 times 2 times 4 elements */
        word[(i / 8 * 100 + i / 4 % 2 * 10 + i % 4) / 64] |=
            1ull << (i / 8 * 100 + i / 4 % 2 * 10 + i % 4) % 64;
    assert_int_equal(touched_parts(word, 512, part, 2), 1);
    assert_int_equal(part[0].ndims, 3);
    assert_int_equal(part[0].count[0], 4);
    assert_int_equal(part[0].count[1], 2);
    assert_int_equal(part[0].count[2], 3);
    assert_int_equal(part[0].stride[2], 100);
    memset(word, 0xff, sizeof(word));
    assert_int_equal(touched_parts(word, 512, part, 2), 1);
    assert_int_equal(part[0].count[0], 512);
}

static void what_is_not_allowed_is_found(void **state)
{
    (void)state;
    run_tasks(often(OF_EACH_KIND, 1000), false);
}

static void what_is_allowed_is_not(void **state)
{
    (void)state;
    run_tasks(often(OF_EACH_KIND, 1000), true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_allowed_is_found),
        cmocka_unit_test(what_is_allowed_is_not),
        cmocka_unit_test(parts_are_few),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
