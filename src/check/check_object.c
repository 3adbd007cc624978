/* SPDX-License-Identifier: Apache-2.0 */
/* Code for the children of a worker of level 3, a part of the command: they get it from memory. */
#include "check/check_child.h"
#include "scene/embed.h"

EMBED(check_object, OBJECT_PATH);
