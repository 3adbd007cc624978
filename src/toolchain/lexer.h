/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the files that a C or C++ source names, without preprocessing it: the
 * operands in all branches. Knows comments, strings, raw strings, digit
 * separators, continued lines, digraphs and trigraphs. Any bytes are accepted.
 */
#ifndef PTO_LEXER_H
#define PTO_LEXER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "toolchain/scan.h"

/* maximum size of an operand, including the final zero; a longer name cannot be opened */
enum { LEXER_OPERAND_MAX = 4096 };

/*
 * Callbacks for what a text contains, called in the order of the text. `text` ends with a zero and
 * is valid only during the call.
 */
struct lexer_sink {
    void (*operand)(void *context, const char *text, bool is_angled, bool is_next);
    void (*open)(void *context, enum scan_open_kind kind, uint32_t line, const char *text);
    void *context;
};

/*
 * Reads a text and calls the functions of `sink`. A zero must follow the last byte. False: out of
 * memory.
 */
bool lexer_run(const char *bytes, size_t size, const struct lexer_sink *sink);

#endif
