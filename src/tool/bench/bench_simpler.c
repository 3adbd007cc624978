/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "tool/bench/bench_simpler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/bench/bench_patterns.h"
#include "pto/build.h"

/* Source of an orchestration in simpler's API, which submits the same tasks as bench_submit. */
static const char orchestration[] =
    "#include \"pto_orchestration_api.h\"\n"
    "struct Task { int32_t read[3], read_count, write; bool is_inout; };\n"
    "extern \"C\" void aicpu_orchestration_entry(const ChipTaskArgs &entry)\n"
    "{\n"
    "    const auto *task = from_u64<const Task *>(entry.scalar(0));\n"
    "    const auto *item = from_u64<const ChipTensor *>(entry.scalar(1));\n"
    "    for (uint64_t i = 0; i < entry.scalar(2); i++) {\n"
    "        CoreTaskArgs args;\n"
    "        for (int32_t k = 0; k < task[i].read_count; k++)\n"
    "            args.add_input(item[task[i].read[k]]);\n"
    "        if (task[i].write >= 0 && task[i].is_inout)\n"
    "            args.add_inout(item[task[i].write]);\n"
    "        else if (task[i].write >= 0)\n"
    "            args.add_output(item[task[i].write]);\n"
    "        rt_submit_aiv_task(0, args);\n"
    "    }\n"
    "}\n";
static const char kernel[] = "#include <stdint.h>\n"
                             "void kernel_entry(int64_t *args)\n"
                             "{ __asm__ volatile(\"\" ::\"r\"(args) : \"memory\"); }\n";

_Static_assert(sizeof(struct bench_task) == 24 && offsetof(struct bench_task, write) == 16 &&
                   offsetof(struct bench_task, is_inout) == 20,
               "the struct Task of the orchestration");

static void bench_simpler_show_output(void *context, const struct pto_build_event *event)
{
    (void)context;
    if (event->kind == PTO_BUILD_OUTPUT)
        fputs(event->text, stderr);
}

static int build_in(const char *folder, struct pto_callable **callable_out, struct pto_error *error)
{
    char path[2][64];
    struct pto_source source[2] = {
        { .path = path[0], .kind = PTO_SOURCE_ORCHESTRATION },
        { .path = path[1], .kind = PTO_SOURCE_KERNEL, .core = PTO_CORE_AIV, .name = "empty" },
    };
    struct pto_build_params params;
    void *bytes;
    size_t size;
    int status;

    snprintf(path[0], sizeof(path[0]), "%s/orch.cpp", folder);
    snprintf(path[1], sizeof(path[1]), "%s/empty.c", folder);
    status = pto_file_write(path[0], orchestration, sizeof(orchestration) - 1, error);
    if (status == PTO_OK)
        status = pto_file_write(path[1], kernel, sizeof(kernel) - 1, error);
    pto_build_params_init(&params);
    params.name = "bench";
    params.sources = source;
    params.source_count = 2;
    params.isa = "";
    params.event = bench_simpler_show_output;
    if (status == PTO_OK)
        status = pto_build(&params, &bytes, &size, error);
    if (status == PTO_OK) {
        status = pto_callable_load_memory(bytes, size, NULL, callable_out, error);
        free(bytes);
    }
    unlink(path[0]);
    unlink(path[1]);
    return status;
}

int bench_simpler_load(struct pto_callable **callable_out)
{
    char folder[] = "/tmp/pto-bench.XXXXXX";
    struct pto_error error;
    int status;

    pto_error_init(&error);
    if (mkdtemp(folder) == NULL) {
        fprintf(stderr, "pto bench: cannot write a source to /tmp\n");
        return PTO_ESYSTEM;
    }
    status = build_in(folder, callable_out, &error);
    rmdir(folder);
    if (status < 0)
        fprintf(stderr, "pto bench: cannot build the orchestration for --api simpler: %s\n",
                error.text);
    return status;
}
