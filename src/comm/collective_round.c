/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds, and the check that all ranks make the same call. src/comm/collective.h describes the
 * protocol.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/sized.h"
#include "comm/collective.h"
#include "comm/reduce.h"

static int check_how(struct collective *c);
static int compare_notes(struct collective *c);

static const char *const kind_names[] = {
    [COLLECTIVE_ALL_REDUCE] = "all-reduce", [COLLECTIVE_REDUCE_SCATTER] = "reduce-scatter",
    [COLLECTIVE_ALL_GATHER] = "all-gather", [COLLECTIVE_BROADCAST] = "broadcast",
    [COLLECTIVE_ALL_TO_ALL] = "all-to-all", [COLLECTIVE_DISPATCH] = "dispatch",
    [COLLECTIVE_COMBINE] = "combine",
};

static const char *const reduce_names[] = { "sum", "max", "min" };
static const char *const algorithm_names[] = { "auto", "one-shot", "two-phase", "ring" };

static_assert(sizeof(struct shared_note) == SHARED_LINE, "a note must take one cache line");
static_assert(offsetof(struct shared_note, word) == 4,
              "number and word must be written by one store");
static_assert(sizeof(kind_names) / sizeof(kind_names[0]) == COLLECTIVE_COMBINE + 1,
              "each kind of collective needs a name");

static bool has_reduction(enum collective_kind kind)
{
    return kind == COLLECTIVE_ALL_REDUCE || kind == COLLECTIVE_REDUCE_SCATTER;
}

int collective_open(struct collective *c, struct pto_domain *handle, enum collective_kind kind,
                    uint64_t count, const struct pto_collective *given)
{
    int status, read = PTO_OK;

    /*
     * Fields are assigned one by one, because clearing the whole struct would take longer than a
     * small call.
     */
    c->kind = kind;
    c->count = count;
    c->element_bytes = c->extra = 0;
    c->status = PTO_OK;
    c->is_begun = c->is_inline = c->is_word = false;
    c->deadline_ns = 0;
    c->sends = (struct shared_sends){ .only = UINT32_MAX };
    memset(&c->own, 0, sizeof(c->own));
    pto_collective_init(&c->how);
    if (given != NULL)
        read = sized_read(&c->how, sizeof(c->how), given);
    c->domain = comm_domain_of(handle, &status);
    if (c->domain == NULL)
        return error_setf(c->how.error, status, "there is no such domain in this process");
    c->rank = c->domain->rank;
    c->rank_count = c->domain->rank_count;
    if (c->how.timeout_ns == 0)
        c->how.timeout_ns = c->domain->comm->timeout_ns;
    if (c->rank_count > 1 && c->domain->rounds == NULL)
        return comm_error_set(c->how.error, PTO_ENOSUP, UINT32_MAX,
                              "the backend %s has no collectives: its ranks share no memory",
                              c->domain->comm->ops->name);
    if (c->rank_count > 1)
        c->domain = c->domain->rounds;
    if (c->rank_count > 1 && a32_load_relaxed(&collective_control(c, c->rank)->torn) != 0)
        return comm_error_set(c->how.error, PTO_EPEER, UINT32_MAX,
                              "an earlier collective of domain %llu failed half-way, so %s is not "
                              "possible; close the domain and open another one",
                              (unsigned long long)c->domain->id, kind_names[kind]);
    if (read < 0)
        (void)collective_refuse(c, read,
                                "the options are not initialised: call pto_collective_init");
    else
        (void)check_how(c);
    return PTO_OK;
}

int collective_refuse(struct collective *c, int status, const char *format, ...)
{
    char text[PTO_ERROR_TEXT_MAX];
    va_list args;

    if (c->status < 0)
        return c->status;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    c->status = status;
    return comm_error_set(c->how.error, status, c->domain->comm->rank, "%s: %s",
                          kind_names[c->kind], text);
}

void collective_check(struct collective *c, const void *at, uint64_t bytes, const char *name)
{
    if (c->status < 0 || bytes == 0)
        return;
    if (at == NULL)
        (void)collective_refuse(c, PTO_EINVAL, "'%s' is NULL", name);
    else if ((uintptr_t)at % c->element_bytes != 0)
        (void)collective_refuse(c, PTO_EINVAL, "'%s' is not aligned to elements of %u bytes", name,
                                c->element_bytes);
}

/* Checks the parameters of the call. Those that do not affect this kind of call are ignored. */
static int check_how(struct collective *c)
{
    c->element_bytes = pto_dtype_size((uint32_t)c->how.dtype);
    if (c->kind != COLLECTIVE_BROADCAST && c->kind < COLLECTIVE_DISPATCH)
        c->how.root = 0;
    if (!has_reduction(c->kind)) {
        c->how.reduce = PTO_REDUCE_SUM;
        c->how.algorithm = PTO_ALGORITHM_AUTO;
    }
    if (c->element_bytes == 0)
        return collective_refuse(c, PTO_EINVAL, "there is no data type %d", (int)c->how.dtype);
    if (c->kind == COLLECTIVE_BROADCAST && c->how.root >= c->rank_count)
        return collective_refuse(c, PTO_EINVAL, "the root is %u, but there are only %u ranks",
                                 c->how.root, c->rank_count);
    if ((uint32_t)c->how.algorithm > PTO_ALGORITHM_RING)
        return collective_refuse(c, PTO_EINVAL, "there is no algorithm %d", (int)c->how.algorithm);
    if ((uint32_t)c->how.reduce > PTO_REDUCE_MIN)
        return collective_refuse(c, PTO_EINVAL, "there is no reduction %d", (int)c->how.reduce);
    if (has_reduction(c->kind) && !reduce_has(c->how.dtype, c->how.reduce))
        return collective_refuse(c, PTO_EINVAL,
                                 "elements of %s cannot be reduced: it is for float32, float16, "
                                 "bfloat16 and int32",
                                 pto_dtype_text((uint32_t)c->how.dtype));
    if (c->kind < COLLECTIVE_DISPATCH &&
        c->count > COMM_WINDOW_MAX / c->element_bytes / c->rank_count)
        return collective_refuse(c, PTO_EINVAL, "%llu elements are too many",
                                 (unsigned long long)c->count);
    return PTO_OK;
}

/* ---- rounds ---- */

/*
 * Returns the time until the call's deadline. A call whose data fits a note has only one round, and
 * reads the clock only if that round waits.
 */
static uint64_t time_left(struct collective *c)
{
    if (c->deadline_ns == 0 && !c->is_inline)
        c->deadline_ns = comm_deadline(c->how.timeout_ns, 0);
    return c->is_begun ? comm_time_left(c->deadline_ns) : c->how.timeout_ns;
}

/* Marks this rank as taking part in no more rounds, and wakes the ranks that wait for it. */
static int tear(const struct collective *c, int status)
{
    struct shared *s = shared_of(c->domain->comm);

    a32_store_release(&collective_control(c, c->rank)->torn,
                      status == PTO_EINVAL ? TORN_DIFFERS : TORN_FAILED); /* R32 */
    if (s->remote != NULL)
        s->remote->send_control(s, shared_domain_of(c->domain));
    shared_alarm(s, c->domain);
    return status;
}

int collective_give_up(struct collective *c, int status, const char *why)
{
    (void)comm_error_set(c->how.error, status, c->domain->comm->rank, "%s: %s", kind_names[c->kind],
                         why);
    return c->rank_count > 1 ? tear(c, status) : status;
}

/*
 * Describes the call in shared memory, unless the description for rounds of this parity is equal.
 */
static void put_call(const struct collective *c, struct shared_call *call)
{
    uint64_t args[2] = { c->count,
                         (uint64_t)c->kind | (uint64_t)c->how.dtype << 4 |
                             (uint64_t)c->how.reduce << 12 | (uint64_t)c->how.algorithm << 14 |
                             (uint64_t)(c->how.root & 0xffffff) << 16 | (uint64_t)c->extra << 40 };

    if (call->status == c->status && call->args[0] == args[0] && call->args[1] == args[1])
        return;
    call->status = c->status;
    memcpy(call->args, args, sizeof(args));
}

/* Publishes the note: stores the round's number, and the data that belongs to it. */
static void collective_publish(const struct collective *c, struct shared_note *note,
                               uint32_t number)
{
    if (c->is_inline && c->is_word) {
        a64_store_release((struct a64 *)(void *)note,
                          (uint64_t)c->own.word << 32 | number); /* R35 */
        return;
    }
    if (c->is_inline)
        memcpy(note->bytes, c->own.bytes, sizeof(note->bytes));
    a32_store_release(&note->number, number); /* R35 */
}

/* Sends the round to ranks on other hosts, after it was published. */
static void send_round(struct collective *c)
{
    struct shared *s = shared_of(c->domain->comm);

    if (c->is_inline)
        /* sends no scratch: the note has all of the data */
        c->sends.all_bytes = c->sends.each_bytes = 0;
    s->remote->send_round(s, shared_domain_of(c->domain), &c->sends, !c->is_begun);
    c->sends = (struct shared_sends){ .only = UINT32_MAX };
}

int collective_round(struct collective *c)
{
    struct shared_domain *sd = shared_domain_of(c->domain);
    struct shared_control *own = sd->peer[c->rank].control;
    uint32_t number = ++sd->number;
    int status;

    assert(c->rank_count > 1);
    /* if this rank does not get its turn in virtual time, the wait below fails as well */
    (void)shared_turn(shared_of(c->domain->comm));
    if (!c->is_begun)
        put_call(c, &own->call[number % 2]);
    collective_publish(c, &own->note[number % 2], number);
    if (shared_of(c->domain->comm)->remote != NULL)
        send_round(c);
    status =
        shared_arrive(sd, &(struct shared_arrival){ .word = offsetof(struct shared_control, note) +
                                                            number % 2 * sizeof(struct shared_note),
                                                    .number = number,
                                                    .is_round = true,
                                                    .what = kind_names[c->kind],
                                                    .timeout_ns = time_left(c),
                                                    .error = c->how.error });
    if (status < 0)
        return tear(c, status);
    if (c->is_begun)
        return PTO_OK;
    c->is_begun = true;
    return compare_notes(c);
}

int collective_agree(struct collective *c)
{
    c->is_inline = c->is_word = true;
    return collective_round(c);
}

/* Formats a call. The call is in a peer's memory, so it may contain any bytes. */
void collective_describe(const struct shared_call *call, char *text, size_t size)
{
    enum collective_kind kind = call->args[1] & 0xf;
    uint32_t reduce = (uint32_t)(call->args[1] >> 12 & 3);
    const char *dtype = pto_dtype_text((uint32_t)(call->args[1] >> 4 & 0xff));
    unsigned root = (unsigned)(call->args[1] >> 16 & 0xffffff);
    unsigned long long count = (unsigned long long)call->args[0];
    int used;

    if (kind > COLLECTIVE_COMBINE || reduce > PTO_REDUCE_MIN) {
        snprintf(text, size, "an unknown collective");
        return;
    }
    if (kind >= COLLECTIVE_DISPATCH) {
        snprintf(text, size, "%s of rows of %llu %s elements to %u of %u experts", kind_names[kind],
                 count, dtype, (unsigned)(call->args[1] >> 40), root);
        return;
    }
    used = snprintf(text, size, "%s of %llu %s elements", kind_names[kind], count, dtype);
    if (has_reduction(kind))
        snprintf(text + used, size - (size_t)used, " (%s, %s)", reduce_names[reduce],
                 algorithm_names[call->args[1] >> 14 & 3]);
    if (kind == COLLECTIVE_BROADCAST)
        snprintf(text + used, size - (size_t)used, " from rank %u", root);
}

static int report_refused(struct collective *c, uint32_t rank, int status)
{
    return comm_error_set(c->how.error, status, c->domain->ranks[rank],
                          "%s: rank %u cannot take part: %s; see its own error",
                          kind_names[c->kind], c->domain->ranks[rank], pto_strerror(status));
}

static int collective_report_difference(struct collective *c, uint32_t rank)
{
    uint32_t slot = shared_domain_of(c->domain)->number % 2;
    char first[128], other[128];

    collective_describe(&collective_control(c, 0)->call[slot], first, sizeof(first));
    collective_describe(&collective_control(c, rank)->call[slot], other, sizeof(other));
    return comm_error_set(c->how.error, PTO_EINVAL, c->domain->ranks[rank],
                          "ranks make different calls: rank %u calls %s, rank %u %s",
                          c->domain->ranks[0], first, c->domain->ranks[rank], other);
}

/*
 * Compares the calls of all ranks. Every rank reaches the same result, because all read the same
 * notes.
 */
static int compare_notes(struct collective *c)
{
    uint32_t slot = shared_domain_of(c->domain)->number % 2;
    const struct shared_call *first = &collective_control(c, 0)->call[slot];

    if (c->status < 0)
        return c->status;
    for (uint32_t i = 0; i < c->rank_count; i++) {
        const struct shared_call *call = &collective_control(c, i)->call[slot];

        if (call->status < 0)
            return report_refused(c, i, call->status);
    }
    for (uint32_t i = 1; i < c->rank_count; i++) {
        const struct shared_call *call = &collective_control(c, i)->call[slot];

        if (call->args[0] != first->args[0] || call->args[1] != first->args[1])
            return collective_report_difference(c, i);
    }
    return PTO_OK;
}
