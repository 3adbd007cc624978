/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search goes through the accesses in submission order. It compares each with the earlier
 * accesses of all regions that overlap its own.
 *
 * The search looks back only as far as a checkpoint: a node that comes after all accesses that its
 * region had before. A node that comes after the checkpoint comes after these accesses as well. In
 * a run without races nearly every write is a checkpoint, so few accesses are compared. After a
 * race the region gets no new checkpoint until some node comes after both accesses of the race, so
 * no pair is missed.
 */
#include "tool/see/races.h"

#include <stdlib.h>
#include <string.h>

#include "pto/status.h"
#include "tool/see/chip_work.h"
#include "tool/see/race_graph.h"

enum {
    /* maximum number of unanswered questions, which are then answered together */
    QUESTIONS_MAX = 1 << 18,
    /* steps of the search for a path between two accesses, after which the question stays open */
    STEPS_PAIR = 128,
    /*
     * steps of the search for a path from a checkpoint; a checkpoint that is missed costs
     * comparisons
     */
    STEPS_CHECKPOINT = 4096,
};

/*
 * A checkpoint of a region: a node that comes after all accesses of the region before it. `count`
 * is the number of these accesses: writes, and others.
 */
struct checkpoint {
    uint32_t node;
    /*
     * index of the region's checkpoint before this one; PTO_RECORDING_NONE: this one is the first
     */
    uint32_t before;
    uint32_t count[2];
};

/* The accesses of a region so far. In both arrays [0] is for writes, [1] for other accesses. */
struct race_past {
    uint64_t first[2]; /* index of the first access in race_search.list */
    uint32_t count[2];
    /*
     * index of the region's latest checkpoint (see the top of this file); PTO_RECORDING_NONE: none
     */
    uint32_t checkpoint;
};

/*
 * Identifies two sides that race, at least one of which is what a kernel really used. What a kernel
 * used may consist of several parts, but the pair counts once. All 0: an empty slot of the hash
 * table.
 */
struct used_pair {
    uint64_t tasks, uses;
};

struct race_search {
    struct race_graph g;
    struct race_past *past; /* one for each region */
    uint32_t *list;         /* accesses, sorted by region */
    struct checkpoint *checkpoint;
    uint32_t checkpoint_count, checkpoint_max;
    struct see_question *question;
    uint32_t question_count;
    uint64_t comparisons;
    uint32_t *slot; /* hash table of races: index of a race + 1 */
    uint32_t slot_count;
    struct used_pair *pair; /* hash table of the pairs that raced, so that each counts once */
    uint64_t pair_count, pair_max;
    see_race_fn *each;
    void *context;
    struct see_races *out;
    uint32_t race_max;
    int status;
};

const char *see_race_kind_name(uint8_t kind)
{
    static const char *const text[] = {
#define X(name, text) text,
        SEE_RACE_MAP(X)
#undef X
    };

    return kind < SEE_RACE_KINDS ? text[kind] : "unknown";
}

const struct see_argument *see_race_argument(const struct see_recording *r,
                                             const struct see_race_side *side)
{
    if (side->argument == SEE_RACE_STRAY)
        return &r->touch[side->touch - 1].part;
    return side->element != PTO_RECORDING_NONE
               ? &r->element[side->element].argument
               : &r->argument[r->argument_from[side->task] + (uint64_t)side->argument];
}

/* ---- results ---- */

/*
 * Returns the kernel of an access; for an access by the orchestration, the number after the last
 * kernel's.
 */
static uint32_t side_kernel(const struct see_recording *r, const struct see_race_side *side)
{
    return side->argument == SEE_RACE_ELEMENT ? r->kernel_count : see_task_kernel(r, side->task);
}

static uint64_t side_key(const struct see_recording *r, const struct see_race_side *side)
{
    return (uint64_t)side_kernel(r, side) << 16 | (uint16_t)side->argument;
}

/* Returns the time between the executions of two accesses; UINT64_MAX: unknown. */
static uint64_t sides_apart(const struct see_recording *r, const struct see_race_side side[2])
{
    const struct see_task *a = &r->task[side[0].task], *b = &r->task[side[1].task];

    if (side[0].argument == SEE_RACE_ELEMENT || side[1].argument == SEE_RACE_ELEMENT ||
        a->start_ns == PTO_RECORDING_NO_TIME || b->start_ns == PTO_RECORDING_NO_TIME)
        return UINT64_MAX;
    return a->end_ns < b->start_ns   ? b->start_ns - a->end_ns
           : b->end_ns < a->start_ns ? a->start_ns - b->end_ns
                                     : 0;
}

static bool is_same_race(const struct see_recording *r, const struct see_race *race, uint8_t kind,
                         const uint64_t key[2])
{
    uint64_t a = side_key(r, &race->side[0]), b = side_key(r, &race->side[1]);

    return race->kind == kind && ((a == key[0] && b == key[1]) || (a == key[1] && b == key[0]));
}

static bool grow_races(struct race_search *s)
{
    uint32_t max = 2 * s->race_max + 64, slots = 4 * max;
    struct see_race *race = realloc(s->out->race, max * sizeof(*race));
    uint32_t *slot = calloc(slots, sizeof(*slot));

    if (race != NULL)
        s->out->race = race;
    if (race == NULL || slot == NULL) {
        free(slot);
        s->status = PTO_ENOMEM;
        return false;
    }
    free(s->slot);
    s->slot = slot;
    s->slot_count = slots;
    s->race_max = max;
    for (uint32_t i = 0; i < s->out->count; i++) {
        const struct see_race_side *side = race[i].side;
        uint64_t hash = side_key(s->g.r, &side[0]) + side_key(s->g.r, &side[1]);
        uint32_t at = (uint32_t)((hash + race[i].kind) * 0x9e3779b97f4a7c15ull >> 32) % slots;

        while (slot[at] != 0)
            at = (at + 1) % slots;
        slot[at] = i + 1;
    }
    return true;
}

/*
 * Returns the race that a pair of accesses belongs to, after adding the race if it is new. NULL:
 * out of memory.
 */
static struct see_race *find_race(struct race_search *s, uint8_t kind,
                                  const struct see_race_side side[2])
{
    uint64_t key[2] = { side_key(s->g.r, &side[0]), side_key(s->g.r, &side[1]) };
    struct see_races *out = s->out;
    uint32_t at;

    if (out->count == s->race_max && !grow_races(s))
        return NULL;
    at = (uint32_t)((key[0] + key[1] + kind) * 0x9e3779b97f4a7c15ull >> 32) % s->slot_count;
    for (; s->slot[at] != 0; at = (at + 1) % s->slot_count)
        if (is_same_race(s->g.r, &out->race[s->slot[at] - 1], kind, key))
            return &out->race[s->slot[at] - 1];
    out->race[out->count] = (struct see_race){ .kind = kind, .side = { side[0], side[1] } };
    s->slot[at] = ++out->count;
    return &out->race[out->count - 1];
}

static struct see_race_side side_of(const struct race_search *s, const struct race_access *a)
{
    return (struct see_race_side){ s->g.task[a->node], a->element, a->argument, a->use, a->touch };
}

/* ---- pairs in which a kernel's real use of memory is known ---- */

static struct used_pair *find_pair(struct race_search *s, struct used_pair wanted)
{
    uint64_t hash = (wanted.tasks * 0x9e3779b97f4a7c15ull ^ wanted.uses) * 0xff51afd7ed558ccdull;

    for (uint64_t at = (hash >> 20) & (s->pair_max - 1);; at = (at + 1) & (s->pair_max - 1)) {
        struct used_pair *p = &s->pair[at];

        if (p->uses == 0 || (p->tasks == wanted.tasks && p->uses == wanted.uses))
            return p;
    }
}

static bool grow_pairs(struct race_search *s)
{
    struct used_pair *old = s->pair;
    uint64_t max = s->pair_max;

    s->pair_max = max != 0 ? 2 * max : 1024;
    s->pair = calloc(s->pair_max, sizeof(*s->pair));
    if (s->pair == NULL) {
        s->pair = old;
        s->pair_max = max;
        s->status = PTO_ENOMEM;
        return false;
    }
    for (uint64_t i = 0; i < max; i++)
        if (old[i].uses != 0)
            *find_pair(s, old[i]) = old[i];
    free(old);
    return true;
}

/*
 * Returns a number that identifies one side of a race: its task, or the element that the
 * orchestration accessed.
 */
static uint64_t side_node(const struct see_race_side *side)
{
    return side->argument == SEE_RACE_ELEMENT ? 1u << 31 | side->element : side->task;
}

/*
 * Returns a number, never 0, for the argument of a side, its direction, and whether the kernel used
 * it so or the argument only declares it.
 */
static uint64_t use_bits(const struct see_race_side *side)
{
    return 1u | (uint64_t)side->use << 1 | (uint64_t)(uint16_t)side->argument << 4 |
           (uint64_t)(side->touch != 0) << 3;
}

/*
 * Whether a race between the same two accesses was reported before, for other bytes. If not,
 * remembers the pair.
 */
static bool is_known_pair(struct race_search *s, const struct see_race_side side[2])
{
    struct used_pair wanted = { side_node(&side[0]) << 32 | side_node(&side[1]),
                                use_bits(&side[0]) << 32 | use_bits(&side[1]) };
    struct used_pair *found;

    if (side[0].touch == 0 && side[1].touch == 0)
        return false;
    /* two blocks of one task have no order, so their pair is stored with the lower number first */
    if (side_node(&side[0]) == side_node(&side[1]))
        wanted.uses = use_bits(&side[0]) < use_bits(&side[1])
                          ? wanted.uses
                          : use_bits(&side[1]) << 32 | use_bits(&side[0]);
    if (2 * s->pair_count >= s->pair_max && !grow_pairs(s))
        return true;
    found = find_pair(s, wanted);
    if (found->uses != 0)
        return true;
    *found = wanted;
    s->pair_count++;
    return false;
}

/*
 * Whether signals that are not recorded may order the access: it is by an argument that declares no
 * use, or the other one is by the same task; and the kernel exchanges signals with others than
 * kernels of the run, or the task waits for such a signal.
 */
static bool is_signalled(const struct race_search *s, const struct see_race_side *side,
                         bool is_same_task)
{
    const struct see_recording *r = s->g.r;
    bool has_end = false;

    if (side->touch == 0)
        return false;
    if (!is_same_task &&
        (side->argument < 0 ||
         pto_tag_use(r->argument[r->argument_from[side->task] + (uint64_t)side->argument].tag) !=
             0))
        return false;
    for (uint64_t i = r->touch_from[side->task]; i < r->touch_from[side->task + 1]; i++) {
        if (r->touch[i].kind == PTO_RECORDING_TOUCH_SIGNAL)
            return true;
        has_end = has_end || r->touch[i].kind == PTO_RECORDING_TOUCH_END;
    }
    return !has_end && (r->task[side->task].flags & PTO_RECORDING_DEFERRED) != 0;
}

static uint8_t race_kind(const struct race_search *s, const struct see_race_side side[2])
{
    for (int i = 0; i < 2; i++)
        if (side[i].use == SEE_USE_UNDECLARED ||
            is_signalled(s, &side[i], side_node(&side[0]) == side_node(&side[1])))
            return SEE_RACE_UNDECLARED;
    return side[0].use == SEE_USE_WRITE && side[1].use == SEE_USE_WRITE ? SEE_RACE_WRITE_WRITE
                                                                        : SEE_RACE_READ_WRITE;
}

/* Adds a pair of accesses that no path orders. */
static void add_pair(struct race_search *s, uint32_t a, uint32_t b)
{
    bool is_turned = s->g.task[s->g.access[a].node] > s->g.task[s->g.access[b].node];
    const struct see_race_side side[2] = { side_of(s, &s->g.access[is_turned ? b : a]),
                                           side_of(s, &s->g.access[is_turned ? a : b]) };
    uint8_t kind = race_kind(s, side);
    struct see_race *race = is_known_pair(s, side) ? NULL : find_race(s, kind, side);
    uint64_t apart;

    if (race == NULL)
        return;
    apart = sides_apart(s->g.r, side);
    if (race->count++ == 0 || apart < race->apart_ns) {
        race->side[0] = side[0];
        race->side[1] = side[1];
        race->apart_ns = apart;
        (void)see_byte_views_meet(&s->g.region[s->g.access[a].region].view,
                                  &s->g.region[s->g.access[b].region].view, &race->at);
    }
    s->out->pairs[kind]++;
    if (s->each != NULL)
        s->each(s->context, side);
}

static int races_by_weight(const void *a, const void *b)
{
    const struct see_race *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->side[1].task < y->side[1].task ? -1 : x->side[1].task > y->side[1].task;
}

/* ---- the search ---- */

static void settle_questions(struct race_search *s)
{
    if (s->status < 0 ||
        (s->status = see_precedence_settle(&s->g.order, s->question, s->question_count)) < 0)
        return;
    for (uint32_t i = 0; i < s->question_count; i++)
        if (s->question[i].answer == SEE_ANSWER_UNORDERED)
            add_pair(s, s->question[i].tag[0], s->question[i].tag[1]);
    s->question_count = 0;
}

/*
 * Compares two accesses. Returns whether the first is known to come before the second. If the
 * search for a path gave up, the question is answered later.
 */
static bool compare_accesses(struct race_search *s, uint32_t a, uint32_t b)
{
    uint32_t from = s->g.access[a].node, to = s->g.access[b].node;
    enum see_answer answer = see_precedence_ask(&s->g.order, from, to, STEPS_PAIR);

    s->comparisons++;
    if (answer == SEE_ANSWER_UNORDERED)
        add_pair(s, a, b);
    if (answer == SEE_ANSWER_OPEN) {
        if (s->question_count == QUESTIONS_MAX)
            settle_questions(s);
        if (s->status >= 0)
            s->question[s->question_count++] =
                (struct see_question){ .from = from, .to = to, .tag = { a, b } };
    }
    return answer == SEE_ANSWER_BEFORE;
}

/*
 * Compares two accesses of one node: of a segment of an invocation, or of a task whose kernels did
 * not signal, so that its invocations race. Returns false if the node may have several invocations.
 */
static bool compare_blocks(struct race_search *s, uint32_t a, uint32_t b)
{
    const struct see_recording *r = s->g.r;
    const struct race_access *x = &s->g.access[a], *y = &s->g.access[b];

    if (x->touch == 0 || y->touch == 0)
        return true;
    if (r->touch[x->touch - 1].invocation != r->touch[y->touch - 1].invocation)
        add_pair(s, a, b);
    return r->touch[x->touch - 1].segment == 0 && r->task[s->g.task[x->node]].blocks <= 1;
}

/*
 * Returns the latest checkpoint of the region from which a path leads to the node;
 * PTO_RECORDING_NONE: none.
 */
static uint32_t find_checkpoint(struct race_search *s, const struct race_past *past, uint32_t node)
{
    uint32_t checkpoint = past->checkpoint;

    while (checkpoint != PTO_RECORDING_NONE &&
           see_precedence_ask(&s->g.order, s->checkpoint[checkpoint].node, node,
                              STEPS_CHECKPOINT) != SEE_ANSWER_BEFORE) {
        s->comparisons++;
        checkpoint = s->checkpoint[checkpoint].before;
    }
    return checkpoint;
}

/*
 * Makes the node a checkpoint of the region: the node comes after all accesses of the region so
 * far. If no access was added since the latest checkpoint, the node replaces that checkpoint.
 */
static void add_checkpoint(struct race_search *s, struct race_past *past, uint32_t node)
{
    struct checkpoint checkpoint = { node, past->checkpoint, { past->count[0], past->count[1] } };

    if (past->checkpoint != PTO_RECORDING_NONE &&
        memcmp(s->checkpoint[past->checkpoint].count, checkpoint.count, sizeof(checkpoint.count)) ==
            0) {
        s->checkpoint[past->checkpoint].node = node;
        return;
    }
    if (s->checkpoint_count == s->checkpoint_max) {
        uint32_t max = 2 * s->checkpoint_max + 256;
        struct checkpoint *grown =
            max < PTO_RECORDING_NONE / 2 ? realloc(s->checkpoint, max * sizeof(*grown)) : NULL;

        if (grown == NULL) {
            s->status = PTO_ENOMEM;
            return;
        }
        s->checkpoint = grown;
        s->checkpoint_max = max;
    }
    s->checkpoint[s->checkpoint_count] = checkpoint;
    past->checkpoint = s->checkpoint_count++;
}

/* Compares an access with the earlier accesses of a region that conflict with it. */
static void search_region(struct race_search *s, uint32_t access, struct race_past *past)
{
    const struct race_access *a = &s->g.access[access];
    bool writes = a->use == SEE_USE_WRITE, is_clean = true;
    uint32_t checkpoint;

    if (past->count[0] + past->count[1] == 0)
        return;
    checkpoint = find_checkpoint(s, past, a->node);
    for (uint32_t kind = 0; kind < (writes ? 2 : 1); kind++) {
        uint32_t end = checkpoint != PTO_RECORDING_NONE ? s->checkpoint[checkpoint].count[kind] : 0;

        for (uint32_t i = past->count[kind]; i > end && s->status >= 0; i--) {
            uint32_t before = s->list[past->first[kind] + i - 1];

            if (s->comparisons >= SEE_RACE_COMPARISONS_MAX) {
                s->out->is_cut_short = true;
                return;
            }
            if (s->g.access[before].node == a->node)
                is_clean = compare_blocks(s, before, access) && is_clean;
            else if (!compare_accesses(s, before, access))
                is_clean = false;
        }
    }
    if (writes && is_clean && s->status >= 0)
        add_checkpoint(s, past, a->node);
}

static void search_all(struct race_search *s)
{
    for (uint32_t i = 0; i < s->g.access_count && s->status >= 0 && !s->out->is_cut_short; i++) {
        const struct race_access *a = &s->g.access[i];
        const struct race_region *region = &s->g.region[a->region];
        struct race_past *own = &s->past[a->region];
        uint32_t kind = a->use != SEE_USE_WRITE;

        if (a->only_orders)
            continue;
        for (uint32_t k = 0; k < region->near_count; k++)
            search_region(s, i, &s->past[s->g.near[region->near + k]]);
        s->list[own->first[kind] + own->count[kind]++] = i;
        s->out->accesses++;
        s->out->undeclared += a->use == SEE_USE_UNDECLARED;
    }
    settle_questions(s);
}

/* Reserves room in `list` for the accesses of each region. */
static int search_begin(struct race_search *s)
{
    const struct race_graph *g = &s->g;
    uint64_t at = 0;

    s->past = calloc(g->region_count + 1ull, sizeof(*s->past));
    s->list = malloc((g->access_count + 1ull) * sizeof(*s->list));
    s->question = malloc(QUESTIONS_MAX * sizeof(*s->question));
    if (s->past == NULL || s->list == NULL || s->question == NULL)
        return PTO_ENOMEM;
    for (uint32_t i = 0; i < g->access_count; i++)
        if (!g->access[i].only_orders)
            s->past[g->access[i].region].count[g->access[i].use != SEE_USE_WRITE]++;
    for (uint32_t i = 0; i < g->region_count; i++) {
        struct race_past *past = &s->past[i];

        for (uint32_t kind = 0; kind < 2; kind++) {
            past->first[kind] = at;
            at += past->count[kind];
            past->count[kind] = 0;
        }
        past->checkpoint = PTO_RECORDING_NONE;
    }
    return PTO_OK;
}

/* Counts the tasks that ran a kernel, and those of them whose uses are recorded. */
static void count_known(struct race_search *s)
{
    const struct see_recording *r = s->g.r;
    const struct see_group *group = &r->group[s->g.group];

    for (uint32_t task = group->task_begin; task < group->task_end; task++) {
        s->out->kernel_tasks += see_task_kernel(r, task) != PTO_RECORDING_NONE &&
                                (r->task[task].flags & (PTO_RECORDING_DUMMY | PTO_RECORDING_NEVER |
                                                        PTO_RECORDING_SKIPPED)) == 0;
        s->out->known_tasks += see_race_is_known(r, task);
    }
}

int see_races_find(const struct see_recording *r, uint32_t group, see_race_fn *each, void *context,
                   struct see_races *out)
{
    struct race_search s = { .each = each, .context = context, .out = out };

    *out = (struct see_races){ .r = r, .group = group };
    s.status = see_race_graph_make(&s.g, r, group);
    if (s.status >= 0)
        s.status = search_begin(&s);
    if (s.status >= 0)
        search_all(&s);
    if (s.status >= 0 && out->count > 1)
        qsort(out->race, out->count, sizeof(*out->race), races_by_weight);
    out->tasks = r->group[group].task_end - r->group[group].task_begin;
    count_known(&s);
    out->regions = s.g.region_count;
    out->bytes = see_race_graph_bytes(&s.g) + s.g.region_count * sizeof(*s.past) +
                 s.g.access_count * sizeof(*s.list) + s.checkpoint_max * sizeof(*s.checkpoint) +
                 QUESTIONS_MAX * sizeof(*s.question) + s.pair_max * sizeof(*s.pair);
    see_race_graph_free(&s.g);
    free(s.past);
    free(s.list);
    free(s.checkpoint);
    free(s.question);
    free(s.slot);
    free(s.pair);
    if (s.status < 0)
        see_races_free(out);
    return s.status;
}

void see_races_free(struct see_races *races)
{
    free(races->race);
    *races = (struct see_races){ 0 };
}
