/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the part of Python in which manifests are written as data; no code is ever executed.
 * Accepts imports and assignments, and as expressions texts, numbers, True, False, None, tuples,
 * lists, dicts, names that were assigned before, `+` and `*` of texts and lists, members of
 * ArgDirection, and paths that begin at __file__. Anything else is an error that names line and
 * column. One thread.
 */
#ifndef PTO_PYTHON_H
#define PTO_PYTHON_H

#include "tool/scene/document.h"

/*
 * Reads a file. The root is a map of the assigned names with their last values. Texts are quoted
 * nodes; numbers, True, False, None and the members of ArgDirection are plain; tuples become lists.
 * `name` is the value of __file__ and appears in messages; it must be absolute and outlive the
 * document.
 */
int scene_python_read(const char *name, const void *text, size_t bytes,
                      struct document **document_out, struct pto_error *error);

#endif
