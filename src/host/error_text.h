/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the failure that a chip reports into the text of an error and into a failure report. */
#ifndef PTO_ERROR_TEXT_H
#define PTO_ERROR_TEXT_H

#include "host/host.h"

/* Fills in the error of a failed run: its origin and a message. */
void error_text_write(const struct chip_result *result, const struct callable *c,
                      struct pto_error *error);

/* error_text_write for a graph that has no kernels, when it refuses a task. */
void error_text_refusal(const struct failure *failure, struct pto_error *error);

/*
 * Writes the failure report of a run with this error: the message, then details and the stuck
 * tasks. In failure_report.c.
 */
void failure_report_write(struct failure_report *report, const struct chip_result *result,
                          const struct callable *c, const struct pto_error *error);

/* Writes a time with a unit, such as "1 us", "20 ms", "1.5 s". */
enum { ERROR_TEXT_TIME = 32 };
void error_text_time(uint64_t ns, char text[ERROR_TEXT_TIME]);

/* Returns why the device takes no more runs after a run with this result. The text is static. */
const char *error_text_loss(const struct chip_result *result);

/* ---- functions that the error_text files share ---- */

const char *error_text_kernel_name(const struct callable *c, int32_t kernel);
/* Writes the message of an error, after the source line if there is one. */
void error_text_appendf(struct pto_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Appends text to a failure report; it is cut where the report is full. */
void failure_report_addf(struct failure_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Describes a crash of the kernel with this name, or of an orchestration. In error_text_crash.c. */
void error_text_crash(const struct chip_result *result, const char *name, struct pto_error *error);
/*
 * Describes an argument that differs from the declaration of the kernel with this name. In
 * error_text_declared.c.
 */
void error_text_declared(const struct failure *f, const char *kernel, struct pto_error *error);
/* Appends a list of numbers, such as "[8,8]". */
void error_text_list(char *text, size_t size, const uint32_t *values, uint32_t count);
/* Describes an access of a kernel that no argument of its task allows. In error_text_touched.c. */
void error_text_touched(const struct chip_result *result, const char *kernel,
                        struct pto_error *error);
/* Describes an input that a kernel wrote. In error_text_touched.c. */
void error_text_input(const struct chip_result *result, const char *kernel,
                      struct pto_error *error);
/* Describes a NaN or Inf that a kernel computed. In error_text_touched.c. */
void error_text_nan(const struct chip_result *result, const char *kernel, struct pto_error *error);
void failure_report_add_crash(struct failure_report *report, const struct backtrace *trace);

#endif
