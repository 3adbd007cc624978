/* SPDX-License-Identifier: Apache-2.0 */
#define LANE 0
#include "reached.h"
