/* SPDX-License-Identifier: Apache-2.0 */
/* Loads objects, and keeps the table of loaded ones. */
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
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/code_file.h"
#include "base/digest.h"
#include "base/elf.h"
#include "base/error.h"
#include "base/file.h"
#include "base/limit.h"
#include "base/lock.h"
#include "base/os.h"
#include "pto/sim.h"

enum { BUCKETS = 1024, PATH_BYTES = 192, LABEL_MAX = 200 };

struct object {
    struct object *next; /* next object in the same bucket of the hash table */
    struct digest digest;
    size_t size;
    uint32_t users;
    bool is_own;  /* the object is loaded for one holder and not shared */
    void *handle; /* handle from dlopen */
    char *path;   /* path of the object's file; NULL: the object is in memory only */
    bool keeps_signals;
};

typedef void (*register_hooks_fn)(void *subblock_id, void *pipe_shared_state);

static struct {
    pthread_mutex_t lock; /* guards the table and every object */
    struct object *bucket[BUCKETS];
    uint32_t count;
    uint64_t hidden; /* objects loaded from memory so far; makes their paths unique */
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int object_load_object(struct object *object, const void *bytes, const char *label,
                              struct pto_error *error);
static void load_from_file(struct object *object, const void *bytes, const char *label);
static int load_from_memory(struct object *object, const void *bytes, const char *label,
                            struct pto_error *error);
static int explain_load(const char *label, struct pto_error *error);

/*
 * Held around fork, because a child could never take the table's lock if another thread held it at
 * the fork.
 */
static void object_lock_table(void)
{
    pthread_mutex_lock(&table.lock);
}

static void object_unlock_table(void)
{
    pthread_mutex_unlock(&table.lock);
}

static void object_register_fork_handlers(void)
{
    (void)pthread_atfork(object_lock_table, object_unlock_table,
                         /* pthread_atfork fails only if memory is exhausted. */
                         object_unlock_table);
}

void object_guard_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, object_register_fork_handlers);
}

static struct object **object_bucket_of(const struct digest *digest)
{
    return &table.bucket[(digest->byte[0] | (uint32_t)digest->byte[1] << 8) % BUCKETS];
}

/*
 * Finds a shared object by digest and size. Returns the pointer in the list that points to it,
 * which is NULL if there is none.
 */
static struct object **find_object(const struct digest *digest, size_t size)
{
    struct object **link = object_bucket_of(digest);

    assert_held(&table.lock);
    while (*link != NULL &&
           ((*link)->is_own || (*link)->size != size || !digest_is_equal(&(*link)->digest, digest)))
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
            status = error_setf(error, PTO_ENOMEM, "there is no memory to load %s", label);
        else {
            object->digest = digest;
            object->size = size;
            status = object_load_object(object, bytes, label, error);
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

bool object_keeps_signals(const struct object *object)
{
    return object->keeps_signals;
}

static struct {
    struct os_range code;
    bool keeps_signals;
} program; /* properties of the program: written once, by look_at_program, and then only read */

/*
 * Reads the executable that this process was started from, even if its name now belongs to another
 * file. Executables of more than PROGRAM_BYTES_MAX bytes are skipped.
 */
static void look_at_program(void)
{
    enum { PROGRAM_BYTES_MAX = 16 << 20 };
    char *bytes = NULL;
    size_t size;

    program.code = os_find_code(getauxval(AT_ENTRY));
    if (file_read("/proc/self/exe", PROGRAM_BYTES_MAX, &bytes, &size) >= 0)
        program.keeps_signals = elf_program_keeps_signals(bytes, size);
    free(bytes);
}

bool object_program_keeps_signals(const void *function)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, look_at_program);
    return program.keeps_signals && os_is_in(program.code, (uintptr_t)function);
}

bool object_is_own(const struct object *object)
{
    return object->is_own;
}

void object_release(struct object *object)
{
    if (object == NULL)
        return;
    pthread_mutex_lock(&table.lock);
    assert(object->users > 0);
    if (--object->users == 0) {
        struct object **link = object_bucket_of(&object->digest);

        while (*link != object)
            link = &(*link)->next;
        *link = object->next;
        table.count--;
        dlclose(object->handle);
        if (object->path != NULL)
            code_file_remove(object->path);
        free(object->path);
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

/* If a thread holds the lock when the process ends, the next process removes the files. */
__attribute__((destructor)) static void object_at_exit(void)
{
    object_leave();
}

void object_leave(void)
{
    if (pthread_mutex_trylock(&table.lock) != 0)
        return;
    code_file_leave();
    pthread_mutex_unlock(&table.lock);
}

/* ---- loading ---- */

static int object_load_object(struct object *object, const void *bytes, const char *label,
                              struct pto_error *error)
{
    struct elf_changes changes;
    struct pto_error own;
    register_hooks_fn register_hooks;
    void *copy = malloc(object->size);
    int status;

    assert_held(&table.lock); /* the lock serialises loading */
    if (copy == NULL)
        return error_setf(error, PTO_ENOMEM, "there is no memory to load %s", label);
    memcpy(copy, bytes, object->size);
    pto_error_init(&own);
    status = elf_isolate(copy, object->size, &changes, &own);
    if (status < 0) {
        status = error_setf(error, status, "%s cannot be loaded: %.300s", label, own.text);
    } else {
        object->keeps_signals = changes.keeps_signals;
        load_from_file(object, copy, label);
        if (object->handle == NULL)
            status = load_from_memory(object, copy, label, error);
    }
    free(copy);
    if (status < 0)
        return status;
    /* mutation: one-for-both */
    object->is_own = dlsym(object->handle, OBJECT_OWN_SYMBOL) != NULL ||
                     dlsym(object->handle, OBJECT_SOURCE_SYMBOL) != NULL;
    register_hooks = (register_hooks_fn)(uintptr_t)dlsym(object->handle, "pto_sim_register_hooks");
    if (register_hooks != NULL)
        register_hooks((void *)(uintptr_t)pto_sim_get_subblock_id,
                       (void *)(uintptr_t)pto_sim_get_pipe_shared_state);
    return PTO_OK;
}

/*
 * Loads the object from a file, which debuggers can find. If there is no folder for files, or no
 * memory, `handle` stays NULL.
 */
static void load_from_file(struct object *object, const void *bytes, const char *label)
{
    bool is_simpler = elf_exports(bytes, object->size, OBJECT_OWN_SYMBOL) ||
                      elf_exports(bytes, object->size, OBJECT_SOURCE_SYMBOL);
    enum code_kind kind = is_simpler ? CODE_SIMPLER : CODE_PLAIN;
    char path[PATH_MAX];

    if (code_file_create_in(kind, bytes, object->size, label, path) < 0)
        return;
    object->path = strdup(path);
    if (object->path != NULL)
        object->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object->handle == NULL) {
        code_file_remove(path);
        free(object->path);
        object->path = NULL;
    }
}

static int refuse_copy(const char *label, int number, struct pto_error *error)
{
    struct rlimit limit = { 0, 0 };
    char why[LIMIT_TEXT];

    if (number == EMFILE || number == ENFILE) {
        (void)getrlimit(RLIMIT_NOFILE, &limit);
        return error_setf(error, PTO_ELOAD,
                          "%s cannot be loaded: every descriptor is in use, and the system allows "
                          "%llu (ulimit -n); raise it, or close some",
                          label, (unsigned long long)limit.rlim_cur);
    }
    return error_setf(error, number == ENOMEM || number == ENOSPC ? PTO_ENOMEM : PTO_ELOAD,
                      "%s cannot be loaded: the system has no memory for it (memfd): %s", label,
                      limit_explain(number, why));
}

/*
 * Writes a path of the descriptor `file` that was never used in this process, because the loader
 * takes equal paths for the same object, and descriptor numbers are reused. Each bit of the counter
 * becomes a "/" or a "/.". The path has the process id, so that a debugger does not open its own
 * descriptor.
 */
static void spell_path(char path[PATH_BYTES], int file)
{
    char *at = path + snprintf(path, PATH_BYTES, "/proc/%ld/fd", (long)getpid());

    assert_held(&table.lock); /* no atomic counter: the caller holds the lock */
    for (uint64_t bits = ++table.hidden; bits != 0; bits >>= 1) /* mutation: same-path */
        at = stpcpy(at, (bits & 1) != 0 ? "/." : "/");
    snprintf(at, (size_t)(path + PATH_BYTES - at), "/%d", file);
}

/* Loads the object from a sealed unnamed file, which cannot be changed. */
static int load_from_memory(struct object *object, const void *bytes, const char *label,
                            struct pto_error *error)
{
    char path[PATH_BYTES], name[LABEL_MAX];
    int file, status = PTO_OK;

    snprintf(name, sizeof(name), "pto %s", label);
    file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0 || !limit_allows_file(object->size) || !file_put(file, bytes, object->size) ||
        fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        status = refuse_copy(label, errno, error);
    } else {
        spell_path(path, file);
        object->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (object->handle == NULL)
            status = explain_load(label, error);
    }
    if (file >= 0)
        close(file); /* the mappings keep the memory alive, and the path is never used again */
    return status;
}

/* ---- explaining why dlopen failed ---- */

static uint64_t object_read_number(const char *path)
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
    uint64_t most = object_read_number("/proc/sys/vm/max_map_count");
    uint64_t mappings = count_mappings();

    if (text == NULL)
        text = "the system gives no reason";
    if (most != 0 && mappings + MAPPINGS_EACH > most)
        return error_setf(error, PTO_ELOAD,
                          "%s cannot be loaded: the process has %llu mappings, and the system "
                          "allows %llu (vm.max_map_count), about 5 of them for an object; "
                          "%u objects are loaded: unregister some, or raise it",
                          label, (unsigned long long)mappings, (unsigned long long)most,
                          table.count);
    words = strncmp(text, "/proc/", 6) == 0 ? strstr(text, ": ") : NULL;
    return error_setf(error, PTO_ELOAD, "%s cannot be loaded: %s", label,
                      words != NULL ? words + 2 : text);
}
