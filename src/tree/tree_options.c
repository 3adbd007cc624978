/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How callables run on the chips of a worker. Options that an orchestration sets are stored once
 * for each run, in the shared memory; the record of a task has their offset.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sized.h"
#include "pto/run.h"
#include "tree/tree.h"
#include "tree/tree_run.h"

/* Options that one or more tasks of a run have. */
struct tree_options {
    struct tree_options *next;
    struct run_options_message *message;
};

/*
 * Returns the name of an option that is set although tasks of level 3 do not support it; NULL:
 * there is none.
 */
static const char *find_refused(const struct pto_run_options *options)
{
    struct pto_run_options plain;

    pto_run_options_init(&plain);
#define X(field, kind, name, level)                                         \
    if (RUN_OPTION_##level == RUN_OPTION_RUNS &&                            \
        memcmp(&options->field, &plain.field, sizeof(options->field)) != 0) \
        return #field;
    PTO_RUN_OPTION_MAP(X)
#undef X
    return NULL;
}

/* Makes the path of a folder absolute, because the working directories of children may differ. */
static int write_folder(const char *folder, char out[PATH_MAX])
{
    char here[PATH_MAX] = "";
    int length;

    if (folder == NULL || folder[0] == '\0')
        return PTO_OK; /* no error here: the run reports that it needs a folder */
    if (folder[0] != '/' && getcwd(here, sizeof(here)) == NULL)
        return PTO_ESYSTEM;
    length = snprintf(out, PATH_MAX, "%s%s%s", here, here[0] != '\0' ? "/" : "", folder);
    return length < PATH_MAX ? PTO_OK : PTO_EINVAL;
}

static int options_pack(const struct pto_run_options *options, struct run_options_message *message,
                        struct pto_error *error)
{
    const char *refused = find_refused(options);
    int status;

    if (refused != NULL)
        return error_setf(error, PTO_ENOSUP,
                          "the option %s is not supported for tasks of level 3; "
                          "docs/user/workers.md has the alternatives",
                          refused);
    memset(message, 0, sizeof(*message));
    chip_options_copy(options, &message->options); /* mutation: tree-options-stay */
    status = write_folder(options->diagnostics.folder, message->folder);
    return status < 0 ? error_setf(error, status,
                                   "the folder of the diagnostics is too long, or the "
                                   "current one cannot be read")
                      : PTO_OK;
}

/*
 * Returns the offset of the options in units of CHANNEL_UNIT, for the record of a task; 0: it does
 * not fit there.
 */
static uint32_t unit_of(const struct tree *t, const struct run_options_message *message)
{
    const char *base = t->outer.map != NULL ? t->outer.map : t->base;
    uint64_t offset = (uint64_t)((const char *)message - base);

    return offset % CHANNEL_UNIT == 0 && offset / CHANNEL_UNIT <= UINT32_MAX
               ? (uint32_t)(offset / CHANNEL_UNIT)
               : 0;
}

/* Finds equal options among those of the run, or adds the given ones. */
static int tree_options_keep(struct tree_run *run, const struct run_options_message *message,
                             struct pto_error *error)
{
    struct tree *t = run->tree;
    struct tree_options *o;
    void *memory = NULL;

    for (o = run->options; o != NULL; o = o->next)
        if (memcmp(o->message, message, sizeof(*message)) == 0) {
            run->task_options = unit_of(t, o->message);
            return PTO_OK;
        }
    o = malloc(sizeof(*o));
    if (o == NULL || tree_alloc(t, -1, sizeof(*message), &memory) < 0 || unit_of(t, memory) == 0) {
        if (memory != NULL)
            (void)tree_free(t, (uint64_t)(uintptr_t)memory, NULL);
        free(o);
        return error_setf(error, PTO_ENOMEM, "the worker has no memory for the options of a task");
    }
    *o = (struct tree_options){ run->options, memory };
    memcpy(o->message, message, sizeof(*message));
    run->options = o;
    run->task_options = unit_of(t, o->message);
    return PTO_OK;
}

int pto_level_set_run_options(struct pto_level *level, const struct pto_run_options *given)
{
    struct tree_run *run = tree_level_enter(level);
    struct pto_run_options options;
    struct run_options_message message, plain;
    struct pto_error error;
    int status = PTO_OK;

    if (run == NULL)
        return PTO_EINVAL;
    pto_error_init(&error);
    pto_run_options_init(&options);
    (void)options_pack(&options, &plain, &error);
    if (given != NULL && sized_read(&options, sizeof(options), given) < 0)
        status = error_setf(&error, PTO_EINVAL,
                            "the options of a task are not initialised: pto_run_options_init");
    if (status >= 0)
        status = options_pack(&options, &message, &error);
    if (status >= 0 && memcmp(&message, &plain, sizeof(message)) == 0)
        run->task_options = 0;
    else if (status >= 0)
        status = tree_options_keep(run, &message, &error);
    return tree_level_leave(run, status < 0 ? tree_refuse(run, &error, NULL) : PTO_OK);
}

void tree_options_free(struct tree_run *run)
{
    while (run->options != NULL) {
        struct tree_options *o = run->options;

        run->options = o->next;
        (void)tree_free(run->tree, (uint64_t)(uintptr_t)o->message, NULL);
        free(o);
    }
}
