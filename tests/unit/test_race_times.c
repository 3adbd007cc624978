/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for races in graphs of 100 000 tasks: its CPU time and memory are printed and compared
 * with limits. docs/user/races.md publishes them.
 */
#include "tool/see/races.h"

#include <time.h>

#include "tests/fixture/recording_test.h"
#include "tests/fixture/random_test.h"

enum {
    TASKS = 100000,
    WINDOW = 64, /* a task uses tiles among so many */
    /* limits of CPU time for a search that finds nothing, and for one that lists all pairs */
    SEARCH_SECONDS_MAX = 1,
    PAIRS_SECONDS_MAX = 3,
    MEGABYTES_MAX = 100,
    TILE_BYTES = 4096,
    HALO_BYTES = 256,
};

enum shape { SHAPE_TILES, SHAPE_HALOS, SHAPE_STRIDED };
enum edges { EDGES_ALL, EDGES_DROPPED, EDGES_NO_WAR, EDGES_EXPLICIT };

struct reader {
    uint32_t task, next;
};

/* The graph, and the last accesses to each tile, from which its edges follow. */
struct maker {
    struct plan p;
    uint32_t tiles;
    uint32_t *writer; /* by tile; PTO_RECORDING_NONE: none */
    uint32_t *reader; /* by tile: index in `readers`; 0: none */
    struct reader *readers;
    uint32_t reader_count;
    enum shape shape;
    enum edges edges;
};

/* A tile; for a reader in a graph with halos, with a part of both neighbours. */
static struct see_argument tile_argument(const struct maker *m, uint32_t tile, bool writes)
{
    bool has_halo = m->shape == SHAPE_HALOS && !writes;
    struct see_argument a = { .addr = 1 << 20,
                              .dtype = PTO_UINT8,
                              .ndims = 1,
                              .owner = PTO_RECORDING_NONE,
                              .strides = { 1 },
                              .tag = writes ? PTO_TAG_INOUT : PTO_TAG_INPUT };

    a.start = (uint64_t)TILE_BYTES * (tile + 1) - (has_halo ? HALO_BYTES : 0);
    a.shapes[0] = TILE_BYTES + (has_halo ? 2 * HALO_BYTES : 0);
    if (m->shape == SHAPE_STRIDED) { /* of 32 x 32 elements, in a matrix of 128 tiles a row */
        a.ndims = 2;
        a.dtype = PTO_FLOAT32;
        a.shapes[0] = a.shapes[1] = 32;
        a.strides[0] = 32 * 128;
        a.strides[1] = 1;
        a.start = (uint64_t)(tile / 128) * 32 * a.strides[0] + tile % 128 * 32;
    }
    a.extent = a.shapes[0];
    return a;
}

static void wait_for(struct maker *m, uint32_t before, uint32_t task)
{
    if (before != PTO_RECORDING_NONE && before != task &&
        !(m->edges == EDGES_DROPPED && random_below(1000) == 0))
        plan_edge(&m->p, before, task, PTO_RECORDING_REASON_RAW, 0, 0);
}

/* The tiles that an access to a tile uses: `*first` to `*last`. */
static void tiles_of(const struct maker *m, uint32_t tile, bool writes, uint32_t *first,
                     uint32_t *last)
{
    uint32_t reach = m->shape == SHAPE_HALOS && !writes;

    *first = tile >= reach ? tile - reach : 0;
    *last = tile + reach < m->tiles ? tile + reach : tile;
}

static void infer_edges(struct maker *m, uint32_t task, uint32_t tile, bool writes)
{
    uint32_t first, last;

    tiles_of(m, tile, writes, &first, &last);
    for (uint32_t t = first; t <= last; t++) {
        wait_for(m, m->writer[t], task);
        for (uint32_t i = m->reader[t]; writes && i != 0 && m->edges != EDGES_NO_WAR;
             i = m->readers[i].next)
            wait_for(m, m->readers[i].task, task);
    }
}

static void record_reader(struct maker *m, uint32_t task, uint32_t tile)
{
    uint32_t first, last;

    tiles_of(m, tile, false, &first, &last);
    for (uint32_t t = first; t <= last; t++) {
        m->readers[++m->reader_count] = (struct reader){ task, m->reader[t] };
        m->reader[t] = m->reader_count;
    }
}

static void add_task(struct maker *m, uint32_t kernel, uint32_t tasks)
{
    struct see_recording *r = m->p.r;
    uint32_t task = plan_task(&m->p, kernel, 1000), arguments = 3 + random_below(4), tile[8];
    uint32_t base = (uint32_t)((uint64_t)task * m->tiles / tasks);

    r->argument_from[task] = r->argument_count;
    for (uint32_t i = 0; i < arguments; i++) {
        bool writes = i + 1 == arguments;

        tile[i] = (base + random_below(WINDOW)) % m->tiles;
        r->argument = plan_grow(r->argument, r->argument_count, sizeof(*r->argument));
        r->argument[r->argument_count++] = tile_argument(m, tile[i], writes);
        if (m->edges != EDGES_EXPLICIT)
            infer_edges(m, task, tile[i], writes);
    }
    if (m->edges == EDGES_EXPLICIT && task >= 64) {
        wait_for(m, task - 64, task);
        if (random_below(4) == 0)
            wait_for(m, task - 1 - random_below(task < 200 ? task : 200), task);
    }
    for (uint32_t i = 0; i + 1 < arguments; i++)
        record_reader(m, task, tile[i]);
    m->writer[tile[arguments - 1]] = task;
    m->reader[tile[arguments - 1]] = 0;
}

static double cpu_seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void search_a_large_graph(const char *name, enum shape shape, enum edges edges)
{
    uint32_t tasks = often(TASKS, TASKS / 10), kernel;
    struct maker m = { .tiles = tasks / 8 + 64, .shape = shape, .edges = edges };
    struct see_races races;
    double begin, seconds;
    uint64_t pairs = 0;

    chance.state = 7;
    plan_begin(&m.p, 8);
    kernel = plan_kernel(&m.p, "step", PTO_CORE_AIV);
    m.writer = malloc(m.tiles * sizeof(*m.writer));
    m.reader = calloc(m.tiles, sizeof(*m.reader));
    m.readers = calloc(18ull * tasks + 1, sizeof(*m.readers));
    m.p.r->argument_from = calloc(tasks + 1ull, sizeof(*m.p.r->argument_from));
    assert_true(m.writer != NULL && m.reader != NULL && m.readers != NULL &&
                m.p.r->argument_from != NULL);
    memset(m.writer, 0xff, m.tiles * sizeof(*m.writer));
    for (uint32_t i = 0; i < tasks; i++)
        add_task(&m, kernel, tasks);
    m.p.r->argument_from[tasks] = m.p.r->argument_count;
    assert_int_equal(see_recording_index(m.p.r), PTO_OK);
    begin = cpu_seconds();
    assert_int_equal(see_races_find(m.p.r, 0, NULL, NULL, &races), PTO_OK);
    seconds = cpu_seconds() - begin;
    for (uint32_t i = 0; i < SEE_RACE_KINDS; i++)
        pairs += races.pairs[i];
    print_message("%s: %u tasks, %lu accesses, %lu edges: %lu pairs in %.2f s of CPU, %lu MB\n",
                  name, tasks, (unsigned long)races.accesses, (unsigned long)m.p.r->edge_count,
                  (unsigned long)pairs, seconds, (unsigned long)(races.bytes >> 20));
    assert_true(!races.is_cut_short);
    assert_true((pairs == 0) == (edges == EDGES_ALL));
    assert_true(seconds < (pairs == 0 ? SEARCH_SECONDS_MAX : PAIRS_SECONDS_MAX));
    assert_true(races.bytes >> 20 < MEGABYTES_MAX);
    see_races_free(&races);
    plan_end(&m.p);
    free(m.writer);
    free(m.reader);
    free(m.readers);
}

static void a_large_graph_takes_seconds(void **state)
{
    (void)state;
    search_a_large_graph("tiles", SHAPE_TILES, EDGES_ALL);
    search_a_large_graph("tiles, edges left out", SHAPE_TILES, EDGES_DROPPED);
    search_a_large_graph("halos", SHAPE_HALOS, EDGES_ALL);
    search_a_large_graph("strided tiles", SHAPE_STRIDED, EDGES_ALL);
    search_a_large_graph("strided tiles, edges left out", SHAPE_STRIDED, EDGES_DROPPED);
    search_a_large_graph("no write after read", SHAPE_TILES, EDGES_NO_WAR);
    search_a_large_graph("explicit dependencies", SHAPE_TILES, EDGES_EXPLICIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_graph_takes_seconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
