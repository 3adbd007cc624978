/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes of single elements by the orchestration itself, which wait for the tasks that
 * use them.
 */
#include <string.h>

#include "graph/guards.h"
#include "orch/built_graph.h"
#include "orch/orch.h"

static uint64_t timeout_of(const struct orch *o)
{
    uint64_t set = o->run->options->data_timeout_ns;

    return set != 0 ? set : PTO_DATA_TIMEOUT_DEFAULT_NS;
}

/* Describes the element as a tensor, if the orchestration may access it. */
static int find_element(struct orch *o, const struct pto_tensor *tensor, uint32_t ndims,
                        const uint32_t indices[], struct pto_tensor *element)
{
    struct graph *g = o->graph;
    int status = graph_element(g, tensor, ndims, indices, FAILURE_DATA, element);

    if (status >= 0 && tensor->addr == 0)
        status = graph_refuse(g, FAILURE_DATA, -1, DATA_ADDRESS);
    if (status < 0 || !pto_task_id_is_valid(tensor->owner))
        return status;
    if (g->deps == PTO_DEPS_SAFE && !graph_has_memory(g, ids_find(g, tensor->owner)))
        return graph_refuse_ended(g, tensor->owner, -1);
    if (o->is_held)
        status = graph_refuse(g, FAILURE_DATA, -1, DATA_OWNED);
    return status;
}

/* Waits until no live task uses the element. Writes wait for readers as well. */
static int wait_for_users(struct orch *o, const struct pto_tensor *element,
                          const struct pto_site *site, bool is_write)
{
    struct graph *g = o->graph;
    uint64_t deadline = port_now_ns() + timeout_of(o);
    /*
     * under simpler's rules, writes while the graph is built before it runs do not wait for readers
     */
    bool with_readers = is_write && !(o->is_held && g->deps == PTO_DEPS_SIMPLER);
    uint32_t number = 0, seq = 0;
    int status = PTO_OK;

    while (status >= 0 && (number = graph_find_user(g, element, with_readers, number + 1, &seq))) {
        status = o->is_held ? graph_refuse(g, FAILURE_DATA, -1, DATA_HELD)
                            : port_wait(o->machine, number, seq, deadline);
        if (orch_has_news(o))
            orch_attend(o);
        if (o->status < 0)
            return o->status;
    }
    if (status == PTO_ETIMEOUT) {
        struct failure why = orch_failure(PTO_ETENSOR_WAIT, FAILURE_DATA_LATE, site);

        why.value[0] = seq - 1;
        why.value[1] = timeout_of(o) / 1000000;
        return orch_fail(o, &why);
    }
    return status < 0 ? orch_refuse(o, status, NULL, NULL, site) : PTO_OK;
}

/*
 * Waits until the element may be read or written. *at_out is its address; NULL: it has no memory.
 */
static int reach_element(struct orch *o, const struct pto_tensor *tensor, uint32_t ndims,
                         const uint32_t indices[], const struct pto_site *site, bool is_write,
                         struct pto_tensor *element, void **at_out)
{
    const struct orch_recorder *recorder = &o->run->recorder;
    int status;

    *at_out = NULL;
    if (tensor != NULL && tensor->addr == 0 && o->graph->deps == PTO_DEPS_SIMPLER)
        return PTO_OK;
    status = find_element(o, tensor, ndims, indices, element);
    if (status < 0)
        return orch_refuse(o, status, NULL, NULL, site);
    status = wait_for_users(o, element, site, is_write);
    if (status < 0)
        return status;
    *at_out = pto_tensor_data(element);
    if (recorder->element != NULL)
        recorder->element(recorder->context, &(struct orch_element){ .element = element,
                                                                     .site = site,
                                                                     .index = o->graph->seq - 1,
                                                                     .is_set = is_write });
    return o->status;
}

static int elements_refuse_unmapped(struct orch *o, const struct pto_site *site)
{
    return orch_refuse(o, graph_refuse(o->graph, FAILURE_DATA, -1, DATA_UNMAPPED), NULL, NULL,
                       site);
}

static int fail_unwritten(struct orch *o, const struct pto_tensor *element,
                          const struct pto_site *site)
{
    struct failure why = orch_failure(PTO_EUNWRITTEN, FAILURE_UNWRITTEN, site);

    why.value[1] = pto_dtype_size(element->dtype);
    why.value[3] = UNWRITTEN_ELEMENT;
    return orch_fail(o, &why);
}

/* Reads an element into the low bytes of *bits_out: host and card are both little-endian. */
static bool read_bits(struct orch *o, uint64_t addr, uint32_t bytes, uint64_t *bits_out)
{
    const struct orch_elsewhere *there = o->run->elsewhere;

    if (there != NULL)
        return there->read(there->context, addr, bytes, bits_out);
    if (!port_can_read(addr, bytes))
        return false;
    memcpy(bits_out, (const void *)(uintptr_t)addr, bytes);
    return true;
}

static bool write_bits(struct orch *o, uint64_t addr, uint32_t bytes, uint64_t bits)
{
    const struct orch_elsewhere *there = o->run->elsewhere;

    return there != NULL ? there->write(there->context, addr, bytes, bits)
                         : port_write(addr, bytes, bits);
}

int orch_get_data(struct pto_orch *handle, const struct pto_tensor *tensor, uint32_t ndims,
                  const uint32_t indices[], const struct pto_site *site, uint64_t *bits_out)
{
    struct orch *o = orch_of(handle);
    struct pto_tensor element;
    void *at;
    int status = orch_enter(handle);

    if (status >= 0)
        status = orch_polled(o, 1);
    if (status < 0)
        return status;
    status = reach_element(o, tensor, ndims, indices, site, false, &element, &at);
    *bits_out = 0;
    if (status < 0 || at == NULL)
        return status;
    if (!read_bits(o, (uint64_t)(uintptr_t)at, pto_dtype_size(element.dtype), bits_out))
        return elements_refuse_unmapped(o, site);
    if (o->graph->guard_bytes != 0 && guards_is_element_unwritten(o->graph, &element))
        return fail_unwritten(o, &element, site);
    if (orch_is_noted(o))
        built_graph_note_read(o->run->graph, o, (uint64_t)(uintptr_t)at,
                              pto_dtype_size(element.dtype), *bits_out);
    return PTO_OK;
}

int orch_set_data(struct pto_orch *handle, const struct pto_tensor *tensor, uint32_t ndims,
                  const uint32_t indices[], const struct pto_site *site, uint64_t bits)
{
    struct orch *o = orch_of(handle);
    struct pto_tensor element;
    void *at;
    int status = orch_enter(handle);

    if (status < 0)
        return status;
    status = reach_element(o, tensor, ndims, indices, site, true, &element, &at);
    if (status < 0 || at == NULL)
        return status;
    if (!write_bits(o, (uint64_t)(uintptr_t)at, pto_dtype_size(element.dtype), bits))
        return elements_refuse_unmapped(o, site);
    if (o->graph->guard_bytes != 0)
        guards_note_write(o->graph, &element);
    if (orch_is_noted(o))
        built_graph_note_write(o->run->graph, o, (uint64_t)(uintptr_t)at,
                               pto_dtype_size(element.dtype), bits);
    return PTO_OK;
}
