/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints those ELF tables of a program for the card that its loader reads, so that no other tool is
 * needed.
 */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/cli/selfcheck.h"

enum { ELF_MAX = 64 << 20, SYMBOLS_SHOWN = 400 };

struct image {
    const char *bytes;
    size_t size;
    const Elf64_Ehdr *header;
    const Elf64_Shdr *section;
    const Elf64_Shdr *names; /* string table with the names of the sections */
};

/* Returns a text in a string table; "?" if it is not inside of the file. */
static const char *selfcheck_elf_text_at(const struct image *image, const Elf64_Shdr *table,
                                         uint64_t at)
{
    uint64_t from = table->sh_offset + at;

    if (table->sh_offset > image->size || at >= table->sh_size || from >= image->size ||
        memchr(image->bytes + from, '\0', image->size - from) == NULL)
        return "?";
    return image->bytes + from;
}

static bool selfcheck_elf_open_image(struct image *image)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)(const void *)image->bytes;

    if (image->size < sizeof(*h) || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 ||
        h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_shentsize != sizeof(Elf64_Shdr) ||
        h->e_shoff % _Alignof(Elf64_Shdr) != 0 || h->e_shoff > image->size ||
        h->e_shnum > (image->size - h->e_shoff) / sizeof(Elf64_Shdr) || h->e_shstrndx >= h->e_shnum)
        return false;
    image->header = h;
    image->section = (const Elf64_Shdr *)(const void *)(image->bytes + h->e_shoff);
    image->names = &image->section[h->e_shstrndx];
    return true;
}

static void write_sections(FILE *to, const struct image *image)
{
    fprintf(to, "  section, type, flags, address, offset, size\n");
    for (uint32_t i = 0; i < image->header->e_shnum; i++) {
        const Elf64_Shdr *s = &image->section[i];

        fprintf(to, "  [%2u] %-24s %2u %s%s%s %#llx %#llx %#llx\n", i,
                selfcheck_elf_text_at(image, image->names, s->sh_name), s->sh_type,
                (s->sh_flags & SHF_ALLOC) != 0 ? "A" : "-",
                (s->sh_flags & SHF_EXECINSTR) != 0 ? "X" : "-",
                (s->sh_flags & SHF_WRITE) != 0 ? "W" : "-", (unsigned long long)s->sh_addr,
                (unsigned long long)s->sh_offset, (unsigned long long)s->sh_size);
    }
}

static void write_symbols(FILE *to, const struct image *image, const Elf64_Shdr *table)
{
    const Elf64_Shdr *names;
    const Elf64_Sym *symbol;
    uint64_t count = table->sh_size / sizeof(*symbol), shown = 0;

    if (table->sh_link >= image->header->e_shnum || table->sh_offset > image->size ||
        table->sh_size > image->size - table->sh_offset ||
        table->sh_offset % _Alignof(Elf64_Sym) != 0)
        return;
    names = &image->section[table->sh_link];
    symbol = (const Elf64_Sym *)(const void *)(image->bytes + table->sh_offset);
    fprintf(to, "  symbol of %s: value, size, type, binding, visibility, section\n",
            selfcheck_elf_text_at(image, image->names, table->sh_name));
    for (uint64_t i = 0; i < count; i++) {
        if (ELF64_ST_BIND(symbol[i].st_info) == STB_LOCAL)
            continue;
        if (shown++ == SYMBOLS_SHOWN) {
            fprintf(to, "  and more\n");
            return;
        }
        fprintf(to, "  %#llx %#llx %u %u %u %u %s\n", (unsigned long long)symbol[i].st_value,
                (unsigned long long)symbol[i].st_size, ELF64_ST_TYPE(symbol[i].st_info),
                ELF64_ST_BIND(symbol[i].st_info), ELF64_ST_VISIBILITY(symbol[i].st_other),
                symbol[i].st_shndx, selfcheck_elf_text_at(image, names, symbol[i].st_name));
    }
}

static void write_image(FILE *to, struct image *image)
{
    if (!selfcheck_elf_open_image(image)) {
        fprintf(to, "  is not a 64-bit ELF file with sections\n");
        return;
    }
    fprintf(to, "  type %u, machine %u, flags %#x, entry %#llx, %zu bytes\n", image->header->e_type,
            image->header->e_machine, image->header->e_flags,
            (unsigned long long)image->header->e_entry, image->size);
    write_sections(to, image);
    for (uint32_t i = 0; i < image->header->e_shnum; i++)
        if (image->section[i].sh_type == SHT_SYMTAB || image->section[i].sh_type == SHT_DYNSYM)
            write_symbols(to, image, &image->section[i]);
}

void cli_selfcheck_write_elf(FILE *to, const char *path)
{
    FILE *from = fopen(path, "re");
    struct image image = { .bytes = NULL };
    char *bytes;

    fprintf(to, "%s\n", path);
    if (from == NULL) {
        fprintf(to, "  cannot be read: %s\n", strerror(errno));
        return;
    }
    bytes = malloc(ELF_MAX);
    image.size = bytes != NULL ? fread(bytes, 1, ELF_MAX, from) : 0;
    image.bytes = bytes;
    write_image(to, &image);
    free(bytes);
    fclose(from);
}
