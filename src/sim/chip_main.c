/* SPDX-License-Identifier: Apache-2.0 */
/* `pto-chip`: a simulated chip in a process of its own. */
#include "sim/far_chip.h"

int main(void)
{
    return sim_chip_serve();
}
