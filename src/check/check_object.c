/* SPDX-License-Identifier: Apache-2.0 */
/* Code for the children of a worker of level 3, a part of the command: they get it from memory. */
#include "check/check_child.h"

__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        ".globl check_object, check_object_end\n"
        ".hidden check_object, check_object_end\n"
        "check_object:\n"
        ".incbin \"" CHECK_OBJECT "\"\n"
        "check_object_end:\n"
        ".popsection\n");
