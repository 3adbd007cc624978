/* SPDX-License-Identifier: Apache-2.0 */
#define LANE 2
#include "reached.h"
