/* SPDX-License-Identifier: Apache-2.0 */
/* Options of commands that run a scene in virtual time. All of them require --virtual. */
#ifndef PTO_VIRTUAL_OPTIONS_H
#define PTO_VIRTUAL_OPTIONS_H

#include "pto/virtual.h"
#include "tool/cli/options.h"

struct virtual_options {
    struct cli_texts cost; /* values of --cost, each KERNEL=FORMULA */
    /* file with a recorded run, which has durations of kernels; NULL: none */
    const char *durations;
    const char *scheduling; /* costs of scheduling, as read=95,write=5; NULL: the defaults */
    bool has_free_scheduling;
    bool is_planned_only;
};

#define VIRTUAL_DEFAULT(name, field, ns) " " #name "=" #ns

#define CLI_OPTIONS_VIRTUAL(type, member)                                                         \
    { "cost",                                                                                     \
      0,                                                                                          \
      "KERNEL=FORMULA",                                                                           \
      "with --virtual: duration of a kernel or a SUB function in ns, such as add=2us or "         \
      "'add=500 + bytes(0) / 64'; may be repeated (default: the scene's, or 10us)",               \
      CLI_TEXTS,                                                                                  \
      .at = offsetof(type, member.cost),                                                          \
      .high = 64 },                                                                               \
        { "durations",                                                                            \
          0,                                                                                      \
          "FILE",                                                                                 \
          "with --virtual: durations of kernels from a recording (.ptrec) or a swimlane file of " \
          "simpler: the median for the same shapes and scalars, else that of the kernel; isa: "   \
          "from the cost model of the tile library",                                              \
          CLI_TEXT,                                                                               \
          .at = offsetof(type, member.durations) },                                               \
        { "scheduling",                                                                           \
          0,                                                                                      \
          "LIST",                                                                                 \
          "with --virtual: what steps of the scheduler take in ns, such as read=120,submit=0 "    \
          "(default:" PTO_VIRTUAL_SCHEDULING_MAP(VIRTUAL_DEFAULT) ")",                            \
          CLI_TEXT,                                                                               \
          .at = offsetof(type, member.scheduling) },                                              \
        { "no-scheduling-cost",                                                                   \
          0,                                                                                      \
          NULL,                                                                                   \
          "with --virtual: the scheduler itself takes no time",                                   \
          CLI_FLAG,                                                                               \
          .at = offsetof(type, member.has_free_scheduling) },                                     \
    {                                                                                             \
        "no-compute", 0, NULL,                                                                    \
            "with --virtual: do not call kernels, and compare nothing; refused where the "        \
            "program reads what a kernel would have written",                                     \
            CLI_FLAG, .at = offsetof(type, member.is_planned_only)                                \
    }

#endif
