/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Embeds a file in the command. The module that uses EMBED declares the bytes in its header:
 *
 * extern const unsigned char name[], name_end[];
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
