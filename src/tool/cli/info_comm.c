/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the backends of communication: what each is for, what it lacks, which one is chosen. */
#include "tool/cli/info_comm.h"

#include <stdio.h>

#include "tool/cli/commands.h"
#include "tool/cli/json.h"
#include "pto/comm.h"

static void print_backend(const struct pto_comm_backend *b)
{
    const bool is_there = b->missing[0] == '\0';

    printf("%-6s %s\n       %s%s\n", b->name, b->summary,
           is_there ? "ready" : "missing: ", b->missing);
    if (b->chosen[0] != '\0')
        printf("       chosen: %s\n", b->chosen);
}

static void print_backend_json(struct json *j, const struct pto_comm_backend *b)
{
    const bool is_there = b->missing[0] == '\0', is_chosen = b->chosen[0] != '\0';

    cli_json_open(j, NULL, '{');
    cli_json_string(j, "name", b->name);
    cli_json_string(j, "summary", b->summary);
    cli_json_bool(j, "usable", is_there);
    cli_json_string(j, "missing", is_there ? NULL : b->missing);
    cli_json_string(j, "chosen", is_chosen ? b->chosen : NULL);
    cli_json_close(j, '}');
}

int cli_info_comm(bool is_json)
{
    struct pto_comm_backend backend;
    struct json j = cli_json_start(stdout);
    bool has_chosen = false;

    pto_comm_backend_init(&backend);
    if (is_json) {
        cli_json_open(&j, NULL, '{');
        cli_json_open(&j, "backends", '[');
    }
    for (uint32_t i = 0; pto_comm_backend_at(i, &backend) == 0; i++) {
        if (is_json)
            print_backend_json(&j, &backend);
        else
            print_backend(&backend);
        has_chosen = has_chosen || (backend.chosen[0] != '\0' && backend.missing[0] == '\0');
    }
    if (is_json) {
        cli_json_close(&j, ']');
        cli_json_close(&j, '}');
    } else if (!has_chosen) {
        printf("none can be chosen here\n");
    }
    return has_chosen ? EXIT_OK : EXIT_FAILED;
}
