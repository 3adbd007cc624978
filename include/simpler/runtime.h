// SPDX-License-Identifier: Apache-2.0
// Includes pto_orchestration_api.h, for orchestrations that name this header as well.
#ifndef PTO_SIMPLER_RUNTIME_H
#define PTO_SIMPLER_RUNTIME_H

#include "pto_orchestration_api.h"

#endif
