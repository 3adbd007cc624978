/* SPDX-License-Identifier: Apache-2.0 */
/* Embeds the compiled bench_child.c, which the children of `pto bench tree` load. */
#include "tool/bench/bench_tree.h"
#include "tool/scene/embed.h"

EMBED(bench_object, OBJECT_PATH);
