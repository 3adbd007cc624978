/* SPDX-License-Identifier: Apache-2.0 */
/* Code for the children of a worker of level 3, a part of the command: they get it from memory. */
#include "tool/check/check_child.h"
#include "tool/scene/embed.h"

EMBED(check_object, OBJECT_PATH);
