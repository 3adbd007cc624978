/* SPDX-License-Identifier: Apache-2.0 */
/* partial = h w2 */
#include "matrix.h"

PTO_KERNEL(args)
{
    multiply(pto_arg_tensor(args, 0), pto_arg_tensor(args, 1), pto_arg_tensor(args, 2));
}
