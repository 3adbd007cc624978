/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of Python that manifests are written in, read as data: nothing of it
 * is ever executed. It takes imports and assignments; of expressions, texts,
 * numbers, True, False, None, tuples, lists, dicts, names that were assigned
 * before, `+` and `*` of texts and lists, members of ArgDirection, and paths that
 * begin at __file__. All else is refused with its place. One thread.
 */
#ifndef PTO_PYTHON_H
#define PTO_PYTHON_H

#include "tool/scene/document.h"

/*
 * The root is a map of the names that were assigned, with their last values. A
 * text has quotes; numbers, True, False, None and the members of ArgDirection are
 * plain; tuples are lists. `name` is what __file__ is, and appears in messages; it
 * must be absolute and outlive the document.
 */
int scene_python_read(const char *name, const void *text, size_t bytes,
                      struct document **document_out, struct pto_error *error);

#endif
