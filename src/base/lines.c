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
#include <signal.h>
#include <spawn.h>
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

/* Where an address is, as `pto-lines` is told. */
struct place {
    const char *path;
    const char *symbol; /* the exported one that it is in; NULL: none */
    char offset[OFFSET_BYTES];
};

extern char **environ;

static bool lines_place_of(uintptr_t pc, struct place *place, const void **module_out)
{
    static char program[] = "/proc/self/exe"; /* resolved below: another process would be itself */
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

/* Until the entry, or the library, if the entry is not a part of it itself. */
static uint32_t lines_find_places(const uintptr_t *pc, uint32_t count, const void *entry,
                                  struct place place[PLACES_MAX])
{
    const void *own = NULL, *first = NULL, *module = NULL;
    struct place here;
    uint32_t used = 0;

    (void)lines_place_of((uintptr_t)lines_find, &here, &own);
    (void)lines_place_of((uintptr_t)entry, &here, &first);
    for (uint32_t i = 0; i < count && used < PLACES_MAX; i++) {
        uintptr_t at = i != 0 ? pc[i] - 1 : pc[i]; /* inside of the call */

        if (!lines_place_of(at, &place[used], &module))
            continue; /* no code: a jump that went wrong */
        if (module == own && first != own)
            break;
        used++;
        if (_Unwind_FindEnclosingFunction((void *)at) == entry)
            break;
    }
    return used;
}

/* ---- asking the program ---- */

static pid_t start_program(char *const *words, int output)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t child = -1;

    sigemptyset(&none);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    if (posix_spawnattr_init(&attributes) == 0) {
        if (posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK) != 0 ||
            posix_spawnattr_setsigmask(&attributes, &none) != 0 ||
            posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0) != 0 ||
            posix_spawn_file_actions_adddup2(&actions, output, 1) != 0 ||
            posix_spawn_file_actions_adddup2(&actions, 0, 2) != 0 ||
            posix_spawn(&child, words[0], &actions, &attributes, words, environ) != 0)
            child = -1;
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return child;
}

/* Until it has said everything; false if that takes too long. */
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
    bool is_told;
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
    is_told = child > 0 && read_answer(ends[0], answer);
    close(ends[0]);
    if (child > 0) {
        (void)kill(child, SIGKILL); /* it has nothing more to say */
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    return is_told;
}

/* ---- what it says ---- */

/* What follows the last slash is what matters. */
static void copy_end(char *to, size_t size, const char *from, size_t length)
{
    size_t skip = length < size ? 0 : length - (size - 1);

    memcpy(to, from + skip, length - skip);
    to[length - skip] = '\0';
}

/* FUNCTION, FILE, LINE, with tabs between them. */
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

/* An empty line of the answer ends a place. One without a line is told by what the loader knows. */
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

/* FNV-1a. No path is used twice in a process for other code. */
static uint64_t key_of(const struct place *place, uint32_t count)
{
    uint64_t key = 14695981039346656037ull;

    for (uint32_t i = 0; i < count; i++) {
        for (const char *at = place[i].path; *at != '\0'; at++)
            key = (key ^ (uint8_t)*at) * 1099511628211ull;
        for (const char *at = place[i].offset; *at != '\0'; at++)
            key = (key ^ (uint8_t)*at) * 1099511628211ull;
    }
    return key | 1; /* never that of nothing */
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
