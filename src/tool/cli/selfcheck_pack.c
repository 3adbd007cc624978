/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of `pto selfcheck`: text that people can look at, in parts whose sizes are written before
 * them, so that they may hold anything; and a digest at the end, so that damage is noticed.
 *
 *     pto-selfcheck-file 2
 *     @ NAME BYTES
 *     ...
 *     @ end COUNT DIGEST      of parts; of all bytes before this line
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "pto/build.h"
#include "tool/cli/machine.h"
#include "tool/cli/selfcheck.h"
#include "tool/scene/scene_find.h"
#include "tool/scene/terminal.h"

enum { FILE_MAX = 256 << 20, FORMAT = 2 };

static const char magic[] = "pto-selfcheck-file ";

static uint64_t digest_of(const char *bytes, size_t size)
{
    uint64_t digest = 0xcbf29ce484222325;

    for (size_t i = 0; i < size; i++)
        digest = (digest ^ (unsigned char)bytes[i]) * 0x100000001b3;
    return digest;
}

/* ---- writing ---- */

void cli_selfcheck_put(FILE *to, const char *name, const char *bytes, size_t size)
{
    fprintf(to, "@ %s %zu\n", name, size);
    /* readers treat a part as text, so it must not contain zero bytes */
    for (size_t i = 0; i < size; i++)
        fputc(bytes[i] != '\0' ? bytes[i] : ' ', to);
    fputc('\n', to);
}

struct packing {
    const struct selfcheck *c;
    const char *end;
    FILE *file;
    uint32_t count;
};

static void selfcheck_pack_put(struct packing *p, const char *name,
                               void (*write)(const struct packing *p, FILE *to))
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&bytes, &size);

    if (to == NULL)
        return;
    write(p, to);
    if (fclose(to) == 0) {
        cli_selfcheck_put(p->file, name, bytes, size);
        p->count++;
    }
    free(bytes);
}

static void write_about(const struct packing *p, FILE *to)
{
    struct machine machine;
    struct utsname about;
    char date[64];
    time_t now = time(NULL);

    cli_machine_read(&machine);
    strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S UTC", gmtime(&now));
    fprintf(to, "library=%s\nplatform=%s\ncard=%u\nruns=%u\ndate=%s\nlibc=%s\n", pto_version(),
            p->c->progress->platform, p->c->card, p->c->runs, date, machine.libc);
    if (uname(&about) == 0)
        fprintf(to, "system=%s %s %s\n", about.sysname, about.release, about.machine);
    fprintf(to, "end=%s\n", p->end);
}

static void write_steps(const struct packing *p, FILE *to)
{
    for (uint32_t i = 0; i < SELFCHECK_STEPS; i++) {
        const struct selfcheck_result *step = &p->c->progress->step[i];
        char text[SELFCHECK_TEXT];

        snprintf(text, sizeof(text), "%s", step->text);
        for (char *at = text; *at != '\0'; at++)
            if (*at == '\n' || *at == '\t')
                *at = ' ';
        fprintf(to, "%s\t%s\t%.0f\t%s\n", cli_selfcheck_names[i],
                cli_selfcheck_verdicts[cli_selfcheck_verdict(step)], step->ms, text);
    }
}

static void write_calls_of(const struct packing *p, FILE *to, const char *name)
{
    char path[PATH_MAX];

    cli_selfcheck_path(p->c, name, path);
    cli_selfcheck_write_calls(to, path);
}

static void write_calls(const struct packing *p, FILE *to)
{
    write_calls_of(p, to, "calls");
}

static void write_rank0(const struct packing *p, FILE *to)
{
    write_calls_of(p, to, "calls-rank0");
}

static void write_rank1(const struct packing *p, FILE *to)
{
    write_calls_of(p, to, "calls-rank1");
}

static void write_compilers(const struct packing *p, FILE *to)
{
    char path[PATH_MAX], line[4096];
    FILE *from;

    cli_selfcheck_path(p->c, "compilers", path);
    from = fopen(path, "re");
    while (from != NULL && fgets(line, sizeof(line), from) != NULL)
        fputs(line, to);
    if (from != NULL)
        fclose(from);
}

/*
 * Finds the folder of the programs that the library used: the installed ones, or those built by
 * this check.
 */
static bool find_programs(const struct selfcheck *c, char folder[PATH_MAX])
{
    static const char *const places[] = { "lib/pto/cann", "lib64/pto/cann" };
    const char *set = getenv("PTO_CANN_PROGRAMS");
    char own[PATH_MAX], path[2 * PATH_MAX];

    if (set != NULL && set[0] != '\0') {
        snprintf(folder, PATH_MAX, "%s", set);
        return true;
    }
    cli_selfcheck_path(c, "programs", folder);
    if (access(folder, F_OK) == 0)
        return true;
    if (!scene_find_root(own))
        return false;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", own, places[i]);
        if (realpath(path, folder) != NULL)
            return true;
    }
    return false;
}

static void write_programs(const struct packing *p, FILE *to)
{
    const struct pto_platform *platform = pto_platform_find(p->c->progress->platform);
    char executor[64] = "";
    const char *const names[] = { "libpto_dispatcher.so", "libpto_scheduler.so", executor };
    char folder[PATH_MAX], path[2 * PATH_MAX];

    if (!find_programs(p->c, folder)) {
        fprintf(to, "there is no folder of programs\n");
        return;
    }
    if (platform != NULL) /* NULL: the check ended before it knew the platform */
        snprintf(executor, sizeof(executor), "executor-%s.o", platform->generation);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && names[i][0] != '\0'; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        cli_selfcheck_write_elf(to, path);
    }
}

static void write_versions(const struct packing *p, FILE *to)
{
    (void)p;
    cli_selfcheck_write_versions(to);
}

static void write_rights(const struct packing *p, FILE *to)
{
    (void)p;
    cli_selfcheck_write_rights(to);
}

static void write_environment(const struct packing *p, FILE *to)
{
    (void)p;
    cli_selfcheck_write_environment(to);
}

static void write_smi(const struct packing *p, FILE *to)
{
    (void)p;
    cli_selfcheck_write_smi(to);
}

static void write_logs(const struct packing *p, FILE *to)
{
    cli_selfcheck_write_logs(p->c, to);
}

static const struct {
    const char *name;
    void (*write)(const struct packing *p, FILE *to);
} parts[] = {
    { "about", write_about },       { "steps", write_steps },
    { "calls", write_calls },       { "calls-rank0", write_rank0 },
    { "calls-rank1", write_rank1 }, { "compilers", write_compilers },
    { "programs", write_programs }, { "versions", write_versions },
    { "rights", write_rights },     { "environment", write_environment },
    { "npu-smi", write_smi },       { "logs", write_logs },
};

int cli_selfcheck_pack(const struct selfcheck *c, const char *end)
{
    struct pto_error error = { .size = sizeof(error) };
    struct packing p = { .c = c, .end = end };
    char *bytes = NULL;
    size_t size = 0;
    int status;

    p.file = open_memstream(&bytes, &size);
    if (p.file == NULL)
        return PTO_ENOMEM;
    fprintf(p.file, "%s%d\n", magic, FORMAT);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        selfcheck_pack_put(&p, parts[i].name, parts[i].write);
    fflush(p.file);
    fprintf(p.file, "@ end %u %016" PRIx64 "\n", p.count, digest_of(bytes, size));
    if (fclose(p.file) != 0) {
        free(bytes);
        return PTO_ENOMEM;
    }
    status = pto_file_write(c->output, bytes, size, &error);
    free(bytes);
    if (status < 0)
        terminal_printf(stderr, "pto selfcheck: %s\n", error.text);
    return status;
}

/* ---- reading ---- */

static int selfcheck_pack_refuse(struct pto_error *error, const char *path, const char *why)
{
    return error_setf(error, PTO_EFORMAT, "%.200s %.250s", path, why);
}

static char *read_all(const char *path, size_t *size_out, struct pto_error *error)
{
    FILE *from = fopen(path, "re");
    char *bytes = NULL, *more;
    size_t size = 0, room = 0, got = 0;

    if (from == NULL) {
        (void)selfcheck_pack_refuse(error, path, strerror(errno));
        return NULL;
    }
    do {
        size += got;
        if (room - size < 2) {
            room = room != 0 ? 2 * room : 1 << 20;
            more = room <= FILE_MAX ? realloc(bytes, room) : NULL;
            if (more == NULL) {
                (void)selfcheck_pack_refuse(error, path, "is too long to be read");
                free(bytes);
                fclose(from);
                return NULL;
            }
            bytes = more;
        }
        got = fread(bytes + size, 1, room - size - 1, from);
    } while (got != 0);
    fclose(from);
    bytes[size] = '\0';
    *size_out = size;
    return bytes;
}

static const char damaged[] = "is damaged: its parts were changed after they were written; "
                              "send it as an attachment, so that it arrives unchanged";

/*
 * Returns whether the last line has the digest of all bytes before it. Sets *count_out to the
 * number of parts that the line names.
 */
static bool selfcheck_pack_is_whole(const char *bytes, size_t size, uint32_t *count_out)
{
    uint64_t digest = 0;
    size_t at = size;

    for (size_t i = size > 64 ? size - 64 : 0; i < size; i++)
        if (strncmp(bytes + i, "\n@ end ", 7) == 0)
            at = i + 1;
    return sscanf(bytes + at, "@ end %u %" SCNx64, count_out, &digest) == 2 &&
           digest == digest_of(bytes, at);
}

static int selfcheck_pack_split(struct selfcheck_file *file, const char *path, size_t size,
                                struct pto_error *error)
{
    const char *line = strchr(file->bytes, '\n');
    size_t at = line != NULL ? (size_t)(line - file->bytes) + 1 : size;

    while (at < size && strncmp(file->bytes + at, "@ end ", 6) != 0) {
        struct selfcheck_part *part = &file->part[file->count];
        size_t length;
        int used = 0;

        if (file->count == SELFCHECK_PARTS ||
            sscanf(file->bytes + at, "@ %63[a-z0-9-] %zu%n", part->name, &length, &used) != 2 ||
            file->bytes[at + (size_t)used] != '\n')
            return selfcheck_pack_refuse(error, path, damaged);
        at += (size_t)used + 1;
        if (length > size - at || size - at - length < 1)
            return selfcheck_pack_refuse(error, path,
                                         "is cut off: it ends inside of a part; send all of it");
        if (file->bytes[at + length] != '\n')
            return selfcheck_pack_refuse(error, path, damaged);
        part->bytes = file->bytes + at;
        part->size = length;
        file->bytes[at + length] = '\0'; /* a zero byte, which makes the part a text */
        file->count++;
        at += length + 1;
    }
    return at < size ? PTO_OK
                     : selfcheck_pack_refuse(error, path,
                                             "is cut off: its end is missing; send all of it");
}

int cli_selfcheck_open(const char *path, struct selfcheck_file *file, struct pto_error *error)
{
    uint32_t count = 0;
    size_t size = 0;
    bool is_good;
    int status;

    memset(file, 0, sizeof(*file));
    file->bytes = read_all(path, &size, error);
    if (file->bytes == NULL)
        return PTO_ESYSTEM;
    /* computes the digest before terminating zeros are written into the bytes */
    is_good = selfcheck_pack_is_whole(file->bytes, size, &count);
    if (strncmp(file->bytes, magic, sizeof(magic) - 1) != 0)
        status = selfcheck_pack_refuse(error, path, "was not written by pto selfcheck");
    else if (atoi(file->bytes + sizeof(magic) - 1) != FORMAT)
        status = selfcheck_pack_refuse(
            error, path, "was written by another version of pto; read it with that one");
    else if (strlen(file->bytes) != size)
        status = selfcheck_pack_refuse(error, path, damaged);
    else
        status = selfcheck_pack_split(file, path, size, error);
    if (status >= 0 && (!is_good || count != file->count))
        status = selfcheck_pack_refuse(error, path,
                                       "is damaged: its digest is not that of its contents");
    if (status < 0) {
        free(file->bytes);
        file->bytes = NULL;
    }
    return status;
}

const struct selfcheck_part *cli_selfcheck_find(const struct selfcheck_file *file, const char *name)
{
    for (uint32_t i = 0; i < file->count; i++)
        if (strcmp(file->part[i].name, name) == 0)
            return &file->part[i];
    return NULL;
}
