/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes jobs, greetings and results; launch_job.h describes them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/cli/launch_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/os.h"
#include "pto/pto.h"

enum { NOISE_MAX = 64 << 10 };
#define GREETING_MARK "pto-agent "

/* ---- greetings ---- */

void cli_launch_greeting_own(struct launch_greeting *out)
{
    /* the variable consists of client address, port, server address, port */
    const char *connection = getenv("SSH_CONNECTION");
    struct utsname about;

    memset(out, 0, sizeof(*out));
    (void)uname(&about);
    snprintf(out->version, sizeof(out->version), "%s", pto_version());
    os_describe_platform(out->platform);
    snprintf(out->host, sizeof(out->host), "%s", about.nodename);
    if (connection == NULL || sscanf(connection, "%*s %*s %63s", out->address) != 1)
        out->address[0] = '\0';
}

void cli_launch_greeting_make(char line[LAUNCH_GREETING_MAX])
{
    struct launch_greeting own;

    cli_launch_greeting_own(&own);
    snprintf(line, LAUNCH_GREETING_MAX, GREETING_MARK "%d %s %s %s %s\n", LAUNCH_PROTOCOL,
             own.version, own.platform, own.host[0] != '\0' ? own.host : "-",
             own.address[0] != '\0' ? own.address : "-");
}

int cli_launch_greeting_take(struct bytes *from, struct launch_greeting *out)
{
    char *begin = from->at + from->begin, *mark, *end;
    int protocol, used = 0;
    size_t size = cli_bytes_size(from);

    if (size == 0)
        return 0;
    mark = memmem(begin, size, GREETING_MARK, strlen(GREETING_MARK));
    end = mark != NULL ? memchr(mark, '\n', size - (size_t)(mark - begin)) : NULL;
    if (end == NULL)
        return size < NOISE_MAX ? 0 : -1;
    *end = '\0';
    from->begin += (size_t)(end - begin) + 1;
    memset(out, 0, sizeof(*out));
    if (sscanf(mark + strlen(GREETING_MARK), "%d %31s %n", &protocol, out->version, &used) != 2)
        return -1;
    if (protocol != LAUNCH_PROTOCOL)
        /*
         * the caller reports that the version differs: a different protocol implies that, and the
         * user can install the same version
         */
        return 1;
    if (sscanf(mark + strlen(GREETING_MARK) + used, "%63s %64s %63s", out->platform, out->host,
               out->address) != 3)
        return -1;
    if (strcmp(out->address, "-") == 0)
        out->address[0] = '\0';
    return 1;
}

/* ---- jobs ---- */

static void job_add_list(struct bytes *out, uint32_t count, char **list)
{
    cli_bytes_add_u32(out, count);
    for (uint32_t i = 0; i < count; i++)
        cli_bytes_add_text(out, list[i]);
}

/* Reads a list of texts into a new array that ends with NULL. NULL: the content is not a list. */
static char **job_read_list(struct reader *from, uint32_t *count_out)
{
    uint32_t count = cli_reader_u32(from);
    char **list;

    if (from->is_bad || count > LAUNCH_WORDS_MAX)
        return NULL;
    list = calloc((size_t)count + 1, sizeof(*list));
    for (uint32_t i = 0; i < count && list != NULL; i++)
        list[i] = (char *)(uintptr_t)cli_reader_text(from);
    *count_out = count;
    return list;
}

static void add_seconds(struct bytes *out, double seconds)
{
    cli_bytes_add_u64(out, (uint64_t)(seconds * 1e9));
}

static double read_seconds(struct reader *from)
{
    return (double)cli_reader_u64(from) / 1e9;
}

void cli_launch_job_encode(const struct launch_job *job, struct bytes *out)
{
    cli_bytes_add_u32(out, job->first);
    cli_bytes_add_u32(out, job->count);
    cli_bytes_add_u32(out, job->total);
    cli_bytes_add_u32(out, job->binding);
    cli_bytes_add_u32(out, job->has_prefix);
    cli_bytes_add_u32(out, job->has_input);
    cli_bytes_add_u32(out, job->is_root);
    add_seconds(out, job->grace);
    add_seconds(out, job->silence);
    cli_bytes_add_text(out, job->token);
    cli_bytes_add_text(out, job->key);
    cli_bytes_add_text(out, job->folder);
    cli_bytes_add_text(out, job->peers);
    job_add_list(out, job->word_count, job->words);
    job_add_list(out, job->variable_count, job->variables);
}

bool cli_launch_job_decode(struct reader *from, struct launch_job *out)
{
    memset(out, 0, sizeof(*out));
    out->first = cli_reader_u32(from);
    out->count = cli_reader_u32(from);
    out->total = cli_reader_u32(from);
    out->binding = cli_reader_u32(from);
    out->has_prefix = cli_reader_u32(from) != 0;
    out->has_input = cli_reader_u32(from) != 0;
    out->is_root = cli_reader_u32(from) != 0;
    out->grace = read_seconds(from);
    out->silence = read_seconds(from);
    out->token = cli_reader_text(from);
    out->key = cli_reader_text(from);
    out->folder = cli_reader_text(from);
    out->peers = cli_reader_text(from);
    out->words = job_read_list(from, &out->word_count);
    out->variables = job_read_list(from, &out->variable_count);
    if (!from->is_bad && from->at == from->end && out->words != NULL && out->variables != NULL &&
        out->word_count > 0 && out->count > 0 && out->total <= RANKS_MAX &&
        out->first < out->total && out->count <= out->total - out->first &&
        out->binding < RANKS_BINDINGS)
        return true;
    cli_launch_job_free(out);
    return false;
}

void cli_launch_job_free(struct launch_job *job)
{
    free(job->words);
    free(job->variables);
    job->words = job->variables = NULL;
}

/* ---- results ---- */

void cli_launch_result_encode(const struct ranks_result *result, struct bytes *out)
{
    cli_bytes_add_u32(out, result->end);
    cli_bytes_add_u32(out, result->rank);
    cli_bytes_add_u32(out, (uint32_t)result->state);
    cli_bytes_add_u32(out, result->ended_count);
    cli_bytes_add_u32(out, (uint32_t)result->lost_output);
    cli_bytes_add_u64(out, result->failed_ns);
}

bool cli_launch_result_decode(struct reader *from, struct ranks_result *out)
{
    memset(out, 0, sizeof(*out));
    out->end = (enum ranks_end)cli_reader_u32(from);
    out->rank = cli_reader_u32(from);
    out->state = (int)cli_reader_u32(from);
    out->ended_count = cli_reader_u32(from);
    out->lost_output = (int)cli_reader_u32(from);
    out->failed_ns = cli_reader_u64(from);
    return !from->is_bad && from->at == from->end && out->end <= RANKS_UNKEPT;
}
