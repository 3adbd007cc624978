/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "base/lines.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

#include "base/os.h"
#include "base/program.h"

enum { PLACES_MAX = 16, OFFSET_BYTES = 24, ANSWER_BYTES = 8192 };
#define PATIENCE_NS 5000000000ull

/* A position in an object, in the form in which pto-lines takes it on its command line. */
struct place {
    const char *path;
    const char *symbol; /* exported symbol that contains the address; NULL: none */
    char offset[OFFSET_BYTES];
};

extern char **environ;

static bool lines_place_of(uintptr_t pc, struct place *place, const void **module_out)
{
    /*
     * Path of the running program, resolved before the exec of pto-lines, where it would name
     * pto-lines.
     */
    static char program[] = "/proc/self/exe";
    struct link_map *map = NULL;
    Dl_info info;

    if (dladdr1((void *)pc, &info, (void **)&map, RTLD_DL_LINKMAP) == 0 || map == NULL)
        return false;
    place->path = map->l_name[0] != '\0' ? map->l_name : program;
    place->symbol = info.dli_sname;
    snprintf(place->offset, sizeof(place->offset), "%llx", (unsigned long long)(pc - map->l_addr));
    *module_out = info.dli_fbase;
    return true;
}

/*
 * Finds the objects that contain the addresses, and the offsets in them. The list ends with the
 * function `entry`, or before the first frame of this library if `entry` is not part of it.
 */
static uint32_t lines_find_places(const uintptr_t *pc, uint32_t count, const void *entry,
                                  struct place place[PLACES_MAX])
{
    const void *own = NULL, *first = NULL, *module = NULL;
    struct place here;
    uint32_t used = 0;

    (void)lines_place_of((uintptr_t)lines_find, &here, &own);
    (void)lines_place_of((uintptr_t)entry, &here, &first);
    for (uint32_t i = 0; i < count && used < PLACES_MAX; i++) {
        /* A return address minus one is inside of the call instruction. */
        uintptr_t at = i != 0 ? pc[i] - 1 : pc[i];

        if (!lines_place_of(at, &place[used], &module))
            /* skip an address that is in no object, which a jump to a wrong address leaves */
            continue;
        if (module == own && first != own)
            break;
        used++;
        if (_Unwind_FindEnclosingFunction((void *)at) == entry)
            break;
    }
    return used;
}

/* ---- running pto-lines ---- */

/*
 * Starts the program with posix_spawn, which does not allocate: a kernel that was made to leave its
 * code may hold the lock of the allocator forever.
 */
static pid_t start_program(char *const *words, int output)
{
    sigset_t all, before;
    pid_t child;

    sigfillset(&all);
    /* posix_spawn's child shares this memory with our signal handlers, so signals are blocked */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    child = vfork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        sigset_t none;

        sigemptyset(&none);
        if (null >= 0 && dup2(null, 0) >= 0 && dup2(output, 1) >= 0 && dup2(null, 2) >= 0 &&
            sigprocmask(SIG_SETMASK, &none, NULL) == 0)
            execve(words[0], words, environ);
        _exit(EXIT_FAILURE);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return child;
}

/* Reads the whole answer of pto-lines; false if that takes too long. */
static bool read_answer(int from, char answer[ANSWER_BYTES])
{
    uint64_t deadline = os_now_ns() + PATIENCE_NS;
    size_t used = 0;

    while (used < ANSWER_BYTES - 1) {
        struct pollfd on = { .fd = from, .events = POLLIN };
        uint64_t now = os_now_ns();
        ssize_t got;

        if (now >= deadline || poll(&on, 1, (int)((deadline - now) / 1000000) + 1) <= 0)
            return false;
        got = read(from, answer + used, ANSWER_BYTES - 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    answer[used] = '\0';
    return true;
}

static bool lines_ask(const struct place *place, uint32_t count, char answer[ANSWER_BYTES])
{
    char program[PATH_MAX], self[PATH_MAX];
    char *words[2 * PLACES_MAX + 2];
    bool is_reported;
    int ends[2];
    pid_t child;

    if (!program_find("pto-lines", program) || realpath("/proc/self/exe", self) == NULL ||
        pipe2(ends, O_CLOEXEC) != 0)
        return false;
    words[0] = program;
    for (uint32_t i = 0; i < count; i++) {
        bool is_self = strcmp(place[i].path, "/proc/self/exe") == 0;

        words[1 + 2 * i] = is_self ? self : (char *)(uintptr_t)place[i].path;
        words[2 + 2 * i] = (char *)(uintptr_t)place[i].offset;
    }
    words[1 + 2 * count] = NULL;
    child = start_program(words, ends[1]);
    close(ends[1]);
    is_reported = child > 0 && read_answer(ends[0], answer);
    close(ends[0]);
    if (child > 0) {
        /* the whole answer was read, so pto-lines can be killed */
        (void)kill(child, SIGKILL);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    return is_reported;
}

/* ---- parsing the answer of pto-lines ---- */

/* Copies a path. If it is too long, copies its end, because the file name is there. */
static void copy_end(char *to, size_t size, const char *from, size_t length)
{
    size_t skip = length < size ? 0 : length - (size - 1);

    memcpy(to, from + skip, length - skip);
    to[length - skip] = '\0';
}

/* Parses FUNCTION, FILE, LINE, separated by tabs. */
static bool parse_line(const char *text, struct source_line *line)
{
    size_t function = strcspn(text, "\t\n");
    const char *file = text + function + 1;
    size_t length;

    if (text[function] != '\t')
        return false;
    length = strcspn(file, "\t\n");
    if (file[length] != '\t')
        return false;
    snprintf(line->function, sizeof(line->function), "%.*s", (int)function, text);
    copy_end(line->file, sizeof(line->file), file, length);
    line->line = (int32_t)strtol(file + length + 1, NULL, 10);
    return true;
}

/*
 * Parses the lines for all addresses; an empty line ends the answer for one. An address without
 * lines gets the exported symbol that contains it.
 */
static uint32_t parse_answer(const char *answer, const struct place *place, uint32_t count,
                             struct source_line line[LINES_MAX])
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < count && used < LINES_MAX; i++) {
        bool has_line = false;

        while (*answer != '\0' && *answer != '\n') {
            if (used < LINES_MAX && parse_line(answer, &line[used])) {
                used++;
                has_line = true;
            }
            answer += strcspn(answer, "\n");
            answer += *answer == '\n';
        }
        answer += *answer == '\n';
        if (has_line)
            continue;
        memset(&line[used], 0, sizeof(line[used]));
        snprintf(line[used].function, sizeof(line[used].function), "%s",
                 place[i].symbol != NULL ? place[i].symbol : "");
        copy_end(line[used].file, sizeof(line[used].file), place[i].path, strlen(place[i].path));
        used++;
    }
    return used;
}

/*
 * Returns a hash (FNV-1a) of the objects and offsets of a stack. The paths identify the code,
 * because a process never loads different code from the same path.
 */
static uint64_t key_of(const struct place *place, uint32_t count)
{
    uint64_t key = 14695981039346656037ull;

    for (uint32_t i = 0; i < count; i++) {
        for (const char *at = place[i].path; *at != '\0'; at++)
            key = (key ^ (uint8_t)*at) * 1099511628211ull;
        for (const char *at = place[i].offset; *at != '\0'; at++)
            key = (key ^ (uint8_t)*at) * 1099511628211ull;
    }
    return key | 1; /* make the key odd, because 0 is the key of an empty struct source_lines */
}

void lines_find(const uintptr_t *pc, uint32_t count, const void *entry, struct source_lines *lines)
{
    struct place place[PLACES_MAX];
    char answer[ANSWER_BYTES];
    uint32_t places = lines_find_places(pc, count, entry, place);
    uint64_t key = key_of(place, places);

    if (lines->key == key)
        return;
    if (places == 0 || !lines_ask(place, places, answer))
        answer[0] = '\0';
    lines->count = parse_answer(answer, place, places, lines->line);
    lines->key = key;
}

/* ---- text ---- */

static const char *lines_last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static bool lines_is_same(const struct source_line *a, const struct source_line *b)
{
    return a->line == b->line && strcmp(a->function, b->function) == 0 &&
           strcmp(a->file, b->file) == 0;
}

void lines_describe(const struct source_lines *lines, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < lines->count && used < size; i++) {
        const struct source_line *line = &lines->line[i];
        const char *function = line->function[0] != '\0' ? line->function : "?";

        if (i != 0 && lines_is_same(line, line - 1))
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s (%s",
                                 i == 0 ? ", in " : ", called from ", function,
                                 lines_last_part(line->file));
        if (used < size && line->line != 0)
            used += (size_t)snprintf(text + used, size - used, ":%d)", line->line);
        else if (used < size)
            used += (size_t)snprintf(text + used, size - used, ")");
    }
}
