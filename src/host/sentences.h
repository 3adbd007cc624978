/* SPDX-License-Identifier: Apache-2.0 */
/* Sentences and stories about a run that failed, made of what the chip says of it. */
#ifndef PTO_SENTENCES_H
#define PTO_SENTENCES_H

#include "host/host.h"

/* Fills the error: who and where, and a sentence. */
void sentence_write(const struct chip_result *result, const struct callable *c,
                    struct pto_error *error);

/* The same for what a graph refused in which no task has a kernel. */
void sentence_refusal(const struct failure *failure, struct pto_error *error);

/* story.c: the story of a run with this error: the sentence, then details and tasks that did not move. */
void story_write(struct story *story, const struct chip_result *result, const struct callable *c,
                 const struct pto_error *error);

/* A time as people say it: 1 us, 20 ms, 1.5 s. */
enum { SENTENCE_TIME = 32 };
void sentence_time(uint64_t ns, char text[SENTENCE_TIME]);

/* Why a device takes no more runs after this one; the text is static. */
const char *sentence_of_loss(const struct chip_result *result);

/* ---- between the files of sentences ---- */

const char *sentence_kernel_name(const struct callable *c, int32_t kernel);
/* Behind the place in the source, if there is one. */
void sentence_say(struct pto_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* As far as there is room. */
void story_tell(struct story *story, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* sentences_crash.c: of a kernel with this name, or of an orchestration. */
void sentence_crash(const struct chip_result *result, const char *name, struct pto_error *error);
void story_crash(struct story *story, const struct backtrace *trace);

#endif
