/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code that a child has loaded: callables of a chip, functions of a SUB worker, and code for the
 * children of a nested worker.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/code_file.h"
#include "base/error.h"
#include "base/object.h"
#include "pto/pto.h"
#include "tree/child_state.h"
#include "tree/tree_nested.h"

static int load_for_chip(struct child *c, struct loaded *l, const struct wire_load *load,
                         struct pto_error *error)
{
    const void *bytes = (const void *)(uintptr_t)load->addr;
    const char *symbol = load->symbol[0] != '\0' ? load->symbol : NULL;
    struct pto_load_options options;
    char path[PATH_MAX];
    int status;

    /* the dynamic loader treats files with equal paths as one object, so each gets a unique path */
    if (load->form == LOAD_OBJECT) {
        if (code_file_create(bytes, load->bytes, "callable", path) < 0)
            return error_setf(error, PTO_ESYSTEM, "its file cannot be created: %s",
                              strerror(errno));
        l->path = strdup(path);
        status = pto_callable_load(path, symbol, &l->callable, error);
    } else {
        pto_load_options_init(&options);
        options.name = load->name;
        options.symbol = symbol;
        status = pto_callable_load_memory(bytes, load->bytes, &options, &l->callable, error);
    }
    return status < 0 ? status : pto_register(c->device, l->callable, error);
}

void child_forget(struct loaded *l)
{
    if (l->callable != NULL)
        (void)pto_callable_destroy(l->callable);
    if (l->path != NULL)
        code_file_remove(l->path);
    free(l->path);
    object_release(l->object);
    if (l->hooks != NULL)
        l->hooks->unload(l->hooks->context, l->function);
    *l = (struct loaded){ 0 };
}

void child_unload(struct child *c, uint32_t index)
{
    if (c->loaded[index].is_below)
        tree_nested_unload(c->worker, index);
    child_forget(&c->loaded[index]);
}

static int load_by_hooks(const struct pto_child_hooks *hooks, struct loaded *l,
                         const struct wire_load *load, struct pto_error *error)
{
    const struct pto_child_code code = { .size = sizeof(code),
                                         .bytes = (const void *)(uintptr_t)load->addr,
                                         .byte_count = load->bytes,
                                         .name = load->name,
                                         .symbol = load->symbol };
    int status = hooks->load(hooks->context, &code, &l->function, error);

    if (status >= 0) {
        l->hooks = hooks;
        return PTO_OK;
    }
    if (error->text[0] == '\0')
        (void)error_setf(error, status, "'%s' cannot be loaded: %s", load->name,
                         pto_strerror(status));
    return status;
}

static int child_load_object(struct child *c, struct loaded *l, const struct wire_load *load,
                             struct pto_error *error)
{
    int status = object_acquire((const void *)(uintptr_t)load->addr, load->bytes, load->name,
                                &l->object, error);
    void *found;

    if (status < 0)
        return status;
    found = object_symbol(l->object, load->symbol);
    if (found == NULL)
        return error_setf(error, PTO_ELOAD, "'%s' exports no function '%s'", load->name,
                          load->symbol);
    if (c->hello.kind == PTO_CHILD_WORKER)
        l->nested_fn = (pto_nested_fn)(uintptr_t)found;
    else
        l->fn = (pto_sub_fn)(uintptr_t)found;
    return PTO_OK;
}

static int load_function(struct child *c, struct loaded *l, const struct wire_load *load,
                         struct pto_error *error)
{
    if (load->form == LOAD_OBJECT)
        return child_load_object(c, l, load, error);
    if (c->hello.kind == PTO_CHILD_SUB && c->hooks != NULL)
        return load_by_hooks(c->hooks, l, load, error);
    return error_setf(error, PTO_ELOAD,
                      "'%s' is not a shared object, and this child's program can load nothing else",
                      load->name);
}

int child_load(struct child *c, const struct record *r, struct pto_error *error)
{
    struct loaded *l = &c->loaded[r->head.value];
    struct wire_load load;
    int status;

    memcpy(&load, r->body, sizeof(load));
    load.symbol[TREE_SYMBOL - 1] = load.name[TREE_NAME - 1] = '\0';
    /* mutation: child-any-address */
    if (load.addr < c->hello.link.addr || load.bytes > c->hello.link.memory_bytes ||
        load.addr - c->hello.link.addr > c->hello.link.memory_bytes - load.bytes)
        return error_setf(error, PTO_EINVAL, "the bytes are not in the shared memory");
    child_unload(c, (uint32_t)r->head.value);
    if (c->hello.kind == PTO_CHILD_CHIP)
        status = load_for_chip(c, l, &load, error);
    else if (load.is_below != 0 && c->worker != NULL)
        status = tree_nested_load(c->worker, (uint32_t)r->head.value, &load, error);
    else
        status = load_function(c, l, &load, error);
    l->is_below = load.is_below != 0 && c->worker != NULL && status >= 0;
    if (status < 0)
        child_forget(l);
    return status;
}
