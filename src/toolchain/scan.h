/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the files that a compilation can read, by lexing them, without running a compiler.
 *
 * Every operand of #include, #include_next, #import and __has_include is followed, also in branches
 * that are not taken, so the scan has at least the files that a compiler opens. Each path of the
 * search is an entry: present, with the digest of its content, or absent, because a header that
 * appears there later would shadow another one.
 *
 * Paths of entries are absolute, and links in their folders are resolved; the file itself may be a
 * link. A missing folder is one entry, with a final slash, for all paths below it. Compare paths
 * with realpath of a folder, or use scan_find, which finds a file by any of its names.
 *
 * A memo holds the files read so far: a file that many sources include is read once, so a memo
 * lives for one build and sees no later change. Any number of threads may scan with one memo. A
 * scan borrows from its memo, and is used by one thread at a time.
 */
#ifndef PTO_SCAN_H
#define PTO_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "pto/pto.h"

struct scan_memo;
struct scan;

/*
 * A file whose content is replaced by that of `instead`. Relative includes are still resolved from
 * the folder of `path`.
 */
struct scan_overlay {
    const char *path;
    const char *instead;
};

struct scan_params {
    const char *source;
    const char *const *quote_dirs; /* folders of -iquote, for #include "x" only */
    uint32_t quote_dir_count;
    /* folders of -I and CPATH, then the system's, in the compiler's order */
    const char *const *dirs;
    uint32_t dir_count;
    /* headers of -include and -imacros, searched like "x" from the current folder */
    const char *const *forced;
    uint32_t forced_count;
    /*
     * Additional files to start from: files that a compiler lists (-MD) and the scan lacks, because
     * it could not resolve a dependency. Spelled as the compiler spells them: the spelling shows in
     * which folders the compiler searched before.
     */
    const char *const *roots;
    uint32_t root_count;
    const struct scan_overlay *overlays;
    uint32_t overlay_count;
};

struct scan_entry {
    const char *path;
    struct digest digest; /* SHA-256 of the content, if the file is present */
    bool is_present;      /* false: there is no such file, it is a folder, or it cannot be read */
};

/* Dependencies that lexing cannot resolve. */
enum scan_open_kind {
    SCAN_OPEN_INCLUDE,     /* #include MACRO */
    SCAN_OPEN_HAS_INCLUDE, /* __has_include(MACRO), or its name passed on in a #define */
    SCAN_OPEN_EMBED,       /* #embed, __has_embed */
    SCAN_OPEN_ASSEMBLER    /* .incbin, or .include in a string: the assembler opens a file */
};

struct scan_open {
    enum scan_open_kind kind;
    const char *path;
    uint32_t line;
    const char *text; /* the operand as written, shortened */
};

int scan_memo_create(struct scan_memo **memo_out);
/* Destroys a memo, after all its scans. Accepts NULL. */
void scan_memo_destroy(struct scan_memo *memo);
/* Returns the digest of one file's content, also cached. PTO_ESYSTEM: it cannot be read. */
int scan_memo_digest(struct scan_memo *memo, const char *path, struct digest *out);

/*
 * Scans a source. PTO_ESYSTEM: the source cannot be read; PTO_ENOSUP: a header is larger than 256
 * MiB; or PTO_ENOMEM. `error` may be NULL.
 */
int scan_files(struct scan_memo *memo, const struct scan_params *params, struct scan **scan_out,
               struct pto_error *error);
void scan_destroy(struct scan *scan);

/*
 * Computes the digest of all entries, which is equal for equal files and parameters, in any
 * process. The list of entries need not exist.
 */
void scan_digest(const struct scan *scan, struct digest *out);

/*
 * Return the entries: each path once, in the order in which they were found, starting with the
 * source. The list is made at the first use; if memory is exhausted the functions return NULL or 0.
 */
uint32_t scan_entry_count(struct scan *scan);
const struct scan_entry *scan_entry_at(struct scan *scan, uint32_t index);
/* Returns the entry of a file, whatever its spelling; NULL: the scan does not have it. */
const struct scan_entry *scan_find(struct scan *scan, const char *path);

/*
 * Returns the number of dependencies that lexing could not resolve. If there are any, the scan may
 * lack files.
 */
uint32_t scan_open_count(const struct scan *scan);
const struct scan_open *scan_open_at(const struct scan *scan, uint32_t index);
/* Returns "computed #include" and so on. */
const char *scan_open_name(enum scan_open_kind kind);

#endif
