/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/see/list_schedule.h"

#include <stdlib.h>
#include <string.h>

enum { LANES = 3, CLUSTERS_IN_WORD = 64, ALL_LANES = 7, DUMMIES = 0, CLASSES = 8 };

/*
 * An event of the simulation: the end of an execution, or the completion of a task if that is later
 * than the end of its kernels.
 */
struct ending {
    uint64_t ns;
    uint32_t task;
    uint32_t place; /* cluster * 8 + bits of the occupied lanes; no bits: a task completes */
};

/*
 * Ready tasks that occupy the same lanes, in the order in which they became ready. There is a queue
 * for each set of lanes; queue 0 is for tasks without a core.
 */
struct queue {
    uint32_t *task;
    uint32_t head, tail;
};

struct see_scheduler {
    const struct see_jobs *j;
    uint32_t words; /* number of 64-bit words of each `free` bit set, which has a bit per cluster */
    uint64_t *free[LANES];
    uint32_t free_count[LANES];
    /* for each task: number of predecessors that have not completed, plus 1 until its submit */
    uint32_t *waits_for;
    uint32_t *started;  /* for each task: number of blocks that have begun */
    uint32_t *left;     /* for each task: number of blocks that have not ended */
    uint32_t *sequence; /* for each task: its position in the order in which tasks became ready */
    uint64_t *path_ns;
    uint32_t *queue_room;
    struct queue queue[CLASSES];
    struct ending *heap;
    uint32_t heap_count;
    /* State of one call of see_schedule. Times are in ns from the begin of the run. */
    const struct see_machine *m;
    const uint64_t *ns;
    uint64_t clock, dispatcher_ns, submit_ns, last_ns;
    uint32_t submitted, completed, running, ready_count;
};

static void reset(struct see_scheduler *s, const struct see_machine *m, const uint64_t *ns);
static void submit_due(struct see_scheduler *s);
static void dispatch_ready(struct see_scheduler *s);
static bool advance(struct see_scheduler *s);
static void schedule_complete(struct see_scheduler *s, uint32_t task);

struct see_scheduler *see_scheduler_make(const struct see_jobs *j, uint32_t clusters_max)
{
    struct see_scheduler *s = calloc(1, sizeof(*s));
    size_t count = (size_t)j->count + 1;
    bool is_whole = s != NULL;

    if (s == NULL)
        return NULL;
    s->j = j;
    for (int lane = 0; lane < LANES; lane++) {
        s->free[lane] = calloc(clusters_max / CLUSTERS_IN_WORD + 1, sizeof(*s->free[lane]));
        is_whole = is_whole && s->free[lane] != NULL;
    }
    s->waits_for = malloc(count * sizeof(*s->waits_for));
    s->started = malloc(count * sizeof(*s->started));
    s->left = malloc(count * sizeof(*s->left));
    s->sequence = malloc(count * sizeof(*s->sequence));
    s->path_ns = malloc(count * sizeof(*s->path_ns));
    s->queue_room = malloc(count * sizeof(*s->queue_room));
    /*
     * The heap has at most an entry for each core that executes something, and one for each task,
     * which completes once.
     */
    s->heap = malloc((count + (size_t)LANES * clusters_max) * sizeof(*s->heap));
    if (!is_whole || s->waits_for == NULL || s->started == NULL || s->left == NULL ||
        s->sequence == NULL || s->path_ns == NULL || s->queue_room == NULL || s->heap == NULL) {
        see_scheduler_free(s);
        return NULL;
    }
    return s;
}

void see_scheduler_free(struct see_scheduler *s)
{
    if (s == NULL)
        return;
    for (int lane = 0; lane < LANES; lane++)
        free(s->free[lane]);
    free(s->waits_for);
    free(s->started);
    free(s->left);
    free(s->sequence);
    free(s->path_ns);
    free(s->queue_room);
    free(s->heap);
    free(s);
}

uint64_t see_schedule(struct see_scheduler *s, const struct see_machine *m, const uint64_t *ns)
{
    reset(s, m, ns);
    do {
        submit_due(s);
        dispatch_ready(s);
    } while (advance(s));
    return s->last_ns;
}

static bool is_cut(const struct see_machine *m, uint32_t pair)
{
    return m->has_no_edges || (m->is_cut != NULL && m->is_cut[pair]);
}

uint64_t see_longest_path(struct see_scheduler *s, const struct see_machine *m, const uint64_t *ns)
{
    const struct see_jobs *j = s->j;
    uint64_t longest = 0;

    memset(s->path_ns, 0, (size_t)j->count * sizeof(*s->path_ns));
    for (uint32_t t = 0; t < j->count; t++) {
        uint64_t own_ns = 0;

        for (uint32_t i = j->execution_from[t]; i < j->execution_from[t + 1]; i++)
            own_ns = ns[i] > own_ns ? ns[i] : own_ns;
        s->path_ns[t] += own_ns + j->after_ns[t];
        longest = s->path_ns[t] > longest ? s->path_ns[t] : longest;
        for (uint32_t p = j->pair_from[t]; p < j->pair_from[t + 1]; p++)
            if (!is_cut(m, p) && s->path_ns[t] > s->path_ns[j->pair_to[p]])
                s->path_ns[j->pair_to[p]] = s->path_ns[t];
    }
    return longest;
}

/* ---- the beginning of a simulation ---- */

static void reset(struct see_scheduler *s, const struct see_machine *m, const uint64_t *ns)
{
    const struct see_jobs *j = s->j;
    uint32_t count[CLASSES] = { 0 };

    s->m = m;
    s->ns = ns;
    s->words = (m->clusters + CLUSTERS_IN_WORD - 1) / CLUSTERS_IN_WORD;
    s->clock = s->dispatcher_ns = s->last_ns = m->ignores_submits ? 0 : j->built_ns;
    if (s->dispatcher_ns < m->first_ns)
        s->dispatcher_ns = m->first_ns;
    s->submit_ns = j->count != 0 && !m->ignores_submits ? s->clock + j->gap_ns[0] : s->clock;
    s->submitted = s->completed = s->running = s->ready_count = s->heap_count = 0;
    for (int lane = 0; lane < LANES; lane++) {
        s->free_count[lane] = m->clusters;
        for (uint32_t word = 0; word < s->words; word++) {
            uint32_t first = word * CLUSTERS_IN_WORD;
            uint32_t many = m->clusters > first ? m->clusters - first : 0;

            s->free[lane][word] = many >= CLUSTERS_IN_WORD ? UINT64_MAX : (1ull << many) - 1;
        }
    }
    for (uint32_t t = 0; t < j->count; t++) {
        s->waits_for[t] = (m->has_no_edges ? 0 : j->waits_for[t]) + 1;
        s->started[t] = 0;
        s->left[t] = j->execution_from[t + 1] - j->execution_from[t];
        count[j->lanes[t]]++;
    }
    for (uint32_t p = 0; m->is_cut != NULL && !m->has_no_edges && p < j->pairs; p++)
        s->waits_for[j->pair_to[p]] -= m->is_cut[p] != 0;
    for (uint32_t i = 0, at = 0; i < CLASSES; at += count[i++])
        s->queue[i] = (struct queue){ .task = s->queue_room + at };
}

static void become_ready(struct see_scheduler *s, uint32_t task)
{
    struct queue *queue = &s->queue[s->j->lanes[task]];

    s->sequence[task] = s->ready_count++;
    queue->task[queue->tail++] = task;
}

/*
 * Returns whether another task can be submitted: there is one, few enough tasks are live, and, if
 * the task begins a part (see struct see_jobs), all earlier tasks have completed.
 */
static bool has_next_submit(const struct see_scheduler *s)
{
    if (s->submitted == s->j->count)
        return false;
    if (s->j->begins_part[s->submitted])
        return s->completed == s->submitted;
    return s->m->ignores_submits || s->submitted - s->completed < s->j->live_max[s->submitted];
}

/* Returns whether the next task is submitted at once, whatever its recorded time. */
static bool is_submit_free(const struct see_scheduler *s)
{
    return s->m->ignores_submits && !s->j->begins_part[s->submitted];
}

static void submit_due(struct see_scheduler *s)
{
    while (has_next_submit(s) && (is_submit_free(s) || s->submit_ns <= s->clock)) {
        uint32_t task = s->submitted++;

        if (--s->waits_for[task] == 0)
            become_ready(s, task);
        if (s->submitted < s->j->count)
            s->submit_ns =
                (s->submit_ns > s->clock ? s->submit_ns : s->clock) + s->j->gap_ns[s->submitted];
    }
}

/* ---- the heap of events, ordered by time ---- */

static void push_end(struct see_scheduler *s, struct ending end)
{
    uint32_t i = s->heap_count++;

    for (; i != 0 && s->heap[(i - 1) / 2].ns > end.ns; i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = end;
}

static struct ending pop_end(struct see_scheduler *s)
{
    struct ending top = s->heap[0], last = s->heap[--s->heap_count];
    uint32_t i = 0, child;

    while ((child = 2 * i + 1) < s->heap_count) {
        child += child + 1 < s->heap_count && s->heap[child + 1].ns < s->heap[child].ns;
        if (s->heap[child].ns >= last.ns)
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

/* ---- dispatch ---- */

/* Returns a bit set of the clusters in which these lanes are free, for one word of clusters. */
static uint64_t clusters_free(const struct see_scheduler *s, uint32_t lanes, uint32_t word)
{
    uint64_t either = s->free[1][word] | s->free[2][word];

    switch (lanes) {
    case 1:
        return s->free[0][word];
    case 2:
        return either;
    case 3:
        return s->free[0][word] & either;
    default:
        return s->free[1][word] & s->free[2][word] &
               ((lanes & 1) != 0 ? s->free[0][word] : UINT64_MAX);
    }
}

static uint32_t count_free(const struct see_scheduler *s, uint32_t lanes)
{
    uint32_t many = 0;

    if (lanes == 1)
        return s->free_count[0];
    if (lanes == 2)
        return s->free_count[1] + s->free_count[2];
    for (uint32_t word = 0; word < s->words; word++)
        many += (uint32_t)__builtin_popcountll(clusters_free(s, lanes, word));
    return many;
}

/*
 * Occupies these lanes in the first cluster in which they are free. Returns cluster and lanes as in
 * struct ending; UINT32_MAX: the lanes are free in no cluster.
 */
static uint32_t take_lanes(struct see_scheduler *s, uint32_t lanes)
{
    for (uint32_t word = 0; word < s->words; word++) {
        uint64_t possible = clusters_free(s, lanes, word);
        uint64_t bit = possible & -possible;

        if (possible == 0)
            continue;
        if ((lanes == 2 || lanes == 3) && (s->free[1][word] & bit) == 0)
            /*
             * AIV0 is busy, so AIV1 is occupied instead; adding 2 changes the bit 2 of AIV0 to the
             * bit 4 of AIV1
             */
            lanes += 2;
        for (int lane = 0; lane < LANES; lane++)
            if ((lanes & (1u << lane)) != 0) {
                s->free[lane][word] &= ~bit;
                s->free_count[lane]--;
            }
        return (word * CLUSTERS_IN_WORD + (uint32_t)__builtin_ctzll(possible)) * CLASSES + lanes;
    }
    return UINT32_MAX;
}

static void free_lanes(struct see_scheduler *s, uint32_t place)
{
    uint32_t cluster = place / CLASSES;

    for (int lane = 0; lane < LANES; lane++)
        if ((place & (1u << lane)) != 0) {
            s->free[lane][cluster / CLUSTERS_IN_WORD] |= 1ull << (cluster % CLUSTERS_IN_WORD);
            s->free_count[lane]++;
            s->running--;
        }
}

/*
 * Returns whether enough host threads are free to execute on these lanes. Until all tasks are
 * submitted, one host thread runs the orchestration.
 */
static bool has_thread(const struct see_scheduler *s, uint32_t lanes)
{
    uint32_t threads = s->m->threads;

    if (threads == UINT32_MAX || s->running == 0)
        return true;
    if (s->submitted < s->j->count && threads > 1)
        threads--;
    return s->running + (uint32_t)__builtin_popcount(lanes) <= threads;
}

static bool fits(const struct see_scheduler *s, uint32_t task)
{
    uint32_t lanes = s->j->lanes[task], many = count_free(s, lanes);
    uint32_t blocks = s->j->execution_from[task + 1] - s->j->execution_from[task];

    if (many == 0 || !has_thread(s, lanes))
        return false;
    if (!s->j->is_gang[task] || s->started[task] != 0)
        return true;
    /* blocks of a gang begin together; a gang larger than the chip begins when nothing runs */
    return many >= blocks || s->running == 0;
}

static void start_block(struct see_scheduler *s, uint32_t task)
{
    uint32_t place = take_lanes(s, s->j->lanes[task]);
    uint64_t ns = s->ns[s->j->execution_from[task] + s->started[task]++];

    if (s->dispatcher_ns < s->clock)
        s->dispatcher_ns = s->clock;
    s->dispatcher_ns += s->m->dispatch_ns;
    s->running += (uint32_t)__builtin_popcount(place & ALL_LANES);
    push_end(s, (struct ending){ s->dispatcher_ns + s->m->overhead_ns + ns, task, place });
}

/* Completes ready tasks that need no core, which may make more tasks ready. */
static void complete_dummies(struct see_scheduler *s)
{
    struct queue *dummies = &s->queue[DUMMIES];

    while (dummies->head != dummies->tail)
        schedule_complete(s, dummies->task[dummies->head++]);
}

static void dispatch_ready(struct see_scheduler *s)
{
    for (;;) {
        struct queue *best = NULL;
        uint32_t task;

        complete_dummies(s);
        for (int i = 1; i < CLASSES; i++) {
            struct queue *queue = &s->queue[i];

            if (queue->head != queue->tail && fits(s, queue->task[queue->head]) &&
                (best == NULL ||
                 s->sequence[queue->task[queue->head]] < s->sequence[best->task[best->head]]))
                best = queue;
        }
        if (best == NULL)
            return;
        task = best->task[best->head];
        start_block(s, task);
        if (s->started[task] == s->j->execution_from[task + 1] - s->j->execution_from[task])
            best->head++;
    }
}

/* ---- advancing the clock ---- */

static void schedule_complete(struct see_scheduler *s, uint32_t task)
{
    const struct see_jobs *j = s->j;

    s->completed++;
    if (s->completed == s->submitted && s->submitted < j->count && j->begins_part[s->submitted])
        s->submit_ns = s->clock + j->gap_ns[s->submitted];
    if (s->clock > s->last_ns)
        s->last_ns = s->clock;
    for (uint32_t p = j->pair_from[task]; p < j->pair_from[task + 1]; p++)
        if (!is_cut(s->m, p) && --s->waits_for[j->pair_to[p]] == 0)
            become_ready(s, j->pair_to[p]);
}

static void end_one(struct see_scheduler *s, struct ending end)
{
    if ((end.place & ALL_LANES) == 0) {
        schedule_complete(s, end.task);
        return;
    }
    free_lanes(s, end.place);
    if (--s->left[end.task] != 0)
        return;
    if (s->j->after_ns[end.task] == 0)
        schedule_complete(s, end.task);
    else
        push_end(s, (struct ending){ end.ns + s->j->after_ns[end.task], end.task, 0 });
}

/*
 * Advances the clock to the next submit or end, and handles the ends that are due. Returns false if
 * there is no event left.
 */
static bool advance(struct see_scheduler *s)
{
    uint64_t next_ns = s->heap_count != 0 ? s->heap[0].ns : UINT64_MAX;

    if (has_next_submit(s) && s->submit_ns < next_ns)
        next_ns = s->submit_ns;
    if (next_ns == UINT64_MAX)
        return false;
    if (next_ns > s->clock)
        s->clock = next_ns;
    while (s->heap_count != 0 && s->heap[0].ns <= s->clock)
        end_one(s, pop_end(s));
    return true;
}
