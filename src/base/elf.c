/* SPDX-License-Identifier: Apache-2.0 */
/* Validates shared objects and isolates them from each other. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for memmem */
#endif

#include "base/elf.h"

#include <gelf.h>
#include <string.h>

#include "base/error.h"

#if defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#elif defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#endif

enum { SEGMENTS_MAX = 64, PAGE_MIN = 4096 };
#define ADDRESS_MAX (1ull << 46)

/* View of an object in memory, with offsets and counts from its headers. */
struct object_view {
    uint8_t *bytes;
    uint64_t size;
    uint32_t machine; /* ELF machine number that is required; 0: any */
    GElf_Phdr load[SEGMENTS_MAX];
    uint32_t load_count;
    uint64_t dynamic_at;    /* offset of the dynamic section in the file */
    uint64_t dynamic_count; /* entries of the dynamic section, including the final DT_NULL */
    uint64_t dynamic_room;  /* number of entries that fit into the dynamic section */
    uint64_t symbol_at;
    uint64_t symbol_count;
};

static int read_segments(struct object_view *v, struct pto_error *error);
static int read_dynamic(struct object_view *v, struct pto_error *error);
static int count_symbols(struct object_view *v, struct pto_error *error);
static void isolate_symbols(struct object_view *v, struct elf_changes *changes);
static void isolate_dynamic(struct object_view *v, struct elf_changes *changes);
static bool elf_keeps_signals(const struct object_view *v);
static bool program_keeps_signals(const struct object_view *v);
static bool elf_find_address(const struct object_view *v, uint64_t address, uint64_t bytes,
                             uint64_t *at_out);
static bool find_dynamic(const struct object_view *v, int64_t tag, uint64_t *value_out);

int elf_isolate(void *bytes, size_t size, struct elf_changes *changes, struct pto_error *error)
{
    return elf_isolate_for(MACHINE, bytes, size, changes, error);
}

int elf_isolate_for(uint32_t machine, void *bytes, size_t size, struct elf_changes *changes,
                    struct pto_error *error)
{
    struct object_view v = { .bytes = bytes, .size = size, .machine = machine };
    struct elf_changes none;
    int status = read_segments(&v, error);

    if (changes == NULL)
        changes = &none;
    *changes = (struct elf_changes){ 0 };
    if (status >= 0)
        status = read_dynamic(&v, error);
    if (status >= 0)
        status = count_symbols(&v, error);
    if (status < 0)
        return status;
    changes->keeps_signals = elf_keeps_signals(&v);
    isolate_symbols(&v, changes);
    isolate_dynamic(&v, changes);
    return PTO_OK;
}

bool elf_program_keeps_signals(const void *bytes, size_t size)
{
    /* the cast removes const, but the bytes are only read */
    struct object_view v = { .bytes = (uint8_t *)(uintptr_t)bytes, .size = size };

    return read_segments(&v, NULL) >= 0 && read_dynamic(&v, NULL) >= 0 &&
           count_symbols(&v, NULL) >= 0 && program_keeps_signals(&v);
}

bool elf_exports(const void *bytes, size_t size, const char *symbol)
{
    /* the cast removes const, but the bytes are only read */
    struct object_view v = { .bytes = (uint8_t *)(uintptr_t)bytes, .size = size };
    size_t length = strlen(symbol) + 1;
    uint64_t names, names_size, names_at;

    if (read_segments(&v, NULL) < 0 || read_dynamic(&v, NULL) < 0 || count_symbols(&v, NULL) < 0 ||
        !find_dynamic(&v, DT_STRTAB, &names) || !find_dynamic(&v, DT_STRSZ, &names_size) ||
        !elf_find_address(&v, names, names_size, &names_at))
        return false;
    for (uint64_t i = 0; i < v.symbol_count; i++) {
        Elf64_Sym entry;

        memcpy(&entry, v.bytes + v.symbol_at + i * sizeof(entry), sizeof(entry));
        if (entry.st_shndx != SHN_UNDEF && length <= names_size &&
            entry.st_name <= names_size - length &&
            memcmp(v.bytes + names_at + entry.st_name, symbol, length) == 0)
            return true;
    }
    return false;
}

const void *elf_section(const void *bytes, size_t size, const char *name, size_t *size_out)
{
    const void *found = NULL;
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    size_t names;
    Elf *elf;

    (void)elf_version(EV_CURRENT);
    /* the cast removes const, but elf_memory only reads the bytes */
    elf = elf_memory((char *)(uintptr_t)bytes, size);
    if (elf != NULL && elf_kind(elf) == ELF_K_ELF && elf_getshdrstrndx(elf, &names) == 0)
        while (found == NULL && (section = elf_nextscn(elf, section)) != NULL) {
            const char *text = gelf_getshdr(section, &header) != NULL
                                   ? elf_strptr(elf, names, header.sh_name)
                                   : NULL;

            if (text == NULL || strcmp(text, name) != 0 || header.sh_type != SHT_PROGBITS ||
                header.sh_offset > size || header.sh_size > size - header.sh_offset)
                continue;
            found = (const char *)bytes + header.sh_offset;
            *size_out = header.sh_size;
        }
    elf_end(elf);
    return found;
}

static int elf_damaged(struct pto_error *error, const char *what)
{
    return error_setf(error, PTO_ELOAD, "%s; build it again", what);
}

/* ---- headers ---- */

static int check_machine(Elf *elf, uint32_t machine, struct pto_error *error)
{
    GElf_Ehdr header;

    if (elf == NULL || elf_kind(elf) != ELF_K_ELF || gelf_getehdr(elf, &header) == NULL)
        return elf_damaged(error, "it is not a shared object (ELF)");
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        (machine != EM_NONE && header.e_machine != machine))
        return error_setf(error, PTO_ELOAD,
                          "it is code for another machine (ELF machine %u), and this one is "
                          "%s; build it for this one",
                          header.e_machine, machine == EM_AARCH64 ? "aarch64" : "x86-64");
    if (header.e_type != ET_DYN)
        return error_setf(error, PTO_ELOAD,
                          "it is an object file or a program, not a shared object; link it with "
                          "-shared");
    return PTO_OK;
}

/*
 * Whether the segment lies inside of the file and of the address space, after the segments before
 * it, and has offsets that can be mapped.
 */
static bool is_loadable(const struct object_view *v, const GElf_Phdr *p)
{
    const GElf_Phdr *before = v->load_count != 0 ? &v->load[v->load_count - 1] : NULL;

    return v->load_count < SEGMENTS_MAX && p->p_offset <= v->size &&
           p->p_filesz <= v->size - p->p_offset && p->p_filesz <= p->p_memsz &&
           p->p_vaddr < ADDRESS_MAX && p->p_memsz < ADDRESS_MAX &&
           p->p_vaddr % PAGE_MIN == p->p_offset % PAGE_MIN && p->p_align < ADDRESS_MAX &&
           (p->p_align & (p->p_align - 1)) == 0 &&
           (before == NULL || p->p_vaddr >= before->p_vaddr + before->p_memsz);
}

static int keep_segment(struct object_view *v, const GElf_Phdr *p, struct pto_error *error)
{
    if (p->p_type == PT_LOAD) {
        if (!is_loadable(v, p))
            return elf_damaged(error,
                               "it is damaged or truncated: a segment lies outside of the file");
        v->load[v->load_count++] = *p;
    }
    if (p->p_type == PT_DYNAMIC) {
        if (p->p_offset > v->size || p->p_filesz > v->size - p->p_offset ||
            p->p_offset % sizeof(uint64_t) != 0)
            return elf_damaged(error,
                               "it is damaged: the dynamic section lies outside of the file");
        v->dynamic_at = p->p_offset;
        v->dynamic_room = p->p_filesz / sizeof(Elf64_Dyn);
    }
    return PTO_OK;
}

static int read_segments(struct object_view *v, struct pto_error *error)
{
    size_t count = 0;
    Elf *elf;
    int status;

    (void)elf_version(EV_CURRENT);
    elf = elf_memory((char *)v->bytes, v->size);
    status = check_machine(elf, v->machine, error);
    if (status >= 0 && elf_getphdrnum(elf, &count) != 0)
        status = elf_damaged(error, "it is damaged: there is no table of segments");
    for (size_t i = 0; i < count && status >= 0; i++) {
        GElf_Phdr p;

        if (gelf_getphdr(elf, (int)i, &p) == NULL)
            status =
                elf_damaged(error, "it is damaged: the table of segments lies outside of the file");
        else
            status = keep_segment(v, &p, error);
    }
    elf_end(elf);
    if (status >= 0 && v->load_count == 0)
        status = elf_damaged(error, "it has no segment to load");
    return status;
}

/*
 * Finds the offset in the file of an address of the object. False: the file has fewer than `bytes`
 * bytes there.
 */
static bool elf_find_address(const struct object_view *v, uint64_t address, uint64_t bytes,
                             uint64_t *at_out)
{
    for (uint32_t i = 0; i < v->load_count; i++) {
        const GElf_Phdr *p = &v->load[i];

        if (address >= p->p_vaddr && address - p->p_vaddr <= p->p_filesz &&
            bytes <= p->p_filesz - (address - p->p_vaddr)) {
            *at_out = p->p_offset + (address - p->p_vaddr);
            return true;
        }
    }
    return false;
}

/* ---- the dynamic section, which the loader uses ---- */

static Elf64_Dyn dynamic_at(const struct object_view *v, uint64_t index)
{
    Elf64_Dyn entry;

    memcpy(&entry, v->bytes + v->dynamic_at + index * sizeof(entry), sizeof(entry));
    return entry;
}

static void set_dynamic(struct object_view *v, uint64_t index, int64_t tag, uint64_t value)
{
    Elf64_Dyn entry = { .d_tag = tag, .d_un.d_val = value };

    memcpy(v->bytes + v->dynamic_at + index * sizeof(entry), &entry, sizeof(entry));
}

static bool find_dynamic(const struct object_view *v, int64_t tag, uint64_t *value_out)
{
    for (uint64_t i = 0; i < v->dynamic_count; i++) {
        Elf64_Dyn entry = dynamic_at(v, i);

        if (entry.d_tag == tag) {
            *value_out = entry.d_un.d_val;
            return true;
        }
    }
    return false;
}

static int read_dynamic(struct object_view *v, struct pto_error *error)
{
    static const struct {
        int64_t start, size, entry;
    } tables[] = {
        { DT_STRTAB, DT_STRSZ, 1 },
        { DT_RELA, DT_RELASZ, sizeof(Elf64_Rela) },
        { DT_JMPREL, DT_PLTRELSZ, sizeof(Elf64_Rela) },
        { DT_INIT_ARRAY, DT_INIT_ARRAYSZ, sizeof(uint64_t) },
        { DT_FINI_ARRAY, DT_FINI_ARRAYSZ, sizeof(uint64_t) },
    };
    bool has_end = false;

    while (!has_end && v->dynamic_count < v->dynamic_room)
        has_end = dynamic_at(v, v->dynamic_count++).d_tag == DT_NULL;
    if (!has_end)
        return elf_damaged(error,
                           "it is damaged, or linked statically: the dynamic section is missing "
                           "or has no end");
    for (uint32_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        uint64_t start, size, at;

        if (!find_dynamic(v, tables[i].start, &start))
            continue;
        if (!find_dynamic(v, tables[i].size, &size) || size % (uint64_t)tables[i].entry != 0 ||
            !elf_find_address(v, start, size, &at))
            return elf_damaged(error, "it is damaged: a table of the dynamic section lies "
                                      "outside of the file");
    }
    return PTO_OK;
}

static uint32_t word_at(const struct object_view *v, uint64_t at)
{
    uint32_t word;

    memcpy(&word, v->bytes + at, sizeof(word));
    return word;
}

/* Counts the symbols from the GNU hash table: the end of its last chain is the last symbol. */
static bool count_gnu_hash(const struct object_view *v, uint64_t address, uint64_t *count_out)
{
    uint64_t at, buckets_at, chain_at, last = 0;
    uint32_t buckets, first, bloom_words;

    if (!elf_find_address(v, address, 16, &at))
        return false;
    buckets = word_at(v, at);
    first = word_at(v, at + 4);
    bloom_words = word_at(v, at + 8);
    if (buckets == 0 || bloom_words == 0 || (bloom_words & (bloom_words - 1)) != 0)
        /* refuse values with which the loader would divide by zero or use an invalid mask */
        return false;
    if (!elf_find_address(v, address, 16 + 8ull * bloom_words + 4ull * buckets, &at))
        return false;
    buckets_at = at + 16 + 8ull * bloom_words;
    for (uint32_t i = 0; i < buckets; i++) {
        uint32_t symbol = word_at(v, buckets_at + 4ull * i);

        last = symbol > last ? symbol : last;
    }
    *count_out = first;
    if (last < first)
        return last == 0;
    chain_at = address + 16 + 8ull * bloom_words + 4ull * buckets;
    for (;; last++) {
        if (!elf_find_address(v, chain_at + 4 * (last - first), 4, &at))
            return false;
        if ((word_at(v, at) & 1) != 0)
            break;
    }
    *count_out = last + 1;
    return true;
}

static int count_symbols(struct object_view *v, struct pto_error *error)
{
    uint64_t symbols, hash, entry, at;
    bool is_there = find_dynamic(v, DT_SYMTAB, &symbols);

    if (is_there && find_dynamic(v, DT_GNU_HASH, &hash))
        is_there = count_gnu_hash(v, hash, &v->symbol_count);
    else if (is_there && find_dynamic(v, DT_HASH, &hash)) {
        is_there = elf_find_address(v, hash, 8, &at);
        v->symbol_count = is_there ? word_at(v, at + 4) : 0;
    } else
        is_there = false;
    if (!is_there || !find_dynamic(v, DT_SYMENT, &entry) || entry != sizeof(Elf64_Sym) ||
        !elf_find_address(v, symbols, v->symbol_count * sizeof(Elf64_Sym), &v->symbol_at))
        return elf_damaged(error,
                           "it is damaged: the table of symbols is missing or lies outside of "
                           "the file");
    return PTO_OK;
}

/* ---- changes that isolate the object ---- */

static void isolate_symbols(struct object_view *v, struct elf_changes *changes)
{
    for (uint64_t i = 0; i < v->symbol_count; i++) {
        uint8_t *info =
            v->bytes + v->symbol_at + i * sizeof(Elf64_Sym) + offsetof(Elf64_Sym, st_info);

        if (ELF64_ST_BIND(*info) != STB_GNU_UNIQUE)
            continue;
        *info = ELF64_ST_INFO(STB_GLOBAL, ELF64_ST_TYPE(*info));
        changes->unique_symbols++;
    }
}

/*
 * Adds DT_SYMBOLIC in the place of an existing entry: of DT_SONAME, or of a spare DT_NULL that
 * linkers leave at the end. DT_FLAGS gets DF_SYMBOLIC instead.
 */
static void isolate_dynamic(struct object_view *v, struct elf_changes *changes)
{
    for (uint64_t i = 0; i < v->dynamic_count; i++) {
        Elf64_Dyn entry = dynamic_at(v, i);

        if (entry.d_tag == DT_SONAME) {
            set_dynamic(v, i, DT_SYMBOLIC, 0);
            changes->has_lost_name = changes->is_bound_to_itself = true;
        } else if (entry.d_tag == DT_FLAGS) {
            set_dynamic(v, i, DT_FLAGS, entry.d_un.d_val | DF_SYMBOLIC);
            changes->is_bound_to_itself = true;
        } else if (entry.d_tag == DT_SYMBOLIC) {
            changes->is_bound_to_itself = true;
        }
    }
    if (!changes->is_bound_to_itself && v->dynamic_count < v->dynamic_room &&
        dynamic_at(v, v->dynamic_count).d_tag == DT_NULL) {
        set_dynamic(v, v->dynamic_count - 1, DT_SYMBOLIC, 0);
        v->dynamic_count++;
        changes->is_bound_to_itself = true;
    }
}

/* ---- can the code change the signal mask? ---- */

/* Returns the text at an offset of the string table; NULL: it does not end inside of the object. */
static const char *elf_text_at(const struct object_view *v, uint64_t offset)
{
    uint64_t start, size, at;

    if (!find_dynamic(v, DT_STRTAB, &start) || !find_dynamic(v, DT_STRSZ, &size) ||
        !elf_find_address(v, start, size, &at) || offset >= size ||
        memchr(v->bytes + at + offset, '\0', size - offset) == NULL)
        return NULL;
    return (const char *)v->bytes + at + offset;
}

static bool elf_has_prefix(const char *text, const char *const *prefixes)
{
    for (; *prefixes != NULL; prefixes++)
        if (strncmp(text, *prefixes, strlen(*prefixes)) == 0)
            return true;
    return false;
}

/*
 * Whether the object needs only libraries of the compiler and of the runtime. The libraries in
 * `more` are allowed as well.
 */
static bool needs_known_libraries(const struct object_view *v, const char *const *more)
{
    static const char *const known[] = { "libc.so.",      "libm.so.",       "libgcc_s.so.",
                                         "libstdc++.so.", "libpthread.so.", "libdl.so.",
                                         "ld-linux-",     "libptosim.so.",  NULL };

    for (uint64_t i = 0; i < v->dynamic_count; i++) {
        Elf64_Dyn entry = dynamic_at(v, i);
        const char *name = entry.d_tag == DT_NEEDED ? elf_text_at(v, entry.d_un.d_val) : "libc.so.";

        if (name == NULL || (!elf_has_prefix(name, known) && !elf_has_prefix(name, more)))
            return false;
    }
    return true;
}

/*
 * Whether all imported symbols come from known libraries, whose symbols have versions. A symbol
 * without a version may come from the program; it is allowed if its name has a known prefix.
 */
static bool imports_known_symbols(const struct object_view *v, const char *const *more)
{
    static const char *const known[] = { "__gmon_start__", "_ITM_", "__cxa_finalize", "pto_sim_",
                                         NULL };
    uint64_t versions = 0, at = 0;
    bool has_versions = find_dynamic(v, DT_VERSYM, &versions) &&
                        elf_find_address(v, versions, 2 * v->symbol_count, &at);

    for (uint64_t i = 1; i < v->symbol_count; i++) {
        uint16_t version = VER_NDX_GLOBAL;
        const char *name;
        Elf64_Sym symbol;

        memcpy(&symbol, v->bytes + v->symbol_at + i * sizeof(symbol), sizeof(symbol));
        if (symbol.st_shndx != SHN_UNDEF)
            continue;
        if (has_versions)
            memcpy(&version, v->bytes + at + 2 * i, sizeof(version));
        name = elf_text_at(v, symbol.st_name);
        if (name == NULL || (version <= VER_NDX_GLOBAL && !elf_has_prefix(name, known) &&
                             !elf_has_prefix(name, more)))
            return false;
    }
    return true;
}

static bool has_word(const struct object_view *v, const char *const *words)
{
    for (uint32_t i = 0; i < v->load_count; i++)
        for (const char *const *word = words; *word != NULL; word++)
            if (memmem(v->bytes + v->load[i].p_offset, v->load[i].p_filesz, *word, strlen(*word)) !=
                NULL)
                return true;
    return false;
}

/*
 * Whether the object names functions that change the signal mask, as an import or as a string, with
 * which it could look one up.
 */
static bool names_signals(const struct object_view *v)
{
    static const char *const words[] = { "sigmask", "sigprocmask", "sigset",     "sigblock",
                                         "sighold", "sigrelse",    "setcontext", "swapcontext",
                                         "longjmp", "syscall",     NULL };

    return has_word(v, words);
}

/*
 * Whether the code has bytes that look like a system call instruction. After a false match, runs
 * save and restore the signal mask needlessly.
 */
static bool calls_system(const struct object_view *v)
{
#if defined(__aarch64__)
    static const uint8_t call[] = { 0x01, 0x00, 0x00, 0xd4 };
#elif defined(__x86_64__)
    static const uint8_t call[] = { 0x0f, 0x05 };
#endif

    for (uint32_t i = 0; i < v->load_count; i++)
        if ((v->load[i].p_flags & PF_X) != 0 &&
            memmem(v->bytes + v->load[i].p_offset, v->load[i].p_filesz, call, sizeof(call)) != NULL)
            return true;
    return false;
}

static bool elf_keeps_signals(const struct object_view *v)
{
    static const char *const none[] = { NULL };

    return needs_known_libraries(v, none) && imports_known_symbols(v, none) && !names_signals(v) &&
           !calls_system(v);
}

/*
 * elf_keeps_signals for a program, which may call the runtime. A program that loads code at run
 * time could do anything.
 */
static bool program_keeps_signals(const struct object_view *v)
{
    static const char *const libraries[] = { "libpto.so.", NULL };
    static const char *const symbols[] = { "pto_", NULL };
    static const char *const loads[] = { "dlopen", "dlmopen", "dlsym", "dlvsym", NULL };

    return needs_known_libraries(v, libraries) && imports_known_symbols(v, symbols) &&
           !names_signals(v) && !has_word(v, loads) && !calls_system(v);
}
