/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks inputs of tasks in runs with guards: a kernel that writes to an argument that is PTO_IN
 * fails the run. Another kernel that runs at the same time could have written there as well, so
 * inputs are compared only if no other kernel ran between the start and the return. With simpler's
 * rules inputs are not compared, because generated code declares some arguments as inputs although
 * it writes them.
 *
 * Ordering. A kernel is counted before it writes anything. The inputs are compared before
 * `kernels_started` is loaded. There is a full fence between the two accesses on both sides. So a
 * thread that sees the writes of another kernel also sees that this kernel has started.
 */
#include <stdlib.h>

#include "overlap/geom.h"
#include "sim/sim.h"
#include "wire/view_element.h"

/* maximum bytes of a task's inputs that are compared; inputs beyond that are not checked */
enum { INPUTS_BYTES_MAX = 1 << 20 };

struct sim_inputs {
    uint32_t started; /* value of kernels_started after this kernel was counted */
    /*
     * bit k: argument k is to be compared; the copies follow each other in `copy`, in order of
     * arguments
     */
    uint32_t compared;
    uint64_t max;
    unsigned char *copy;
};

static uint64_t inputs_begin(const struct pto_tensor *x)
{
    return x->addr + x->start * pto_dtype_size(x->dtype);
}

static uint64_t inputs_bytes(const struct pto_tensor *x)
{
    return x->extent * pto_dtype_size(x->dtype);
}

/* Whether another argument, which the task may write, overlaps this one. */
static bool may_be_written(const struct slot *s, const struct pto_tensor *tensor, uint32_t index)
{
    struct geom input, other;

    geom_init_safe(&input, &tensor[index]);
    for (uint32_t i = 0; i < s->tensor_count; i++) {
        if (pto_tag_use(tensor[i].tag) == PTO_READS || tensor[i].extent == 0)
            continue;
        geom_init_safe(&other, &tensor[i]);
        if (overlap_safe(&other, &input) != OVERLAP_NONE)
            return true;
    }
    return false;
}

/*
 * Whether nothing may change the argument while the kernel runs alone: the task does not declare a
 * write, and the memory is the device's. Other memory may be written by the program or by other
 * ranks.
 */
static bool is_constant(struct sim *m, const struct slot *s, const struct pto_tensor *tensor,
                        uint32_t index)
{
    const struct pto_tensor *x = &tensor[index];

    return pto_tag_use(x->tag) == PTO_READS && !x->manual_dep && x->extent != 0 &&
           sim_is_memory(m, inputs_begin(x)) &&
           sim_is_memory(m, inputs_begin(x) + inputs_bytes(x) - 1) &&
           !may_be_written(s, tensor, index);
}

/*
 * Returns the thread's state for this check, with room for copies of so many bytes. NULL: out of
 * memory.
 */
static struct sim_inputs *inputs_of(struct thread *th, uint64_t bytes)
{
    struct sim_inputs *inputs = th->inputs;
    unsigned char *copy;

    if (inputs == NULL && (inputs = th->inputs = calloc(1, sizeof(*inputs))) == NULL)
        return NULL;
    if (bytes > inputs->max) {
        copy = realloc(inputs->copy, bytes);
        if (copy == NULL)
            return NULL;
        inputs->copy = copy;
        inputs->max = bytes;
    }
    return inputs;
}

/*
 * Marks functions that read memory which another kernel may be writing at the same time. In that
 * case kernels_started shows that the other kernel has started, and the result of the read is
 * discarded. The reads are volatile, because a compiler could replace a loop by a call of memcpy,
 * whose reads ThreadSanitizer checks.
 */
#define INPUTS_PLAIN __attribute__((no_sanitize("thread")))

typedef uint64_t __attribute__((aligned(1), may_alias)) inputs_word;

INPUTS_PLAIN static void copy_input(unsigned char *to, const volatile unsigned char *from,
                                    uint64_t bytes)
{
    uint64_t at = 0;

    for (; at + sizeof(inputs_word) <= bytes; at += sizeof(inputs_word))
        *(inputs_word *)(to + at) = *(const volatile inputs_word *)(from + at);
    for (; at < bytes; at++)
        to[at] = from[at];
}

/* Returns the offset of the first byte from `at` on that differs; `bytes`: there is none. */
INPUTS_PLAIN static uint64_t find_difference(const volatile unsigned char *data,
                                             const unsigned char *copy, uint64_t at, uint64_t bytes)
{
    while (at + sizeof(inputs_word) <= bytes &&
           *(const volatile inputs_word *)(data + at) == *(const inputs_word *)(copy + at))
        at += sizeof(inputs_word);
    while (at < bytes && data[at] == copy[at])
        at++;
    return at;
}

bool sim_enter_inputs(struct thread *th, const struct pto_tensor *tensor)
{
    struct sim *m = th->sim;
    const struct slot *s = th->core.slot;
    bool is_alone = a32_add_acq_rel(&m->kernels_running, 1) == 0 && m->graph.deps == PTO_DEPS_SAFE;
    uint32_t started = a32_add_acq_rel(&m->kernels_started, 1) + 1, compared = 0;
    uint64_t bytes = 0;
    struct sim_inputs *inputs;

    fence_full(); /* full fence: this kernel is counted before it writes anything */
    for (uint32_t i = 0; i < s->tensor_count && is_alone; i++)
        if (bytes + inputs_bytes(&tensor[i]) <= INPUTS_BYTES_MAX && is_constant(m, s, tensor, i)) {
            compared |= 1u << i;
            bytes += inputs_bytes(&tensor[i]);
        }
    if (compared == 0 || (inputs = inputs_of(th, bytes)) == NULL)
        return false;
    inputs->started = started;
    inputs->compared = compared;
    bytes = 0;
    for (uint32_t i = 0; i < s->tensor_count; i++)
        if ((compared >> i & 1) != 0) {
            copy_input(inputs->copy + bytes,
                       (const unsigned char *)(uintptr_t)inputs_begin(&tensor[i]),
                       inputs_bytes(&tensor[i]));
            bytes += inputs_bytes(&tensor[i]);
        }
    return true;
}

/* Finds the first element of the argument that differs from the copy. */
static bool find_change(const struct pto_tensor *x, const unsigned char *copy, uint64_t *place_out)
{
    const unsigned char *data = (const unsigned char *)(uintptr_t)inputs_begin(x);
    uint64_t size = pto_dtype_size(x->dtype), bytes = inputs_bytes(x), place;
    uint32_t index[PTO_MAX_DIMS];

    for (uint64_t at = 0; (at = find_difference(data, copy, at, bytes)) < bytes;
         at = (place + 1) * size) {
        place = at / size;
        if (x->is_contiguous || view_find_element(x, place, index)) {
            *place_out = place;
            return true;
        }
    }
    return false;
}

void sim_leave_inputs(struct thread *th, const struct pto_tensor *tensor, bool is_compared)
{
    struct sim *m = th->sim;
    struct slot *s = th->core.slot;
    const struct sim_inputs *inputs = th->inputs;
    struct failure why = { .status = PTO_EACCESS,
                           .kind = FAILURE_INPUT,
                           .argument = -1,
                           .kernel = (int32_t)sim_kernel_of(th) };
    uint64_t at = 0;
    uint32_t none = 0;

    for (uint32_t i = 0; is_compared && why.argument < 0 && i < s->tensor_count; i++)
        if ((inputs->compared >> i & 1) != 0) {
            if (find_change(&tensor[i], inputs->copy + at, &why.value[0]))
                why.argument = (int32_t)i;
            at += inputs_bytes(&tensor[i]);
        }
    fence_full(); /* full fence: the inputs are compared before kernels_started is loaded */
    /* mutation: not-alone */
    if (why.argument >= 0 && a32_load_relaxed(&m->kernels_started) == inputs->started &&
        a32_cas_relaxed(&m->finding, &none, FINDING_REPORTED)) {
        sim_keep_arguments(m, s);
        sched_fail_argument(&m->sched, s, &why);
    }
    (void)a32_add_acq_rel(&m->kernels_running, UINT32_MAX);
}

void sim_free_inputs(struct thread *th)
{
    if (th->inputs != NULL)
        free(th->inputs->copy);
    free(th->inputs);
}
