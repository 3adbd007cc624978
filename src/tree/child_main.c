/* SPDX-License-Identifier: Apache-2.0 */
/* The program `pto-child`, which a worker of level 3 starts for each of its children. */
#include "pto/worker.h"

int main(void)
{
    return pto_child_serve();
}
