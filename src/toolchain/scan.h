/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which files a compilation can see, found by reading them, not by asking a compiler.
 *
 * Every operand of #include, #include_next, #import and __has_include is
 * followed, in branches that are not taken as well: the scan has at least the
 * files that a compiler opens. Each path that the search order looks at is an
 * entry, present with the digest of its content, or absent: a header that
 * appears there later would shadow another one.
 *
 * Paths of entries are absolute, and links in their folders are resolved; the
 * file itself may be a link. A folder that is missing is one entry, with a final
 * slash, for all that would be looked for in it. Compare them with realpath of a folder, or use
 * scan_find, which knows a file under any name.
 *
 * A memo holds what was read: files that many sources include are read once,
 * and never again, so a memo lives for one build and sees no later change.
 * Any number of threads may scan with one memo. A scan borrows from its memo,
 * and is used by one thread at a time.
 */
#ifndef PTO_SCAN_H
#define PTO_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digest.h"
#include "pto/pto.h"

struct scan_memo;
struct scan;

/* The content of `instead` stands for that of `path`; the folder is still that of `path`. */
struct scan_overlay {
    const char *path;
    const char *instead;
};

struct scan_params {
    const char *source;
    const char *const *quote_dirs; /* -iquote: for #include "x" only */
    uint32_t quote_dir_count;
    const char *const *dirs; /* -I, CPATH and so on, the system's: in the compiler's order */
    uint32_t dir_count;
    const char *const *forced; /* -include, -imacros: looked for as "x" from the current folder */
    uint32_t forced_count;
    /*
     * Further files to start from, by their paths: what a compiler lists (-MD) beyond an
     * open-ended scan. Spelled as it spells them: so it is known where it would look before.
     */
    const char *const *roots;
    uint32_t root_count;
    const struct scan_overlay *overlays;
    uint32_t overlay_count;
};

struct scan_entry {
    const char *path;
    struct digest digest; /* of the content, if it is present */
    bool is_present;      /* absent: nothing there, a folder, or not to be read */
};

/* What reading alone does not tell. */
enum scan_open_kind {
    SCAN_OPEN_INCLUDE,     /* #include MACRO */
    SCAN_OPEN_HAS_INCLUDE, /* __has_include(MACRO), or its name handed on in a #define */
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
/* After all its scans. Accepts NULL. */
void scan_memo_destroy(struct scan_memo *memo);
/* The digest of one file's content, remembered like the rest. PTO_ESYSTEM: it cannot be read. */
int scan_memo_digest(struct scan_memo *memo, const char *path, struct digest *out);

/*
 * PTO_ESYSTEM: the source cannot be read; PTO_ENOSUP: a header is larger than 256 MiB;
 * PTO_ENOMEM. `error` may be NULL.
 */
int scan_files(struct scan_memo *memo, const struct scan_params *params, struct scan **scan_out,
               struct pto_error *error);
void scan_destroy(struct scan *scan);

/* Of all entries; equal for equal files and parameters, in any process. Costs no entry list. */
void scan_digest(const struct scan *scan, struct digest *out);

/*
 * The entries, each path once, in the order in which they were found: the
 * source is the first one. The list is made at the first use: NULL or 0
 * without memory.
 */
uint32_t scan_entry_count(struct scan *scan);
const struct scan_entry *scan_entry_at(struct scan *scan, uint32_t index);
/* The entry of a file, whatever its spelling; NULL: the scan does not have it. */
const struct scan_entry *scan_find(struct scan *scan, const char *path);

/* The scan is open-ended if there is one. */
uint32_t scan_open_count(const struct scan *scan);
const struct scan_open *scan_open_at(const struct scan *scan, uint32_t index);
/* "computed #include" and so on. */
const char *scan_open_name(enum scan_open_kind kind);

#endif
