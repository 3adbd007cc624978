// SPDX-License-Identifier: Apache-2.0
//
// Some orchestrations include it beside pto_orchestration_api.h; it has nothing more.
#ifndef PTO_SIMPLER_RUNTIME_H
#define PTO_SIMPLER_RUNTIME_H

#include "pto_orchestration_api.h"

#endif
