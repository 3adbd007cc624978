/* SPDX-License-Identifier: Apache-2.0 */
/* The table of loaded objects. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "base/object.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/elf.h"
#include "base/error.h"
#include "pto/sim.h"

enum { BUCKETS = 1024, PATH_BYTES = 192, LABEL_MAX = 200 };

struct object {
    struct object *next; /* in its bucket */
    struct digest digest;
    size_t size;
    uint32_t users;
    void *handle; /* dlopen's */
};

typedef void (*register_hooks_fn)(void *subblock_id, void *pipe_shared_state);

static struct {
    pthread_mutex_t lock; /* everything */
    struct object *bucket[BUCKETS];
    uint32_t count;
    uint64_t loads; /* ever: no two have the same path */
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int load_object(struct object *object, const void *bytes, const char *label,
                       struct pto_error *error);
static int write_copy(const void *bytes, size_t size, const char *label, int *file_out,
                      struct pto_error *error);
static void spell_path(char path[PATH_BYTES], int file);
static int explain_load(const char *label, struct pto_error *error);

/* A child must not inherit the lock from a thread that it does not have. */
static void lock_table(void)
{
    pthread_mutex_lock(&table.lock);
}

static void unlock_table(void)
{
    pthread_mutex_unlock(&table.lock);
}

static void guard_forks(void)
{
    (void)pthread_atfork(lock_table, unlock_table,
                         unlock_table); /* fails for lack of memory only */
}

void object_guard_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, guard_forks);
}

static struct object **find_object(const struct digest *digest, size_t size)
{
    struct object **link =
        &table.bucket[(digest->byte[0] | (uint32_t)digest->byte[1] << 8) % BUCKETS];

    while (*link != NULL && ((*link)->size != size || !digest_is_equal(&(*link)->digest, digest)))
        link = &(*link)->next;
    return link;
}

int object_acquire(const void *bytes, size_t size, const char *label, struct object **object_out,
                   struct pto_error *error)
{
    struct digest digest;
    struct object **link;
    int status = PTO_OK;

    digest_of(bytes, size, &digest);
    object_guard_forks();
    pthread_mutex_lock(&table.lock);
    link = find_object(&digest, size);
    if (*link == NULL) {
        struct object *object = calloc(1, sizeof(*object));

        if (object == NULL)
            status = error_tell(error, PTO_ENOMEM, "there is no memory to load %s", label);
        else {
            object->digest = digest;
            object->size = size;
            status = load_object(object, bytes, label, error);
        }
        if (status < 0)
            free(object);
        else {
            table.count++;
            *link = object;
        }
    }
    if (status >= 0) {
        (*link)->users++;
        *object_out = *link;
    }
    pthread_mutex_unlock(&table.lock);
    return status;
}

void *object_symbol(const struct object *object, const char *name)
{
    return dlsym(object->handle, name);
}

void object_release(struct object *object)
{
    if (object == NULL)
        return;
    pthread_mutex_lock(&table.lock);
    if (--object->users == 0) {
        *find_object(&object->digest, object->size) = object->next;
        table.count--;
        dlclose(object->handle);
        free(object);
    }
    pthread_mutex_unlock(&table.lock);
}

uint32_t object_count(void)
{
    uint32_t count;

    pthread_mutex_lock(&table.lock);
    count = table.count;
    pthread_mutex_unlock(&table.lock);
    return count;
}

/* ---- loading; under the lock ---- */

static int load_object(struct object *object, const void *bytes, const char *label,
                       struct pto_error *error)
{
    char path[PATH_BYTES];
    register_hooks_fn register_hooks;
    int file = -1;
    int status = write_copy(bytes, object->size, label, &file, error);

    if (status < 0)
        return status;
    spell_path(path, file);
    object->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    close(file); /* the mappings keep the memory, and the path is never spelled like that again */
    if (object->handle == NULL)
        return explain_load(label, error);
    register_hooks = (register_hooks_fn)(uintptr_t)dlsym(object->handle, "pto_sim_register_hooks");
    if (register_hooks != NULL)
        register_hooks((void *)(uintptr_t)pto_sim_get_subblock_id,
                       (void *)(uintptr_t)pto_sim_get_pipe_shared_state);
    return PTO_OK;
}

static int refuse_copy(const char *label, int number, struct pto_error *error)
{
    struct rlimit limit = { 0, 0 };

    if (number == EMFILE || number == ENFILE) {
        (void)getrlimit(RLIMIT_NOFILE, &limit);
        return error_tell(error, PTO_ELOAD,
                          "%s cannot be loaded: every descriptor is in use, and the system allows "
                          "%llu (ulimit -n); raise it, or close some",
                          label, (unsigned long long)limit.rlim_cur);
    }
    return error_tell(error, number == ENOMEM || number == ENOSPC ? PTO_ENOMEM : PTO_ELOAD,
                      "%s cannot be loaded: the system gives no memory for it (memfd): %s", label,
                      strerror(number));
}

/* The object as it is to be loaded, in a file without a name that nobody can change. */
static int write_copy(const void *bytes, size_t size, const char *label, int *file_out,
                      struct pto_error *error)
{
    struct pto_error own;
    char name[LABEL_MAX];
    void *copy = malloc(size);
    int file = -1;
    int status;

    if (copy == NULL)
        return error_tell(error, PTO_ENOMEM, "there is no memory to load %s", label);
    memcpy(copy, bytes, size);
    pto_error_init(&own);
    status = elf_isolate(copy, size, NULL, &own);
    if (status < 0) {
        free(copy);
        return error_tell(error, status, "%s cannot be loaded: %.300s", label, own.text);
    }
    snprintf(name, sizeof(name), "pto %s", label);
    file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0 || !file_put(file, copy, size) ||
        fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        status = refuse_copy(label, errno, error);
    free(copy);
    if (status < 0 && file >= 0)
        close(file);
    *file_out = file;
    return status;
}

/*
 * A path to the file that has never been used in this process: the loader takes
 * objects whose paths are spelled alike for one, and descriptors have few
 * numbers. Each bit of the count of loads is a "/" or a "/.".
 */
static void spell_path(char path[PATH_BYTES], int file)
{
    char *at = stpcpy(path, "/proc/self/fd");

    for (uint64_t bits = ++table.loads; bits != 0; bits >>= 1)
        at = stpcpy(at, (bits & 1) != 0 ? "/." : "/");
    snprintf(at, (size_t)(path + PATH_BYTES - at), "/%d", file);
}

/* ---- why not ---- */

static uint64_t read_number(const char *path)
{
    FILE *file = fopen(path, "r");
    unsigned long long number = 0;

    if (file == NULL)
        return 0;
    if (fscanf(file, "%llu", &number) != 1)
        number = 0;
    fclose(file);
    return number;
}

static uint64_t count_mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    uint64_t count = 0;
    int c;

    if (file == NULL)
        return 0;
    while ((c = getc(file)) != EOF)
        count += c == '\n';
    fclose(file);
    return count;
}

static int explain_load(const char *label, struct pto_error *error)
{
    enum { MAPPINGS_EACH = 8 };
    const char *text = dlerror();
    const char *words;
    uint64_t most = read_number("/proc/sys/vm/max_map_count");
    uint64_t mappings = count_mappings();

    if (text == NULL)
        text = "for no reason that the system gives";
    if (most != 0 && mappings + MAPPINGS_EACH > most)
        return error_tell(error, PTO_ELOAD,
                          "%s cannot be loaded: the process has %llu mappings, and the system "
                          "allows %llu (vm.max_map_count), about 5 of them for an object; "
                          "%u objects are loaded: unregister some, or raise it",
                          label, (unsigned long long)mappings, (unsigned long long)most,
                          table.count);
    words = strncmp(text, "/proc/self/fd", 13) == 0 ? strstr(text, ": ") : NULL;
    return error_tell(error, PTO_ELOAD, "%s cannot be loaded: %s", label,
                      words != NULL ? words + 2 : text);
}
