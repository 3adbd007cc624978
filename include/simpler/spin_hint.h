// SPDX-License-Identifier: Apache-2.0
//
// For the loop of code that waits for another thread through memory.
#ifndef PTO_SIMPLER_SPIN_HINT_H
#define PTO_SIMPLER_SPIN_HINT_H

#include "pto/kernel.h"

#ifndef SPIN_WAIT_HINT
#define SPIN_WAIT_HINT() pto_pause()
#endif

#endif
