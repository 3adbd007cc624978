/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/standin/cpu_programs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held while a program is loaded */

static struct cpu_loaded *all; /* programs of all cards, which share one disk */

static uint64_t digest_of(const char *path)
{
    uint64_t digest = 14695981039346656037ull;
    FILE *file = fopen(path, "re");
    int c;

    while (file != NULL && (c = getc(file)) != EOF)
        digest = (digest ^ (uint64_t)c) * 1099511628211ull;
    if (file != NULL)
        fclose(file);
    return digest;
}

/*
 * A loaded program stays unchanged when its file changes: users must not rely on a newer version.
 */
static bool is_current(struct cpu_loaded *l, const char *path)
{
    struct stat now;

    if (stat(path, &now) != 0)
        return true; /* the program is not used any more */
    if (now.st_ino == l->file.st_ino && now.st_mtim.tv_sec == l->file.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == l->file.st_mtim.tv_nsec)
        return true;
    if (now.st_ino == l->file.st_ino) {
        fprintf(stderr, "standin: %s was written to while it is loaded\n", path);
        return false;
    }
    l->file = now;
    if (digest_of(path) == l->digest)
        return true;
    fprintf(stderr, "standin: %s is another program by now, and the old one still runs\n", path);
    return false;
}

/* Loads a program; NULL: it cannot be loaded. The lock is held. */
static void *load(struct cpu_programs *p, const char *disk, const char *name)
{
    struct cpu_loaded *l;
    char path[512];
    void *handle;

    snprintf(path, sizeof(path), "%s/%s", disk, name);
    for (l = p->loaded; l != NULL; l = l->next)
        if (strcmp(l->name, name) == 0)
            return is_current(l, path) ? l->handle : NULL;
    for (l = all; l != NULL; l = l->next_of_all)
        if (strcmp(l->name, name) == 0) {
            fprintf(stderr, "standin: %s is one file for two cards\n", path);
            return NULL;
        }
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
    l->digest = digest_of(path);
    (void)stat(path, &l->file);
    l->next_of_all = all;
    all = l;
    l->next = p->loaded;
    p->loaded = l;
    return handle;
}

struct block {
    const struct cpu_launch *launch;
    uint32_t (*fn)(void *);
    uint32_t result;
    pthread_t thread;
};

static void *block_main(void *arg)
{
    struct block *b = arg;

    b->result = b->launch->call(b->fn, b->launch->args, b->launch->context);
    return NULL;
}

/* The first block runs on the calling thread, the others at the same time on other threads. */
static uint32_t run_blocks(const struct cpu_launch *launch, uint32_t (*fn)(void *))
{
    struct block *block = calloc(launch->blocks, sizeof(*block));
    uint32_t result = 0;

    if (block == NULL)
        abort();
    for (uint32_t i = 0; i < launch->blocks; i++) {
        block[i] = (struct block){ .launch = launch, .fn = fn };
        if (i != 0 && pthread_create(&block[i].thread, NULL, block_main, &block[i]) != 0)
            abort();
    }
    (void)block_main(&block[0]);
    for (uint32_t i = 0; i < launch->blocks; i++) {
        if (i != 0)
            pthread_join(block[i].thread, NULL);
        result = result != 0 ? result : block[i].result;
    }
    free(block);
    return result;
}

uint32_t cpu_programs_run(struct cpu_programs *p, const char *disk, const char *so,
                          const char *function, const struct cpu_launch *launch)
{
    uint32_t (*fn)(void *) = NULL;
    void *handle;

    pthread_mutex_lock(&lock);
    handle = load(p, disk, so);
    pthread_mutex_unlock(&lock);
    if (handle != NULL)
        *(void **)&fn = dlsym(handle, function);
    return fn != NULL ? run_blocks(launch, fn) : 1;
}

/* Accesses the arguments without checks, as the vendor's extend library does. The lock is held. */
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

uint32_t cpu_programs_extend(struct cpu_programs *p, const char *disk,
                             const struct cpu_launch *launch)
{
    uint64_t device_args, words[3];
    bool is_there;

    memcpy(&device_args, (const char *)launch->args + 40, sizeof(device_args));
    memcpy(words, (const char *)(uintptr_t)device_args + 96, sizeof(words));
    pthread_mutex_lock(&lock);
    is_there = p->dispatcher != NULL || load_dispatcher(p, disk, words);
    pthread_mutex_unlock(&lock);
    return is_there ? run_blocks(launch, p->dispatch) : 1;
}
