/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/standin/cpu_programs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* while something is loaded */

/* NULL: it cannot be loaded. Under the lock. */
static void *load(struct cpu_programs *p, const char *disk, const char *name)
{
    struct cpu_loaded *l;
    char path[512];
    void *handle;

    for (l = p->loaded; l != NULL; l = l->next)
        if (strcmp(l->name, name) == 0)
            return l->handle; /* whatever the file has become since then */
    snprintf(path, sizeof(path), "%s/%s", disk, name);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fprintf(stderr, "standin: %s\n", dlerror());
        return NULL;
    }
    l = calloc(1, sizeof(*l));
    if (l == NULL)
        abort();
    snprintf(l->name, sizeof(l->name), "%s", name);
    l->handle = handle;
    l->next = p->loaded;
    p->loaded = l;
    return handle;
}

uint32_t cpu_programs_run(struct cpu_programs *p, const char *disk, const char *so,
                          const char *function, void *args)
{
    uint32_t (*fn)(void *) = NULL;
    void *handle;

    pthread_mutex_lock(&lock);
    handle = load(p, disk, so);
    pthread_mutex_unlock(&lock);
    if (handle != NULL)
        *(void **)&fn = dlsym(handle, function);
    return fn != NULL ? fn(args) : 1;
}

/* Without any care, as the vendor's extend library does it. Under the lock. */
static bool load_dispatcher(struct cpu_programs *p, const char *disk, const uint64_t words[3])
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof(path), "%s/libpypto_server%llu.so", disk, (unsigned long long)words[2]);
    file = fopen(path, "we");
    if (file == NULL || fwrite((const void *)(uintptr_t)words[0], 1, words[1], file) != words[1])
        return false;
    fclose(file);
    p->dispatcher = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (p->dispatcher == NULL)
        return false;
    *(void **)&p->dispatch = dlsym(p->dispatcher, "DynTileFwkBackendKernelServerInit");
    if (p->dispatch == NULL || dlsym(p->dispatcher, "DynTileFwkBackendKernelServer") == NULL ||
        dlsym(p->dispatcher, "StaticTileFwkBackendKernelServer") == NULL) {
        dlclose(p->dispatcher);
        p->dispatcher = NULL;
    }
    return p->dispatcher != NULL;
}

uint32_t cpu_programs_extend(struct cpu_programs *p, const char *disk, void *args)
{
    uint64_t device_args, words[3];
    bool is_there;

    memcpy(&device_args, (char *)args + 40, sizeof(device_args));
    memcpy(words, (const char *)(uintptr_t)device_args + 96, sizeof(words));
    pthread_mutex_lock(&lock);
    is_there = p->dispatcher != NULL || load_dispatcher(p, disk, words);
    pthread_mutex_unlock(&lock);
    return is_there ? p->dispatch(args) : 1;
}
