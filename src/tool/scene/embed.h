/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file as a part of the command. The header of whoever uses it has
 *
 *     extern const unsigned char name[], name_end[];
 */
#ifndef PTO_EMBED_H
#define PTO_EMBED_H

#define EMBED(name, path)                             \
    __asm__(".pushsection .rodata\n"                  \
            ".balign 64\n"                            \
            ".globl " #name "\n"                      \
            ".hidden " #name "\n" #name ":\n"         \
            ".incbin \"" path "\"\n"                  \
            ".globl " #name "_end\n"                  \
            ".hidden " #name "_end\n" #name "_end:\n" \
            ".popsection\n")

#endif
