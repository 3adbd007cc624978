// SPDX-License-Identifier: Apache-2.0
// A pause for loops that poll memory which another thread writes.
#ifndef PTO_SIMPLER_SPIN_HINT_H
#define PTO_SIMPLER_SPIN_HINT_H

#include "pto/kernel.h"

#ifndef SPIN_WAIT_HINT
#define SPIN_WAIT_HINT() pto_pause()
#endif

#endif
