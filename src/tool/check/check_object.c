/* SPDX-License-Identifier: Apache-2.0 */
/* Embeds the shared object that the children of a level-3 worker load from memory. */
#include "tool/check/check_child.h"
#include "tool/scene/embed.h"

EMBED(check_object, OBJECT_PATH);
