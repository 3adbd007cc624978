/* SPDX-License-Identifier: Apache-2.0 */
/* `pto-child`: what a worker of level 3 starts for each of its children. */
#include "tree/child.h"

int main(void)
{
    return child_serve();
}
