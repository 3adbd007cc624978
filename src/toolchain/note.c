/* SPDX-License-Identifier: Apache-2.0 */
#include "toolchain/note.h"

#include <libelf.h>
#include <gelf.h>
#include <string.h>

enum { NOTE_TYPE = 1, NOTE_NAME_BYTES = 4 };

void note_header(const struct digest *key, bool is_core, struct text *out)
{
    if (is_core)
        text_format(out, "__attribute__((used, section(\"" NOTE_SECTION "\")))\n"
                         "static const unsigned char pto_note_key[] = { 'P', 'T', 'O', 0");
    else
        text_format(out,
                    "__asm__(\".pushsection " NOTE_SECTION ",\\\"a\\\",%%note\\n\"\n"
                    "        \".balign 4\\n.long %d, %d, %d\\n.asciz \\\"PTO\\\"\\n.byte \"\n"
                    "        \"",
                    NOTE_NAME_BYTES, DIGEST_BYTES, NOTE_TYPE);
    for (int i = 0; i < DIGEST_BYTES; i++)
        text_format(out, is_core || i != 0 ? ", %d" : "%d", key->byte[i]);
    text_format(out, is_core ? " };\n" : "\\n.popsection\\n\");\n");
}

/*
 * Whether these bytes contain the name of the note followed by the key. The bytes may begin with or
 * without the header of a note.
 */
static bool has_key(const char *bytes, size_t size, const struct digest *key)
{
    for (size_t i = 0; i + NOTE_NAME_BYTES + DIGEST_BYTES <= size; i += 4)
        if (memcmp(bytes + i, "PTO", NOTE_NAME_BYTES) == 0 &&
            memcmp(bytes + i + NOTE_NAME_BYTES, key, DIGEST_BYTES) == 0)
            return true;
    return false;
}

struct search {
    const struct digest *key; /* key to search for; NULL: search for `symbol` */
    const char *symbol;
    bool is_empty; /* the symbol must be a function that only returns */
};

/*
 * Whether the code begins with a return instruction, possibly after the instruction that marks the
 * target of an indirect branch.
 */
static bool is_return(const unsigned char *code, size_t size, unsigned machine)
{
    static const unsigned char endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
    static const unsigned char bti_c[] = { 0x5f, 0x24, 0x03, 0xd5 };
    static const unsigned char ret[] = { 0xc0, 0x03, 0x5f, 0xd6 };
    size_t skipped = 0;

    if (size >= 4 && (memcmp(code, machine == EM_X86_64 ? endbr64 : bti_c, 4) == 0))
        skipped = 4;
    if (machine == EM_X86_64)
        return size > skipped && code[skipped] == 0xc3;
    return machine == EM_AARCH64 && size >= skipped + 4 && memcmp(code + skipped, ret, 4) == 0;
}

static bool is_empty_function(Elf *elf, const GElf_Sym *symbol)
{
    Elf_Scn *section = elf_getscn(elf, symbol->st_shndx);
    GElf_Shdr header;
    GElf_Ehdr head;
    Elf_Data *data = section != NULL ? elf_rawdata(section, NULL) : NULL;
    uint64_t at;

    if (data == NULL || data->d_buf == NULL || gelf_getshdr(section, &header) == NULL ||
        gelf_getehdr(elf, &head) == NULL || symbol->st_value < header.sh_addr)
        return false;
    at = symbol->st_value - header.sh_addr;
    return at < data->d_size &&
           is_return((const unsigned char *)data->d_buf + at, data->d_size - at, head.e_machine);
}

static bool has_symbol(Elf *elf, const GElf_Shdr *header, Elf_Data *data,
                       const struct search *search)
{
    size_t count = header->sh_entsize != 0 ? data->d_size / header->sh_entsize : 0;

    for (size_t i = 0; i < count; i++) {
        const char *text;
        GElf_Sym symbol;

        if (gelf_getsym(data, (int)i, &symbol) == NULL || symbol.st_shndx == SHN_UNDEF ||
            GELF_ST_BIND(symbol.st_info) == STB_LOCAL)
            continue;
        text = elf_strptr(elf, header->sh_link, symbol.st_name);
        if (text != NULL && strcmp(text, search->symbol) == 0)
            return !search->is_empty || is_empty_function(elf, &symbol);
    }
    return false;
}

static bool search_section(Elf *elf, Elf_Scn *section, size_t names, const struct search *search)
{
    Elf_Data *data;
    GElf_Shdr header;
    const char *name;

    if (gelf_getshdr(section, &header) == NULL)
        return false;
    if (search->symbol != NULL) {
        if (header.sh_type != SHT_DYNSYM && header.sh_type != SHT_SYMTAB)
            return false;
        data = elf_getdata(section, NULL);
        return data != NULL && has_symbol(elf, &header, data, search);
    }
    name = elf_strptr(elf, names, header.sh_name);
    if (name == NULL || strcmp(name, NOTE_SECTION) != 0)
        return false;
    data = elf_rawdata(section, NULL);
    return data != NULL && data->d_buf != NULL && has_key(data->d_buf, data->d_size, search->key);
}

static bool note_search_object(const void *object, size_t size, const struct search *search)
{
    Elf_Scn *section = NULL;
    bool is_found = false;
    size_t names;
    Elf *elf;

    if (elf_version(EV_CURRENT) == EV_NONE)
        return false;
    /* the cast removes const, but libelf only reads the bytes */
    elf = elf_memory((char *)(uintptr_t)object, size);
    if (elf == NULL)
        return false;
    if (elf_kind(elf) == ELF_K_ELF && elf_getshdrstrndx(elf, &names) == 0)
        while (!is_found && (section = elf_nextscn(elf, section)) != NULL)
            is_found = search_section(elf, section, names, search);
    elf_end(elf);
    return is_found;
}

bool note_check(const void *object, size_t size, const struct digest *key)
{
    return note_search_object(object, size, &(struct search){ .key = key });
}

bool note_exports(const void *object, size_t size, const char *name)
{
    return note_search_object(object, size, &(struct search){ .symbol = name });
}

bool note_is_empty(const void *object, size_t size, const char *name)
{
    return note_search_object(object, size, &(struct search){ .symbol = name, .is_empty = true });
}
