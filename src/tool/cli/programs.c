/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/cli/programs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "tool/scene/scene_find.h"

enum { PARTS_MAX = 64, OWN_DIRS = 3, OWN_FLAGS = 6 };

/*
 * Compiler flags of the control processor's programs. The Makefile defines DISPATCHER_PARTS and
 * SCHEDULER_PARTS, the lists of their sources: paths below src/, separated by spaces.
 */
static const char *const own_flags[OWN_FLAGS] = { "-O2",
                                                  "-DPTO_CORES_APART",
                                                  "-fno-stack-protector",
                                                  "-U_FORTIFY_SOURCE",
                                                  "-fno-tree-slp-vectorize",
                                                  "-fno-ipa-sra" };

struct parts {
    char root[PATH_MAX]; /* folder of the sources */
    char text[8192];     /* paths of the sources */
    size_t used;
    struct pto_source source[PARTS_MAX];
    uint32_t count;
    const char *dir[CLI_TEXTS_MAX + OWN_DIRS];
    uint32_t dir_count;
    const char *flag[CLI_TEXTS_MAX + OWN_FLAGS + 1];
    uint32_t flag_count;
};

/* Finds the sources in the build tree of the command, or where they are installed. */
static bool find_root(char root[PATH_MAX])
{
    static const char *const places[] = { "../src", "share/pto/src" };
    char own[PATH_MAX], path[2 * PATH_MAX];

    if (!scene_find_root(own))
        return false;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", own, places[i]);
        if (realpath(path, root) == NULL)
            continue;
        snprintf(path, sizeof(path), "%s/cann/device/executor.c", root);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

static char *programs_keep(struct parts *p, const char *inner)
{
    char *at = p->text + p->used;

    p->used += 1 + (size_t)snprintf(at, sizeof(p->text) - p->used, "%s/%s", p->root, inner);
    return p->used <= sizeof(p->text) ? at : NULL;
}

static void programs_add_part(struct parts *p, const char *inner, enum pto_core_type core)
{
    if (p->count == PARTS_MAX)
        return;
    p->source[p->count++] = (struct pto_source){ .path = programs_keep(p, inner),
                                                 .kind = PTO_SOURCE_PART,
                                                 .core = core,
                                                 .include_dirs = p->dir,
                                                 .include_dir_count = p->dir_count,
                                                 .flags = p->flag,
                                                 .flag_count = p->flag_count };
}

static void begin(struct parts *p, const char *port, const struct cli_texts *dirs,
                  const struct cli_texts *flags, uint32_t own_count)
{
    p->used = 0;
    p->count = p->dir_count = p->flag_count = 0;
    for (uint32_t i = 0; i < dirs->count; i++)
        p->dir[p->dir_count++] = dirs->text[i];
    p->dir[p->dir_count++] = programs_keep(p, port);
    p->dir[p->dir_count++] = p->root;
    for (uint32_t i = 0; i < own_count; i++)
        p->flag[p->flag_count++] = own_flags[i];
    for (uint32_t i = 0; i < flags->count; i++)
        p->flag[p->flag_count++] = flags->text[i];
}

static void add_list(struct parts *p, const char *list)
{
    while (*list != '\0') {
        size_t length = strcspn(list, " ");
        char inner[256];

        snprintf(inner, sizeof(inner), "%.*s", (int)length, list);
        if (length != 0)
            programs_add_part(p, inner, PTO_CORE_TYPES);
        list += length + (list[length] == ' ');
    }
}

int cli_build_programs(const struct pto_build_params *params, const struct cli_texts *dirs,
                       const struct cli_texts *flags,
                       int (*write)(void *context, const char *name, const void *bytes,
                                    size_t size),
                       void *context, struct pto_error *error)
{
    static const char *const lists[] = { DISPATCHER_PARTS, SCHEDULER_PARTS };
    static const char *const names[] = { "libpto_dispatcher.so", "libpto_scheduler.so" };
    const struct pto_platform *platform = pto_platform_find(params->platform);
    struct pto_build_params own = *params;
    struct parts *p = calloc(1, sizeof(*p));
    char executor[64];
    int status = PTO_OK;

    if (p == NULL)
        return PTO_ENOMEM;
    if (!find_root(p->root)) {
        free(p);
        return error_setf(error, PTO_ENOSUP,
                          "the sources of the programs are neither in ../../src nor in "
                          "../share/pto/src, relative to the command");
    }
    own.sources = p->source;
    snprintf(executor, sizeof(executor), "executor-%s.o",
             platform != NULL ? platform->generation : "");
    for (uint32_t i = 0; i < 3 && status == PTO_OK; i++) {
        void *bytes = NULL;
        size_t size;

        begin(p, i < 2 ? "cann/device/aarch64" : "cann/device/cce", dirs, flags,
              i < 2 ? OWN_FLAGS : 0);
        if (i < 2) {
            add_list(p, lists[i]);
        } else {
            programs_add_part(p, "cann/device/executor.c", PTO_CORE_AIC);
            programs_add_part(p, "cann/device/executor.c", PTO_CORE_AIV);
        }
        own.source_count = p->count;
        status = pto_build_program(&own, &bytes, &size, error);
        if (status == PTO_OK)
            status = write(context, i < 2 ? names[i] : executor, bytes, size);
        free(bytes);
    }
    free(p);
    return status;
}
