/* SPDX-License-Identifier: Apache-2.0 */
/* `pto info --comm` shows the backends of communication between ranks. */
#ifndef PTO_INFO_COMM_H
#define PTO_INFO_COMM_H

#include <stdbool.h>

/* Prints a table or JSON. Returns the exit code: 1 if PTO_COMM names a backend that is missing. */
int cli_info_comm(bool is_json);

#endif
