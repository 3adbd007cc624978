/* SPDX-License-Identifier: Apache-2.0 */
#define LANE 1
#include "reached.h"
