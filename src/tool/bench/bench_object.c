/* SPDX-License-Identifier: Apache-2.0 */
/* What children of a worker run that is measured, a part of the command. */
#include "tool/bench/bench_tree.h"
#include "tool/scene/embed.h"

EMBED(bench_object, OBJECT_PATH);
