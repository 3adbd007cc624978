/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that the host builds. The orchestration runs in this process, on the builder: a simulated
 * chip that is used for nothing else. So the orchestration has a separate stack and a deadline, and
 * its crashes are caught. Its outputs have addresses on the card from the beginning, and nothing is
 * written there. The graph is laid out in the stage as it will be on the card
 * (device/card_graph.h), and copied to the card in one piece. A graph that is launched once uses
 * memory that the device has reserved, the graph after the outputs, so that no run allocates. A
 * graph that is kept has separate memory.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cann/cann.h"
#include "cann/device/card_graph.h"
#include "cann/device/card_kernels.h"
#include "chip/local_code.h"

enum { STAGE_MIN = 64 << 10, KNOWN_SITES = 256 };

/* An orchestration for this processor. Its kernels are for the card, and are not called here. */
struct cann_host_code {
    struct chip_code *local;
    struct chip_functions functions;
    struct graph_kernel kernel[];
};

/* ---- code ---- */

int cann_host_load(const struct chip_program *program, const struct board_load *load,
                   struct cann_host_code **code_out, struct pto_error *error)
{
    struct chip_program alone = *program;
    struct cann_host_code *code = calloc(1, sizeof(*code) + board_kernel_room(load));
    int status = code == NULL
                     ? error_setf(error, PTO_ENOMEM,
                                  "there is no memory for the code of \"%.100s\"", program->name)
                     : PTO_OK;

    alone.kernel_count = 0;
    if (status >= 0)
        status = local_code_load(&alone, &code->local, error);
    if (status >= 0 && code->local->compat != NULL) {
        local_code_unload(code->local);
        status = error_setf(error, PTO_ENOSUP,
                            "the orchestration of \"%.80s\" is a binary for the reference's "
                            "runtime, which real chips do not run yet; compile it with "
                            "include/simpler",
                            program->name);
    }
    if (status < 0) {
        free(code);
        return status;
    }
    board_copy_kernels(load, code->kernel);
    code->functions = code->local->functions;
    code->functions.kernels = code->kernel;
    code->functions.kernel_count = load->kernel_count;
    *code_out = code;
    return PTO_OK;
}

void cann_host_unload(struct cann_host_code *code)
{
    if (code == NULL)
        return;
    local_code_unload(code->local);
    free(code);
}

/* ---- functions that the builder calls ---- */

static bool grow_stage(struct cann_build *b, uint64_t bytes)
{
    uint64_t max = b->stage_max != 0 ? b->stage_max : STAGE_MIN;
    char *more;

    if (bytes <= b->stage_max)
        return true;
    while (max < bytes)
        max *= 2;
    more = aligned_alloc(128, max);
    if (more == NULL)
        return false;
    if (b->used != 0)
        memcpy(more, b->stage, b->used);
    free(b->stage);
    b->stage = more;
    b->stage_max = max;
    return true;
}

static uint64_t cann_build_round_up(uint64_t bytes)
{
    return (bytes + GRAPH_OUTPUT_ALIGN - 1) / GRAPH_OUTPUT_ALIGN * GRAPH_OUTPUT_ALIGN;
}

struct wanted {
    uint64_t bytes;
    uint64_t block;
    int code;
};

static void take_memory(struct cann *c, void *arg)
{
    struct wanted *w = arg;

    w->code = cann_take(c, w->bytes, &w->block);
}

/*
 * Allocates memory on the card for a graph that is kept. *addr_out is an aligned address in the
 * block that the vendor returned, *block_out.
 */
static bool take_aligned(struct cann *c, uint64_t bytes, uint64_t *block_out, uint64_t *addr_out)
{
    struct wanted w = { .bytes = bytes + GRAPH_OUTPUT_ALIGN };

    if (driver_thread_call(c, take_memory, &w, NULL) < 0 || w.code != ACL_SUCCESS)
        return false;
    *block_out = w.block;
    *addr_out = cann_build_round_up(w.block);
    return true;
}

static char *cann_build_take(void *context, struct built_graph *built, uint64_t bytes,
                             uint64_t *heap_out)
{
    struct cann *c = context;
    struct cann_build *b = &c->build;

    *heap_out = c->heap;
    if (b->kept != NULL && built->image.heap_bytes != 0 &&
        !take_aligned(c, built->image.heap_bytes, &b->kept->outputs, heap_out))
        return NULL;
    b->used = 0;
    if (!grow_stage(b, CARD_GRAPH_HEAD + bytes))
        return NULL;
    b->built = built;
    b->used = CARD_GRAPH_HEAD + bytes;
    return b->stage + CARD_GRAPH_HEAD;
}

static bool cann_build_read_element(void *context, uint64_t addr, uint32_t bytes,
                                    uint64_t *bits_out)
{
    struct cann *c = context;

    *bits_out = 0;
    return chip_read(&c->base, addr, bits_out, bytes, NULL) >= 0;
}

static bool write_element(void *context, uint64_t addr, uint32_t bytes, uint64_t bits)
{
    struct cann *c = context;

    return chip_write(&c->base, addr, &bits, bytes, NULL) >= 0;
}

/* ---- building a graph ---- */

/*
 * Opens the builder. A request to cancel run `number` may have arrived before: then it cancels the
 * build.
 */
static int open_builder(struct cann *c, uint64_t number, struct pto_error *error)
{
    const struct chip_params params = { .backend = "sim",
                                        .generation = c->generation->name,
                                        .clusters = c->base.properties.clusters,
                                        .workers = 1,
                                        .memory_max = c->memory_max,
                                        .heap = c->heap,
                                        .heap_bytes = c->heap_bytes };

    int status = PTO_OK;

    pthread_mutex_lock(&c->request_lock);
    if (c->build.builder == NULL)
        status = chip_open(&params, &c->build.builder, error);
    if (status >= 0 && c->requests.cancelled[number % BOARD_RUNS] >= number)
        chip_cancel(c->build.builder, number);
    pthread_mutex_unlock(&c->request_lock);
    return status;
}

void cann_build_close(struct cann *c)
{
    pthread_mutex_lock(&c->request_lock);
    /* ignored: the builder runs no kernels, so its close does not fail */
    (void)chip_close(c->build.builder);
    c->build.builder = NULL;
    pthread_mutex_unlock(&c->request_lock);
}

int cann_build_start(struct cann *c, const struct chip_request *request,
                     const struct cann_host_code *code, struct pto_error *error)
{
    struct cann_build *b = &c->build;
    bool is_once = request->purpose == CHIP_RUN;
    int status = open_builder(c, request->number, error);

    if (status < 0)
        return status;
    b->kept = NULL;
    if (!is_once && (b->kept = calloc(1, sizeof(*b->kept))) == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory for a graph");
    b->options = *request->options;
    b->options.mode = PTO_MODE_HOST;
    b->options.trace = PTO_TRACE_OFF; /* the record is made on the card, where the tasks run */
    memset(&b->options.diagnostics, 0, sizeof(b->options.diagnostics));
    if (is_once)
        memset(b->options.varying_scalars, 0, sizeof(b->options.varying_scalars));
    b->elsewhere = (struct orch_elsewhere){ .is_once = is_once,
                                            .has_orders = !is_once || request->options->trace ==
                                                                          PTO_TRACE_ARGUMENTS,
                                            .take = cann_build_take,
                                            .read = cann_build_read_element,
                                            .write = write_element,
                                            .context = c };
    b->request = (struct chip_request){ .number = request->number,
                                        .purpose = request->purpose,
                                        .functions = &code->functions,
                                        .entry = request->entry,
                                        .options = &b->options,
                                        .has_rings = request->has_rings,
                                        .elsewhere = &b->elsewhere,
                                        .stall_ns = request->stall_ns,
                                        .launch_deadline_ns = request->launch_deadline_ns };
    status = chip_start(b->builder, &b->request);
    if (status < 0) {
        free(b->kept);
        b->kept = NULL;
        return error_setf(error, status, "%s", pto_strerror(status));
    }
    return PTO_OK;
}

/* ---- places of submits in source files ---- */

/*
 * The sites of a graph's tasks, which are the source lines of their submits. Most tasks repeat one
 * of a few sites, which are found in `known`. A site that is not found is stored again, which is
 * harmless.
 */
struct site_list {
    const struct pto_site *known[KNOWN_SITES];
    uint32_t index[KNOWN_SITES];
    uint32_t count;
    const char *file; /* file name of the source line that was added last */
    uint64_t name_bytes;
    struct pto_site *site; /* array to write the sites to; NULL: only counts them */
    char *names;
    uint64_t names_addr; /* address on the card of the names of source files */
};

static void add_site(struct site_list *l, const struct pto_site *site)
{
    const char *file = site->file != NULL ? site->file : "";
    size_t bytes = strlen(file) + 1;

    if (l->count == 0 || l->file != site->file) {
        if (l->site != NULL)
            memcpy(l->names + l->name_bytes, file, bytes);
        l->name_bytes += bytes;
        l->file = site->file;
    }
    if (l->site != NULL) /* this site is in the file whose name was written last */
        l->site[l->count] =
            (struct pto_site){ (const char *)(uintptr_t)(l->names_addr + l->name_bytes - bytes),
                               site->line };
    l->count++;
}

static uint32_t find_site(struct site_list *l, const struct pto_site *site)
{
    uint32_t at = (uint32_t)((uintptr_t)site / sizeof(*site)) % KNOWN_SITES;

    if (l->known[at] != site) {
        l->known[at] = site;
        l->index[at] = l->count;
        add_site(l, site);
    }
    return l->index[at];
}

static void each_site(const struct image *image, struct site_list *l, uint64_t addr)
{
    uint32_t line = 1;
    struct slot *s;

    while ((s = image_next(image, &line)) != NULL)
        if (s->site != NULL) {
            uint32_t index = find_site(l, s->site);

            if (l->site != NULL)
                s->site = (const struct pto_site *)(uintptr_t)(addr + index * sizeof(*s->site));
        }
}

/* Returns the bytes of the whole graph with its sites, and counts the sites. */
static uint64_t measure_sites(const struct cann_build *b, struct site_list *l)
{
    memset(l, 0, sizeof(*l));
    each_site(&b->built->image, l, 0);
    return b->used + l->count * sizeof(struct pto_site) + l->name_bytes;
}

/* Writes the sites after the rest of the graph, which will be at `addr` on the card. */
static void put_sites(struct cann_build *b, struct site_list *l, uint64_t addr)
{
    uint64_t sites = l->count * sizeof(struct pto_site), end = b->used + sites;

    memset(l, 0, sizeof(*l));
    l->site = (struct pto_site *)(void *)(b->stage + b->used);
    l->names = b->stage + end;
    l->names_addr = addr + end;
    each_site(&b->built->image, l, addr + b->used);
}

/* ---- the finished graph ---- */

/* Finishes the graph, and chooses its memory on the card. False: the card has no room for it. */
static bool place_graph(struct cann *c)
{
    struct cann_build *b = &c->build;
    uint64_t end = c->heap + c->heap_bytes;
    struct site_list list;
    uint64_t bytes = measure_sites(b, &list);
    char *stage = b->stage;

    if (!grow_stage(b, bytes))
        return false;
    if (b->stage != stage) /* the stage has moved when it grew, so the graph is found again there */
        built_graph_move(b->built, b->stage + CARD_GRAPH_HEAD);
    b->addr = c->heap + cann_build_round_up(b->built->image.heap_bytes);
    if (b->kept != NULL ? !take_aligned(c, bytes, &b->kept->memory, &b->addr)
                        : b->addr > end || bytes > end - b->addr)
        return false;
    put_sites(b, &list, b->addr);
    *(struct card_graph *)(void *)b->stage =
        (struct card_graph){ .built = *b->built, .bytes = bytes };
    b->used = bytes;
    return true;
}

bool cann_build_wait(struct cann *c, struct cann_run *r, struct pto_error *error)
{
    struct cann_build *b = &c->build;
    const struct chip_result *result;
    bool is_built;

    chip_wait(b->builder);
    result = chip_report(b->builder, &r->report);
    is_built = result->failure.status >= 0;
    r->result = *result;
    r->result.graph = NULL;
    /* a lost builder does not mean that the card is lost */
    r->result.is_lost = r->result.is_builder_lost = false;
    b->ns = r->report.ns;
    if (is_built && !place_graph(c)) {
        is_built = false;
        (void)error_setf(error, PTO_ENOMEM, "the card has no room for the graph that was built");
    }
    b->built = NULL;
    chip_drop(b->builder, result->graph);
    if (result->is_lost) /* the lost builder is forgotten, so the next build opens a new one */
        cann_build_close(c);
    return is_built;
}
