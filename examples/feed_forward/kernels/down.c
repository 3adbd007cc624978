/* SPDX-License-Identifier: Apache-2.0 */
/* partial = h w2 */
#include "matrix.h"

void kernel_entry(int64_t *args)
{
    multiply(pto_arg_tensor(args, 0), pto_arg_tensor(args, 1), pto_arg_tensor(args, 2));
}
