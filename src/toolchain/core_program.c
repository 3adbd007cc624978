/* SPDX-License-Identifier: Apache-2.0 */
#include "toolchain/core_program.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "toolchain/note.h"

#define CUBE_ENTRY "_mix_aic"
#define VECTOR_ENTRY "_mix_aiv"

/* A 64-bit ELF file in memory, read by offsets that were checked. */
struct image {
    const char *bytes;
    size_t size;
    Elf64_Ehdr head;
};

static bool read_at(const struct image *image, uint64_t offset, void *to, size_t size)
{
    if (offset > image->size || size > image->size - offset)
        return false;
    memcpy(to, image->bytes + offset, size);
    return true;
}

static bool core_program_open_image(struct image *image, const void *bytes, size_t size)
{
    image->bytes = bytes;
    image->size = size;
    return read_at(image, 0, &image->head, sizeof(image->head)) &&
           memcmp(image->head.e_ident, ELFMAG, SELFMAG) == 0 &&
           image->head.e_ident[EI_CLASS] == ELFCLASS64 &&
           image->head.e_shentsize == sizeof(Elf64_Shdr);
}

static uint64_t section_at(const struct image *image, uint32_t index)
{
    return image->head.e_shoff + index * sizeof(Elf64_Shdr);
}

static bool read_section(const struct image *image, uint32_t index, Elf64_Shdr *section)
{
    return index < image->head.e_shnum &&
           read_at(image, section_at(image, index), section, sizeof(*section));
}

/* Returns a name from a string table; "" if it is missing or unterminated. */
static const char *core_program_name_of(const struct image *image, uint32_t table, uint32_t offset)
{
    Elf64_Shdr strings;

    if (!read_section(image, table, &strings) || offset >= strings.sh_size ||
        strings.sh_offset > image->size || strings.sh_size > image->size - strings.sh_offset ||
        memchr(image->bytes + strings.sh_offset + offset, 0, strings.sh_size - offset) == NULL)
        return "";
    return image->bytes + strings.sh_offset + offset;
}

bool core_program_unload_note(void *object, size_t size)
{
    Elf64_Shdr section;
    struct image image;

    if (!core_program_open_image(&image, object, size))
        return false;
    for (uint32_t i = 0; read_section(&image, i, &section); i++) {
        if (strcmp(core_program_name_of(&image, image.head.e_shstrndx, section.sh_name),
                   NOTE_SECTION) != 0)
            continue;
        section.sh_flags &= ~(uint64_t)SHF_ALLOC;
        memcpy((char *)object + section_at(&image, i), &section, sizeof(section));
    }
    return true;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);

    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Finds the function in a symbol table whose name has this suffix. */
static bool core_program_find_entry(const struct image *image, const Elf64_Shdr *table,
                                    const char *end, uint64_t *value_out)
{
    Elf64_Sym symbol;

    for (uint64_t at = 0; at + sizeof(symbol) <= table->sh_size; at += sizeof(symbol)) {
        if (!read_at(image, table->sh_offset + at, &symbol, sizeof(symbol)))
            return false;
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF ||
            !ends_with(core_program_name_of(image, table->sh_link, symbol.st_name), end))
            continue;
        *value_out = symbol.st_value;
        return true;
    }
    return false;
}

int core_program_check(const void *program, size_t size, struct pto_error *error)
{
    Elf64_Shdr section, first = { 0 };
    uint64_t cube = 0, vector = 0;
    bool has_both = false;
    struct image image;

    if (!core_program_open_image(&image, program, size))
        return error_setf(error, PTO_EBUILD, "the program for cores is not a 64-bit ELF file");
    for (uint32_t i = 0; read_section(&image, i, &section); i++) {
        if ((section.sh_flags & SHF_ALLOC) != 0 && first.sh_type == SHT_NULL)
            first = section;
        if (section.sh_type == SHT_SYMTAB)
            has_both = core_program_find_entry(&image, &section, CUBE_ENTRY, &cube) &&
                       core_program_find_entry(&image, &section, VECTOR_ENTRY, &vector);
    }
    if ((first.sh_flags & SHF_EXECINSTR) == 0 || first.sh_addr != 0)
        return error_setf(error, PTO_EBUILD,
                          "the program for cores begins with section '%.100s' at 0x%llx, and the "
                          "vendor's runtime starts entries as if it began with code at 0; this "
                          "linker is not supported: see docs/internals/onboard.md",
                          core_program_name_of(&image, image.head.e_shstrndx, first.sh_name),
                          (unsigned long long)first.sh_addr);
    if (has_both && cube >= vector)
        return error_setf(error, PTO_EBUILD,
                          "the program for cores has *" CUBE_ENTRY " at 0x%llx and *" VECTOR_ENTRY
                          " at 0x%llx, and the vendor's runtime wants the second one to follow "
                          "the first; this linker is not supported: see docs/internals/onboard.md",
                          (unsigned long long)cube, (unsigned long long)vector);
    return PTO_OK;
}
