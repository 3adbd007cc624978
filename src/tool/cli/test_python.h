/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenes in Python: classes of pto.testing or of simpler in files test_*.py, and test functions
 * that name platforms. The package pto.testing lists their cases and runs them
 * (python/pto/testing/child.py).
 */
#ifndef PTO_TEST_PYTHON_H
#define PTO_TEST_PYTHON_H

#include "tool/cli/test_jobs.h"
#include "tool/scene/scene_find.h"

/* Whether a path names a file in Python, other than the description of a generated scene. */
bool cli_python_is_file(const char *path);
/* Adds a file, or the files test_*.py with scenes at or below a folder. */
int cli_python_find(const char *path, struct scene_paths *paths, struct pto_error *error);
/*
 * Reads the cases of all files with one interpreter. A file that cannot be read has no scene, and
 * `text` has the reason, which the caller frees; `is_skipped` if it needs what pto-simpler is known
 * to lack.
 */
void cli_python_open(char *const *path, uint32_t count, struct scene **scene, char **text,
                     bool *is_skipped);
/*
 * Replaces this process by one that runs items[first] to items[last - 1], and reports through the
 * pipe. Returns only on failure.
 */
void cli_python_exec(const struct test_item *items, uint32_t first, uint32_t last,
                     const struct test_settings *settings, int pipe);

/*
 * Replaces this process by the interpreter, whose name it puts into argv[0]. Returns only on
 * failure.
 */
void cli_python_exec_words(char **argv);

#endif
