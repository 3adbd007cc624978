/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON: valid whatever the strings hold. Values inside an object have a
 * key, those inside an array and the outermost one have NULL instead.
 *
 *     struct json j = cli_json_start(stdout);
 *     cli_json_open(&j, NULL, '{');
 *     cli_json_string(&j, "name", "pto");
 *     cli_json_close(&j, '}');
 */
#ifndef PTO_JSON_H
#define PTO_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *to;
    uint32_t depth;
    bool has_value; /* a value was written at this depth, so a comma comes first */
};

struct json cli_json_start(FILE *to);
void cli_json_open(struct json *j, const char *key, char bracket);
/* Closing the outermost value also ends the line. */
void cli_json_close(struct json *j, char bracket);
/* a NULL value is written as null */
void cli_json_string(struct json *j, const char *key, const char *value);
void cli_json_bool(struct json *j, const char *key, bool value);
void cli_json_integer(struct json *j, const char *key, uint64_t value);
void cli_json_number(struct json *j, const char *key, double value,
                     int decimals); /* NaN is written as null */

#endif
