/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the recording that a command shows. Its operand is a recording (.ptrec), simpler's
 * chip_swimlane_records.json, a folder with that file, or a scene, which is run and recorded first.
 */
#ifndef PTO_RECORDED_H
#define PTO_RECORDED_H

#include "tool/cli/virtual_options.h"
#include "tool/see/recording.h"
#include "tool/see/what_if.h"

/* Options for the run of a scene; they have no effect on files. */
struct recorded_options {
    const char *case_name; /* case to run; NULL: the first one of the scene */
    const char *platform;  /* platform to run on; NULL: the default */
    enum pto_mode mode;
    uint32_t clusters; /* number of clusters; 0: that of the case */
    uint32_t threads;  /* number of host threads; 0: one for each CPU */
    uint32_t rounds;   /* number of runs; only the last one is recorded */
    struct cli_texts flag;
    bool is_virtual;
    struct virtual_options given; /* options for virtual time */
};

#define CLI_OPTIONS_RECORDED(type, member)                                                    \
    { "case",   0,                                                                            \
      "C",      "with a scene: case to run (default: the first one)",                         \
      CLI_TEXT, .at = offsetof(type, member.case_name) },                                     \
        { "platform",   0,                                                                    \
          "P",          "with a scene: chip to run on",                                       \
          CLI_PLATFORM, .at = offsetof(type, member.platform) },                              \
        { "mode",                                                                             \
          0,                                                                                  \
          "stream|host",                                                                      \
          "with a scene: run tasks while the graph is built, or after it",                    \
          CLI_MODE,                                                                           \
          .at = offsetof(type, member.mode),                                                  \
          .initial = "stream" },                                                              \
        { "clusters", 0,                                                                      \
          "N",        "with a scene: number of clusters of one AIC and two AIV",              \
          CLI_COUNT,  .at = offsetof(type, member.clusters),                                  \
          .low = 1,   .high = 1024 },                                                         \
        { "threads", 0,                                                                       \
          "K",       "with a scene: number of threads that run tasks (default: one per CPU)", \
          CLI_COUNT, .at = offsetof(type, member.threads),                                    \
          .low = 1,  .high = 1024 },                                                          \
        { "rounds",      0,                                                                   \
          "N",           "with a scene: run it N times and record the last run",              \
          CLI_COUNT,     .at = offsetof(type, member.rounds),                                 \
          .low = 1,      .high = 1000,                                                        \
          .initial = "2" },                                                                   \
        { "flag",                                                                             \
          0,                                                                                  \
          "F",                                                                                \
          "with a scene: add a compiler flag for kernels and orchestration; may be repeated", \
          CLI_TEXTS,                                                                          \
          .at = offsetof(type, member.flag),                                                  \
          .high = 64 },                                                                       \
        { "virtual", 0,                                                                       \
          NULL,      "with a scene: run it in virtual time",                                  \
          CLI_FLAG,  .at = offsetof(type, member.is_virtual) },                               \
        CLI_OPTIONS_VIRTUAL(type, member.given)

/*
 * Reads the recording that the operand `target` names; the caller frees *out. `command` is the name
 * of the command, for messages. Returns its exit code; unless that is EXIT_OK, a sentence is on
 * stderr.
 */
int cli_recorded_open(const char *command, const char *target,
                      const struct recorded_options *options, struct see_recording **out);

enum { CLI_QUESTIONS_MAX = 64 };

#define CLI_OPTION_WHAT_IF(request, member)                                                       \
    {                                                                                             \
        "what-if", 0, "CHANGE",                                                                   \
            "also show the effect of a change, even if durations vary by more: KERNEL=K, a "      \
            "kernel "                                                                             \
            "K times as fast; clusters=N; edges=KERNEL, without the edges to the kernel's tasks " \
            "that a change of the program could remove; may be repeated",                         \
            CLI_TEXTS, .at = offsetof(request, member), .high = CLI_QUESTIONS_MAX                 \
    }

/*
 * Parses values of --what-if into an array with room for CLI_QUESTIONS_MAX. Returns an exit code;
 * unless it is EXIT_OK, a sentence is on stderr.
 */
int cli_recorded_questions(const char *command, const struct see_recording *r,
                           const struct cli_texts *texts, struct see_question *out);

/*
 * Format of the warning that simulated cores outnumber the host's CPUs. Arguments: cores in use,
 * CPUs, the plural's "s".
 */
#define CLI_CROWDED                                                                          \
    "%u cores ran on %u CPU%s: wall times include waiting for a CPU; use --virtual for the " \
    "schedule of the chip"

/*
 * Formats a heading for the recording: its title, or its scene and case, or the name of its file.
 */
void cli_recorded_title(const struct see_recording *r, const char *target, char *title,
                        size_t bytes);

#endif
