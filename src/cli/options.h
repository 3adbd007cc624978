/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands' options have in common. A refusal is a sentence on stderr and EXIT_USAGE. */
#ifndef PTO_OPTIONS_H
#define PTO_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* For commands with nothing but --json and --help. -1: go on, else the exit code. */
int options_parse_json(int argc, char **argv, const char *usage, bool *is_json_out);

/* Decimal digits only, from `low` to `high`. */
bool options_number(const char *text, uint64_t low, uint64_t high, uint64_t *value_out);

/*
 * The value of an option of a command. -1: go on, else the exit code.
 */
int options_count(const char *command, const char *option, const char *value, uint64_t high,
                  uint32_t *count_out);
int options_seconds(const char *command, const char *option, const char *value,
                    double *seconds_out);
/* A platform that can be opened; NULL for "all". */
int options_platform(const char *command, const char *value, const char **platform_out);
/* The name of a mode, or "all": a bit by enum pto_mode. */
int options_modes(const char *command, const char *value, uint32_t *modes_out);
/* One more of a list. */
int options_text(const char *command, const char *option, const char *value, const char **list,
                 uint32_t max, uint32_t *count);

/* What getopt_long did not understand: `key` is '?' or, with a leading ':' in its string, ':'. */
int options_refuse(char **argv, int key);
/* An argument that is no option. */
int options_too_many(char **argv, const char *unexpected);

#endif
