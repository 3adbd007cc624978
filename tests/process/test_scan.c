/* SPDX-License-Identifier: Apache-2.0 */
/* variants: plain asan tsan */
/*
 * The scanner: what it finds in trees that are made for the purpose, how its lexer handles
 * difficult texts, and whether it finds every file that the compilers of this machine open for real
 * sources.
 */
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/os.h"
#include "toolchain/lexer.h"
#include "toolchain/scan.h"
#include "tests/fixture/fixture.h"

/* A sanitizer checks the scanner and not compilers, which take most of the time of a comparison. */
enum { SANITIZED_STEP = IS_SANITIZED ? 30 : 1 };

enum { TEXT_MAX = 4096, DIRS_MAX = 32 };

static char top[] = "/tmp/test_scan.XXXXXX";

static int make_top(void **state)
{
    (void)state;
    return mkdtemp(top) != NULL ? 0 : -1;
}

static int remove_top(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", top);
    return system(command);
}

/* Runs for a second, or for PTO_TEST_SECONDS. */
static uint64_t fuzz_deadline(void)
{
    const char *seconds = getenv("PTO_TEST_SECONDS");

    return os_now_ns() + (seconds != NULL ? strtoull(seconds, NULL, 10) : 1) * 1000000000;
}

/* Names in the tests are relative to the root of the tree. */
static const char *at(const char *name)
{
    static char path[64][256];
    static int next;

    next = (next + 1) % 64;
    snprintf(path[next], sizeof(path[next]), "%s/%s", top, name);
    return path[next];
}

static void make_file(const char *name, const char *text)
{
    char folder[256];

    snprintf(folder, sizeof(folder), "%s", at(name));
    *strrchr(folder, '/') = '\0';
    assert_int_equal(file_make_folder(folder), PTO_OK);
    assert_int_equal(file_write(at(name), text, strlen(text)), PTO_OK);
}

/* An empty tree with the folders a, b and q. */
static void empty_tree(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -rf %s/* && mkdir %s/a %s/b %s/q", top, top, top, top);
    assert_int_equal(system(command), 0);
}

struct one_scan {
    struct scan_memo *memo;
    struct scan *scan;
    struct digest digest;
};

/* Scans main.c with the include folders a and b, and q for quoted names only. */
static struct one_scan scan_tree(const struct scan_params *more)
{
    const char *dirs[] = { at("a"), at("b") };
    const char *quote[] = { at("q") };
    struct scan_params params = more != NULL ? *more : (struct scan_params){ 0 };
    struct one_scan one;
    struct pto_error error = { .size = sizeof(error) };

    params.source = at("main.c");
    params.dirs = dirs;
    params.dir_count = 2;
    params.quote_dirs = quote;
    params.quote_dir_count = 1;
    assert_int_equal(scan_memo_create(&one.memo), PTO_OK);
    assert_int_equal(scan_files(one.memo, &params, &one.scan, &error), PTO_OK);
    scan_digest(one.scan, &one.digest);
    return one;
}

static void end_scan(struct one_scan *one)
{
    scan_destroy(one->scan);
    scan_memo_destroy(one->memo);
}

static const struct scan_entry *entry_of(const struct one_scan *one, const char *name)
{
    for (uint32_t i = 0; i < scan_entry_count(one->scan); i++)
        if (strcmp(scan_entry_at(one->scan, i)->path, at(name)) == 0)
            return scan_entry_at(one->scan, i);
    return NULL;
}

static void assert_state(const struct one_scan *one, const char *name, bool is_present)
{
    const struct scan_entry *entry = entry_of(one, name);

    if (entry == NULL)
        print_message("no entry for %s\n", name);
    assert_non_null(entry);
    assert_int_equal(entry->is_present, is_present);
}

static struct digest digest_now(void)
{
    struct one_scan one = scan_tree(NULL);

    end_scan(&one);
    return one.digest;
}

static void assert_changes(const struct digest *before)
{
    struct digest now = digest_now();

    assert_false(digest_is_equal(before, &now));
}

/* ---- trees ---- */

static void finds_headers_at_any_depth_and_in_untaken_branches(void **state)
{
    struct one_scan one;
    struct digest content;

    (void)state;
    empty_tree();
    make_file("main.c", "#include <one.h>\n#if 0\n#include \"never.h\"\n#endif\n"
                        "#ifdef NOT\n#  if NOT > 3\n#include <not.h>\n#endif\n#else\n#endif\n");
    make_file("a/one.h", "#include \"sub/two.h\"\n");
    make_file("a/sub/two.h", "#include \"three.h\"\n");
    make_file("a/sub/three.h", "#include <four.h>");
    make_file("b/four.h", "#include \"one.h\"\nint four;\n");
    make_file("never.h", "#include \"deep.h\"\n");
    make_file("deep.h", "");
    make_file("b/not.h", "");
    one = scan_tree(NULL);
    assert_string_equal(scan_entry_at(one.scan, 0)->path, at("main.c"));
    for (const char *const *p =
             (const char *const[]){ "a/one.h", "a/sub/two.h", "a/sub/three.h", "b/four.h",
                                    "never.h", "deep.h", "b/not.h", NULL };
         *p != NULL; p++)
        assert_state(&one, *p, true);
    assert_state(&one, "a/four.h", false);
    assert_state(&one, "a/not.h", false);
    digest_of("#include \"one.h\"\nint four;\n", 27, &content);
    assert_true(digest_is_equal(&entry_of(&one, "b/four.h")->digest, &content));
    assert_int_equal(scan_open_count(one.scan), 0);
    end_scan(&one);
}

static void quotes_and_angles_search_in_their_own_orders(void **state)
{
    struct one_scan one;

    (void)state;
    empty_tree();
    make_file("main.c", "#include \"x.h\"\n#include <x.h>\n#include \"y.h\"\n#include <y.h>\n"
                        "#include \"z.h\"\n");
    make_file("x.h", "");
    make_file("q/x.h", "");
    make_file("a/x.h", "");
    make_file("q/y.h", "");
    make_file("b/y.h", "");
    make_file("b/z.h", "");
    one = scan_tree(NULL);
    assert_state(&one, "x.h", true);
    assert_state(&one, "a/x.h", true);
    assert_null(entry_of(&one, "q/x.h"));
    assert_null(entry_of(&one, "b/x.h"));
    assert_state(&one, "y.h", false);
    assert_state(&one, "q/y.h", true);
    assert_state(&one, "a/y.h", false);
    assert_state(&one, "b/y.h", true);
    assert_state(&one, "z.h", false);
    assert_state(&one, "q/z.h", false);
    assert_state(&one, "a/z.h", false);
    assert_state(&one, "b/z.h", true);
    end_scan(&one);
}

static void include_next_takes_every_file_of_the_name(void **state)
{
    struct one_scan one;

    (void)state;
    empty_tree();
    make_file("main.c", "#include <x.h>\n#if __has_include_next(<only.h>)\n#endif\n");
    make_file("a/x.h", "#include_next <x.h>\n");
    make_file("b/x.h", "#include \"behind.h\"\n");
    make_file("b/behind.h", "");
    make_file("b/only.h", "");
    one = scan_tree(NULL);
    assert_state(&one, "b/x.h", true);
    assert_state(&one, "b/behind.h", true);
    assert_state(&one, "a/only.h", false);
    assert_state(&one, "b/only.h", true);
    end_scan(&one);
}

static void has_include_counts_present_and_absent(void **state)
{
    struct one_scan one;

    (void)state;
    empty_tree();
    make_file("main.c",
              "#if defined(__has_include) && __has_include(<there.h>)\n#endif\n"
              "#ifdef __has_include\n# if !__has_include ( \"gone.h\" )\n# endif\n#endif\n"
              "#define MAYBE __has_include(<maybe.h>)\n"
              "#ifndef __has_include\n#define __has_include(x) 0\n#endif\n"
              "#if FOO\n#elif HAS_HEADER(<by_macro.h>) || 0\n#endif\n");
    make_file("a/there.h", "");
    make_file("b/maybe.h", "");
    one = scan_tree(NULL);
    assert_state(&one, "a/there.h", true);
    assert_state(&one, "gone.h", false);
    assert_state(&one, "b/gone.h", false);
    assert_state(&one, "b/maybe.h", true);
    assert_state(&one, "a/by_macro.h", false);
    assert_int_equal(scan_open_count(one.scan), 0);
    end_scan(&one);
}

static void a_new_header_that_shadows_changes_the_digest(void **state)
{
    static const char *const places[] = { "a/sub/x.h", "q/sub/x.h", "sub/x.h" };
    struct digest before;

    (void)state;
    empty_tree();
    make_file("main.c", "#include \"sub/x.h\"\n#if __has_include(<opt.h>)\n#endif\n");
    make_file("b/sub/x.h", "int x;\n");
    for (int i = 0; i < 3; i++) { /* each new file is found before the one that was made last */
        before = digest_now();
        make_file(places[i], "int x;\n"); /* the same content: it is another file */
        assert_changes(&before);
    }
    before = digest_now();
    make_file("b/opt.h", "");
    assert_changes(&before);
    before = digest_now();
    make_file("a/sub/y.h", ""); /* no operand names it */
    {
        struct digest now = digest_now();

        assert_true(digest_is_equal(&before, &now));
    }
}

static void missing_folders_are_entries_and_may_appear(void **state)
{
    struct one_scan one;
    struct digest before;

    (void)state;
    empty_tree();
    make_file("main.c", "#include <sys/x.h>\n#include <sys/y.h>\n#include <../none/z.h>\n");
    make_file("b/sys/x.h", "");
    one = scan_tree(NULL);
    assert_state(&one, "a/sys/", false);
    assert_null(entry_of(&one, "a/sys/x.h"));
    assert_state(&one, "b/sys/y.h", false);
    end_scan(&one);
    before = one.digest;
    make_file("a/sys/x.h", "");
    assert_changes(&before);
    before = digest_now();
    make_file("none/z.h", "");
    assert_changes(&before);
}

static void forced_includes_are_found_and_further_roots_followed(void **state)
{
    const char *forced[] = { "forced.h", at("abs.h") };
    const char *roots[1];
    struct scan_params params = { .forced = forced, .forced_count = 2 };
    struct digest before;
    struct one_scan one;

    (void)state;
    empty_tree();
    forced[1] = at("abs.h");
    roots[0] = at("more.inc");
    make_file("main.c", "");
    make_file("b/forced.h", "#include \"inner.h\"\n");
    make_file("b/inner.h", "");
    make_file("abs.h", "");
    make_file("more.inc", "#include <of_more.h>\n");
    make_file("a/of_more.h", "");
    one = scan_tree(&params);
    assert_state(&one, "a/forced.h", false);
    assert_state(&one, "b/forced.h", true);
    assert_state(&one, "b/inner.h", true);
    assert_state(&one, "abs.h", true);
    assert_null(entry_of(&one, "more.inc"));
    end_scan(&one);
    before = one.digest;
    params.roots = roots;
    params.root_count = 1;
    one = scan_tree(&params);
    assert_state(&one, "more.inc", true);
    assert_state(&one, "a/of_more.h", true);
    assert_false(digest_is_equal(&before, &one.digest));
    end_scan(&one);
    before = one.digest;
    make_file("q/forced.h", "");
    one = scan_tree(&params);
    assert_false(digest_is_equal(&before, &one.digest));
    end_scan(&one);
}

/*
 * A compiler has found c/sub/x.h and d/../e/y.h: a header that shadows one of them must change the
 * digest.
 */
static void roots_can_be_shadowed(void **state)
{
    char dir[4][256], root[2][280];
    const char *dirs[] = { dir[0], dir[1], dir[2], dir[3] };
    const char *roots[] = { root[0], root[1] };
    static const char *const shadows[] = { "b/sub/x.h", "a/sub/x.h", "sub/x.h" };
    struct scan_params params = { .dirs = dirs, .dir_count = 4, .roots = roots, .root_count = 2 };
    struct digest before, now;

    (void)state;
    empty_tree();
    for (int i = 0; i < 4; i++)
        snprintf(dir[i], sizeof(dir[i]), "%s", at((const char *const[]){ "a", "b/", "c", "d" }[i]));
    snprintf(root[0], sizeof(root[0]), "%s/sub/x.h", dir[2]);
    snprintf(root[1], sizeof(root[1]), "%s/../e/y.h", dir[3]);
    make_file("main.c", "#define X <sub/x.h>\n#include X\n#define Y \"../e/y.h\"\n#include Y\n");
    make_file("c/sub/x.h", "");
    make_file("d/z.h", "");
    make_file("e/y.h", "");
    params.source = at("main.c");
    for (int i = -1; i < 3; i++) {
        struct scan_memo *memo;
        struct scan *scan;

        if (i >= 0)
            make_file(shadows[i], "");
        assert_int_equal(scan_memo_create(&memo), PTO_OK);
        assert_int_equal(scan_files(memo, &params, &scan, NULL), PTO_OK);
        scan_digest(scan, &now);
        assert_non_null(scan_find(scan, root[0]));
        assert_non_null(scan_find(scan, at("e/y.h")));
        if (i >= 0)
            assert_true(scan_find(scan, at(shadows[i])) != NULL && !digest_is_equal(&before, &now));
        before = now;
        scan_destroy(scan);
        scan_memo_destroy(memo);
    }
}

static void an_overlay_stands_for_a_file_in_its_folder(void **state)
{
    struct scan_overlay overlay = { .path = at("a/x.h"), .instead = at("store/patched") };
    struct scan_params params = { .overlays = &overlay, .overlay_count = 1 };
    struct digest plain, patched;
    struct one_scan one;

    (void)state;
    empty_tree();
    make_file("main.c", "#include <x.h>\n");
    make_file("a/x.h", "#include \"old.h\"\n");
    make_file("a/new.h", "");
    make_file("store/patched", "#include \"new.h\"\n");
    plain = digest_now();
    overlay = (struct scan_overlay){ .path = at("a/x.h"), .instead = at("store/patched") };
    one = scan_tree(&params);
    patched = one.digest;
    assert_false(digest_is_equal(&plain, &patched));
    assert_state(&one, "a/new.h", true);
    assert_null(entry_of(&one, "a/old.h"));
    digest_of("#include \"new.h\"\n", 17, &plain);
    assert_true(digest_is_equal(&entry_of(&one, "a/x.h")->digest, &plain));
    end_scan(&one);
    make_file("store/patched", "#include \"new.h\"\n\n");
    one = scan_tree(&params);
    assert_false(digest_is_equal(&one.digest, &patched));
    end_scan(&one);
}

static void circles_end_whatever_their_spelling(void **state)
{
    struct one_scan one;

    (void)state;
    empty_tree();
    make_file("main.c", "#include <d/x.h>\n#include \"main.c\"\n");
    make_file("a/d/x.h", "#include \"../d/y.h\"\n#include \"./../../a/d/x.h\"\n");
    make_file("a/d/y.h", "#include \"../d/x.h\"\n#include \"loop/x.h\"\n");
    assert_int_equal(symlink(".", at("a/d/loop")), 0);
    one = scan_tree(NULL);
    assert_state(&one, "a/d/y.h", true);
    /* and two absent entries of stdc-predef.h */
    assert_int_equal(scan_entry_count(one.scan), 3 + 2);
    assert_ptr_equal(scan_find(one.scan, at("a/d/loop/../d/y.h")), entry_of(&one, "a/d/y.h"));
    assert_null(scan_find(one.scan, at("b/nothing.h")));
    assert_null(scan_find(one.scan, "/etc/passwd"));
    end_scan(&one);
}

static void a_source_without_includes_has_the_header_that_compilers_begin_with(void **state)
{
    struct one_scan one;

    (void)state;
    empty_tree();
    make_file("main.c", "int x;\n");
    make_file("b/stdc-predef.h", "");
    one = scan_tree(NULL);
    assert_state(&one, "a/stdc-predef.h", false);
    assert_state(&one, "b/stdc-predef.h", true);
    end_scan(&one);
}

static void links_are_files_of_their_own_folders(void **state)
{
    struct one_scan one;

    (void)state;
    empty_tree();
    make_file("main.c", "#include <link.h>\n");
    make_file("elsewhere/real.h", "#include \"beside.h\"\n");
    make_file("a/beside.h", ""); /* relative to the folder of the link, where compilers search */
    assert_int_equal(symlink("../elsewhere/real.h", at("a/link.h")), 0);
    one = scan_tree(NULL);
    assert_state(&one, "a/beside.h", true);
    assert_ptr_equal(scan_find(one.scan, at("elsewhere/real.h")), entry_of(&one, "a/link.h"));
    end_scan(&one);
}

static void only_contents_count(void **state)
{
    struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
    struct digest before, now;

    (void)state;
    empty_tree();
    make_file("main.c", "#include <x.h>\n");
    make_file("a/x.h", "#include \"y.h\"\n");
    make_file("a/y.h", "int a;\n");
    before = digest_now();
    for (const char *const *p = (const char *const[]){ "main.c", "a/x.h", "a/y.h", NULL };
         *p != NULL; p++)
        assert_int_equal(utimensat(AT_FDCWD, at(*p), old, 0), 0);
    now = digest_now();
    assert_true(digest_is_equal(&before, &now));
    make_file("a/y.h", "int b;\n");
    assert_int_equal(utimensat(AT_FDCWD, at("a/y.h"), old, 0), 0);
    assert_changes(&before);
    before = digest_now();
    make_file("main.c", "#include <x.h>\n\n");
    assert_changes(&before);
}

static void what_cannot_be_read_is_said(void **state)
{
    struct scan_params params = { .source = at("none.c") };
    const char *roots[] = { at("none.inc") };
    struct scan_memo *memo;
    struct scan *scan;
    struct pto_error error = { .size = sizeof(error) };
    struct digest digest;

    (void)state;
    empty_tree();
    assert_int_equal(scan_memo_create(&memo), PTO_OK);
    assert_int_equal(scan_files(memo, &params, &scan, &error), PTO_ESYSTEM);
    assert_non_null(strstr(error.text, "none.c cannot be read: No such file"));
    params.source = at("a");
    assert_int_equal(scan_files(memo, &params, &scan, NULL), PTO_ESYSTEM);
    make_file("main.c", "");
    params.source = at("main.c");
    params.roots = roots;
    params.root_count = 1;
    assert_int_equal(scan_files(memo, &params, &scan, &error), PTO_OK);
    assert_false(scan_find(scan, at("none.inc"))->is_present);
    scan_destroy(scan);
    make_file("big.c", "#include \"big.h\"\n");
    make_file("big.h", "");
    assert_int_equal(truncate(at("big.h"), 300 << 20), 0);
    params = (struct scan_params){ .source = at("big.c") };
    assert_int_equal(scan_files(memo, &params, &scan, &error), PTO_ENOSUP);
    assert_non_null(strstr(error.text, "big.c includes is larger than 256 MiB"));
    assert_int_equal(scan_memo_digest(memo, at("none.c"), &digest), PTO_ESYSTEM);
    assert_int_equal(scan_memo_digest(memo, at("main.c"), &digest), PTO_OK);
    scan_memo_destroy(memo);
}

static void what_is_open_has_its_file_and_line(void **state)
{
    static const struct {
        enum scan_open_kind kind;
        const char *name;
        uint32_t line;
        const char *text;
    } expected[] = {
        { SCAN_OPEN_INCLUDE, "main.c", 3, "MACRO" },
        { SCAN_OPEN_ASSEMBLER, "main.c", 7, "\".incbin \\\"data\\\"\");" },
        { SCAN_OPEN_HAS_INCLUDE, "a/x.h", 2, "MACRO)" },
        { SCAN_OPEN_EMBED, "a/x.h", 4, "<data.bin>" },
    };
    struct one_scan one;

    (void)state;
    empty_tree();
    make_file("main.c",
              "#include <x.h>\n/*\n*/ # include MACRO\n"
              "#define S \"a \\\nb\"\nint x; asm(\"nop\");\nasm(\".incbin \\\"data\\\"\");\n"
              "/* .incbin */ // .incbin\nint f(struct s s) { return s.include; }\n");
    make_file("a/x.h", "\n#if __has_include(MACRO)\n#endif\n#embed <data.bin>\n");
    one = scan_tree(NULL);
    assert_int_equal(scan_open_count(one.scan), 4);
    for (uint32_t i = 0; i < 4; i++) {
        const struct scan_open *open = scan_open_at(one.scan, i);

        assert_int_equal(open->kind, expected[i].kind);
        assert_string_equal(open->path, at(expected[i].name));
        assert_int_equal(open->line, expected[i].line);
        assert_string_equal(open->text, expected[i].text);
        assert_non_null(scan_open_name(open->kind));
    }
    assert_null(scan_open_at(one.scan, 4));
    end_scan(&one);
}

/* ---- the lexer ---- */

static void write_operand(void *context, const char *text, bool is_angled, bool is_next)
{
    char *out = context;
    size_t used = strlen(out);

    snprintf(out + used, TEXT_MAX - used, "%s%c%s%c ", is_next ? "next" : "", is_angled ? '<' : '"',
             text, is_angled ? '>' : '"');
}

static void write_open(void *context, enum scan_open_kind kind, uint32_t line, const char *text)
{
    char *out = context;
    size_t used = strlen(out);

    (void)text;
    snprintf(out + used, TEXT_MAX - used, "%s@%u ",
             kind == SCAN_OPEN_INCLUDE       ? "include"
             : kind == SCAN_OPEN_HAS_INCLUDE ? "has"
             : kind == SCAN_OPEN_EMBED       ? "embed"
                                             : "asm",
             line);
}

static void ignore_open(void *context, enum scan_open_kind kind, uint32_t line, const char *text)
{
    (void)context;
    (void)kind;
    (void)line;
    (void)text;
}

/*
 * A block of exactly `size` bytes and a zero, so that a sanitizer detects every access beyond it.
 */
static void lex(const char *text, size_t size, bool has_opens, char out[TEXT_MAX])
{
    struct lexer_sink sink = { .operand = write_operand,
                               .open = has_opens ? write_open : ignore_open,
                               .context = out };
    char *copy = malloc(size + 1);

    assert_non_null(copy);
    memcpy(copy, text, size);
    copy[size] = '\0';
    out[0] = '\0';
    assert_true(lexer_run(copy, size, &sink));
    free(copy);
}

struct hard_text {
    const char *text;
    const char *operands;
};

static const struct hard_text hard_texts[] = {
    { "", "" },
    { "#include <a.h>", "<a.h> " },
    { "\xef\xbb\xbf#include <a.h>", "<a.h> " },
    { "  #  include  \"a.h\"  // <b.h>\n", "\"a.h\" " },
    { "#import <a.h>\n#include_next \"b.h\"\n", "<a.h> next\"b.h\" " },
    { "#include<a.h>\r\n#include\"b.h\"\r\n", "<a.h> \"b.h\" " },
    { "# /* c */ include /* d */ <a.h>", "<a.h> " },
    { "/* c */ #include <a.h>\n", "<a.h> " },
    { "/* c\n */ /* d */ # /* e\n */ include <a.h>\n", "<a.h> " },
    { "%:include <a.h>\n%: include <b.h>\n", "<a.h> <b.h> " },
    /* not directives */
    { "/*\n#include <a.h>\n*/\n", "" },
    { "// #include <a.h>\n", "" },
    { "// c \\\n#include <a.h>\n#include <b.h>\n", "<b.h> " },
    { "// c \\  \n#include <a.h>\n#include <b.h>\n", "<b.h> " },
    { "// c \\\\\n#include <a.h>\n#include <b.h>\n", "<b.h> " },
    { "/\\\n/ #include <a.h>\n", "" },
    { "/\\\n*\n#include <a.h>\n*\\\n/\n#include <b.h>\n", "<b.h> " },
    { "/* * / ** *\\\n/#include <a.h>\n", "<a.h> " },
    { "/* // */\n#include <a.h>\n", "<a.h> " },
    { "// /*\n#include <a.h>\n", "<a.h> " },
    { "x #include <a.h>\n", "" },
    { "\"\\\n#include <a.h>\"\n", "" },
    { "char *s = \"/*\";\n#include <a.h>\n", "<a.h> " },
    { "char *s = \"\\\"/*\";\n#include <a.h>\n", "<a.h> " },
    { "char *s = \"\\\\\"; /*\n#include <a.h>\n*/", "" },
    { "char c = '\"'; /*\n#include <a.h>\n*/", "" },
    { "char c = '\\''; /*\n#include <a.h>\n*/", "" },
    { "char *s = \"\\\\\n\"; /*\n#include <a.h>\n", "<a.h> " }, /* the quote is escaped */
    { "#define A '\"'\n#include <a.h>\n", "<a.h> " },
    { "#if 0\nit's /* not a comment\n#include <a.h>\n#endif\n", "<a.h> " },
    { "#error it's \"so\n#include <a.h>\n", "<a.h> " },
    { "int i = 1'000'000; /*\n#include <a.h>\n*/", "" },
    { "int i = 0x1'F + '\"' + 0b1'0;\n#include <a.h>\n", "<a.h> " },
    { "x = u'\"'; /*\n#include <a.h>\n*/", "" },
    { "#if 'a' == 97 && '\"' /*\n*/\n#include <a.h>\n#endif", "<a.h> " },
    /* raw strings */
    { "s = R\"(\n#include <a.h>\n)\";\n#include <b.h>\n", "<b.h> " },
    { "s = u8R\"x(\n#include <a.h>\n)\" )y\" )x\";\n#include <b.h>\n", "<b.h> " },
    { "s = LR\"(\\)\"; /*\n#include <a.h>\n*/", "" },
    { "s = R\"(/*)\";\n#include <a.h>\n", "<a.h> " },
    { "s = R\"(\\\n)\"; // \\\n\n#include <a.h>\n", "<a.h> " },
    { "s = BAR\"(\n#include <a.h>\n)\";\n", "<a.h> " },
    { "s = R\"(never ends\n#include <a.h>\n", "<a.h> " },
    { "s = R\"no delimiter(\n#include <a.h>\n)no delimiter\"", "<a.h> " },
    { "#define X R\"(\n#include <a.h>\n)\"\n#include <b.h>\n", "<b.h> " },
    /* continued lines */
    { "#inc\\\nlude <a.h>\n", "<a.h> " },
    { "#\\\ninclude \\\n <a\\\n.h>\n", "<a.h> " },
    { "\\\n#include <a.h>\n", "<a.h> " },
    { "#include \\ \t\r\n\"a.h\"\n", "\"a.h\" " },
    { "#inc?\?/\nlude <a.h>\n", "<a.h> " },
    { "// why?\?/\n#include <a.h>\n", "<a.h> " }, /* without trigraphs it is a raw string */
    { "?\?=include <a.h>\n", "<a.h> " },
    /* names */
    { "#include <a//b.h>\n#include <a/*b.h> */\n", "<a//b.h> <a/*b.h> " },
    { "#include \"a\\b.h\"\n#include \"c\\\"\n", "\"a\\b.h\" \"c\\\" " },
    { "#include \"a'b.h\"\n", "\"a'b.h\" " },
    { "#include \"never ends\n#include <a.h>\n", "<a.h> " },
    { "#include \"\"\n#include <>\n#include\n#include", "" },
    /* queries */
    { "#if __has_include(<a.h>) && !__has_include ( \"b.h\" )\n", "<a.h> \"b.h\" " },
    { "#if __has_include/**/(/**/<a.h>)\n", "<a.h> " },
    { "#if __has_\\\ninclude(<a.h>)\n", "<a.h> " },
    { "#elif __has_include_next(<a.h>)\n", "next<a.h> " },
    { "#ifdef __has_include\n#elif defined __has_include\n#endif\n", "" },
    { "#if HAS(<a.h>) || (X < 3) || OTHER(\"b.h\")\n", "<a.h> \"b.h\" " },
    { "#if A < 3 && B > 4\n#if (<3\n", "" },
    { "#define A __has_include(<a.h>)\n#define B \\\n  __has_include(\"b.h\")\n",
      "<a.h> \"b.h\" " },
    { "#define A \"x\" __has_\\\ninclude(<a.h>)\n", "<a.h> " },
    { "#define A \"<a.h>\" (<b.h>)\n#undef __has_include\n", "" },
    { "#define __has_include(x) 0\n", "" },
    { "\n#if __has_include(A)\n#define B __has_include\n", "has@2 has@3 " },
    { "#include A(x)\n\n#include_next B\n", "include@1 include@3 " },
    { "#embed \"x\"\n#if __has_embed(<y>)\n#endif", "embed@1 embed@2 " },
    { "asm(\".include \\\"x\\\"\");\n#define X(y) S(.incbin y)\n", "asm@1 asm@2 " },
    { "/* \".incbin\" */ x.include(); // .incbin\n", "" },
};

static void hard_texts_are_read_right(void **state)
{
    static const char with_zeros[] = "#include \0<a.h>\n\0\n#include <b\0c>\n";
    char out[TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(hard_texts) / sizeof(hard_texts[0]); i++) {
        lex(hard_texts[i].text, strlen(hard_texts[i].text), true, out);
        if (strcmp(out, hard_texts[i].operands) != 0)
            print_message("text: %s\n", hard_texts[i].text);
        assert_string_equal(out, hard_texts[i].operands);
    }
    lex(with_zeros, sizeof(with_zeros) - 1, true, out);
    assert_string_equal(out, "<a.h> <b> ");
}

/* ---- the lexer against a slow one ---- */

/*
 * The expected result for a text without raw strings, digits and trigraphs, computed in the phases
 * of the C standard.
 */
static void lex_slowly(const char *text, char out[TEXT_MAX])
{
    static char spliced[TEXT_MAX], plain[TEXT_MAX];
    size_t n = 0, m = 0;

    for (const char *p = text; *p != '\0'; p++) {
        const char *q = p + 1;

        while (*p == '\\' && (*q == ' ' || *q == '\t'))
            q++;
        if (*p == '\\' && *q == '\n')
            p = q;
        else
            spliced[n++] = *p;
    }
    spliced[n] = '\0';
    for (const char *p = spliced; *p != '\0';) {
        const char *end = NULL;
        bool is_name = false;

        if (*p == '"' || *p == '<') { /* the name after an #include is not a string */
            size_t back = m;

            while (back > 0 && plain[back - 1] == ' ')
                back--;
            if (back >= 7 && memcmp(plain + back - 7, "include", 7) == 0) {
                back -= 7;
                while (back > 0 && plain[back - 1] == ' ')
                    back--;
                if (back > 0 && plain[back - 1] == '#') {
                    back--;
                    while (back > 0 && plain[back - 1] == ' ')
                        back--;
                    is_name = back == 0 || plain[back - 1] == '\n';
                }
            }
        }
        if (is_name) {
            end = p + 1 + strcspn(p + 1, *p == '<' ? ">\n" : "\"\n");
            is_name = *end != '\0' && *end != '\n';
            if (!is_name)
                plain[m++] = '!'; /* tokens after a #define, not a name */
        }
        if (is_name) {
            while (p <= end)
                plain[m++] = *p++;
        } else if (p[0] == '/' && p[1] == '*') {
            end = strstr(p + 2, "*/");
            p = end != NULL ? end + 2 : p + strlen(p);
            plain[m++] = ' ';
        } else if (p[0] == '/' && p[1] == '/') {
            p += strcspn(p, "\n");
        } else if (*p == '"' || *p == '\'') {
            char quote = *p++;

            plain[m++] = 'S';
            while (*p != '\0' && *p != '\n' && *p != quote)
                p += *p == '\\' && p[1] != '\0' && p[1] != '\n' ? 2 : 1;
            p += *p == quote;
        } else {
            plain[m++] = *p++;
        }
    }
    plain[m] = '\0';
    out[0] = '\0';
    for (char *line = strtok(plain, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char name[64], close;

        if (sscanf(line, " # include <%63[^>]%c", name, &close) == 2 && close == '>')
            write_operand(out, name, true, false);
        else if (sscanf(line, " # include \"%63[^\"]%c", name, &close) == 2 && close == '"')
            write_operand(out, name, false, false);
    }
}

static void random_texts_are_read_as_by_a_slow_reader(void **state)
{
    static const char *const pieces[] = {
        "#",
        "include",
        " ",
        "<a>",
        "\"b\"",
        "\n",
        "\n",
        "/*",
        "*/",
        "//",
        "\\\n",
        "\\ \n",
        "\\",
        "\"",
        "'",
        "x",
        "/",
        "*",
        ">",
        "<",
        "\n#include <c>\n",
        "\n#include \"d\"\n",
        "\n # /* e */ include <f/*g>\n",
    };
    enum { PIECES = sizeof(pieces) / sizeof(pieces[0]) };
    uint64_t deadline = fuzz_deadline();
    uint64_t found = 0, count = 0;
    char text[TEXT_MAX], fast[TEXT_MAX], slow[TEXT_MAX];
    uint32_t random = 12345;

    (void)state;
    for (; os_now_ns() < deadline; count++) {
        size_t used = 0;

        for (int i = (int)(count % 60) + 1; i > 0; i--) {
            random = random * 1664525 + 1013904223;
            used += (size_t)sprintf(text + used, "%s", pieces[(random >> 16) % PIECES]);
        }
        lex(text, used, false, fast);
        lex_slowly(text, slow);
        if (strcmp(fast, slow) != 0)
            print_message("text %lu:\n%s\n", (unsigned long)count, text);
        assert_string_equal(fast, slow);
        found += fast[0] != '\0';
    }
    print_message("%lu texts, %lu of them with operands\n", (unsigned long)count,
                  (unsigned long)found);
    assert_true(found > count / 4);
}

static void count_operand(void *context, const char *text, bool is_angled, bool is_next)
{
    (void)text;
    (void)is_angled;
    (void)is_next;
    ++*(uint64_t *)context;
}

static void count_open(void *context, enum scan_open_kind kind, uint32_t line, const char *text)
{
    (void)kind;
    (void)text;
    *(uint64_t *)context += line != 0;
}

/* Random bytes: there is nothing to compare, but the lexer must not crash. */
static void random_bytes_do_no_harm(void **state)
{
    static const char spice[] = "#\"'<>()/*\\\n R?=%:.$\t\r\0includehas_embed__1";
    uint64_t deadline = fuzz_deadline();
    uint64_t count = 0, found = 0;
    struct lexer_sink sink = { .operand = count_operand, .open = count_open, .context = &found };
    uint32_t random = 777;

    (void)state;
    for (; os_now_ns() < deadline; count++) {
        const struct hard_text *hard =
            &hard_texts[count % (sizeof(hard_texts) / sizeof(hard_texts[0]))];
        size_t length = strlen(hard->text), size = length + count % 97;
        char *text = malloc(size + 1);

        assert_non_null(text);
        for (size_t i = 0; i < size; i++) {
            random = random * 1664525 + 1013904223;
            text[i] = i < length && (random >> 28) != 0 ? hard->text[i]
                      : (random >> 27 & 1) != 0         ? spice[(random >> 8) % sizeof(spice)]
                                                        : (char)(random >> 16);
        }
        text[size] = '\0';
        assert_true(lexer_run(text, size, &sink));
        free(text);
    }
    print_message("%lu texts, %lu operands\n", (unsigned long)count, (unsigned long)found);
}

/* ---- against the compilers ---- */

struct compiler {
    const char *name;
    const char *language;
    char dir[DIRS_MAX][256];
    const char *dirs[DIRS_MAX];
    uint32_t dir_count;
};

/* Lists the include folders that the compiler reports. False: there is no such compiler. */
static bool ask_compiler(struct compiler *compiler, const char *flags)
{
    char command[512], line[512];
    bool is_list = false;
    FILE *out;

    snprintf(command, sizeof(command),
             "command -v %s >/dev/null && LC_ALL=C %s %s -v -E -x %s /dev/null 2>&1 >/dev/null",
             compiler->name, compiler->name, flags, compiler->language);
    out = popen(command, "r");
    assert_non_null(out);
    compiler->dir_count = 0;
    while (fgets(line, sizeof(line), out) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "End of search list", 18) == 0)
            is_list = false;
        if (is_list && line[0] == ' ' && compiler->dir_count < DIRS_MAX) {
            snprintf(compiler->dir[compiler->dir_count], 256, "%.255s", line + 1);
            compiler->dirs[compiler->dir_count] = compiler->dir[compiler->dir_count];
            compiler->dir_count++;
        }
        if (strncmp(line, "#include <...>", 14) == 0)
            is_list = true;
    }
    return pclose(out) == 0 && compiler->dir_count != 0;
}

/* Checks that every file that the compiler lists is in the scan. Returns how many it lists. */
static uint32_t compare(struct scan_memo *memo, const struct compiler *compiler, const char *flags,
                        const char *source)
{
    struct scan_params params = { .source = source,
                                  .dirs = compiler->dirs,
                                  .dir_count = compiler->dir_count };
    char command[512], word[512];
    struct pto_error error = { .size = sizeof(error) };
    struct scan *scan;
    uint32_t count = 0;
    FILE *out;

    assert_int_equal(scan_files(memo, &params, &scan, &error), PTO_OK);
    snprintf(command, sizeof(command), "%s %s -M -x %s %s", compiler->name, flags,
             compiler->language, source);
    out = popen(command, "r");
    assert_non_null(out);
    while (fscanf(out, "%511s", word) == 1) {
        if (strcmp(word, "\\") == 0 || word[strlen(word) - 1] == ':')
            continue;

        const struct scan_entry *entry = scan_find(scan, word);

        if (entry == NULL || !entry->is_present)
            print_message("%s opens %s for %s, and the scan does not have it\n", compiler->name,
                          word, source);
        assert_non_null(entry);
        assert_true(entry->is_present);
        count++;
    }
    assert_int_equal(pclose(out), 0);
    scan_destroy(scan);
    return count;
}

static const char c_headers[] =
    "#include <assert.h>\n#include <complex.h>\n#include <ctype.h>\n#include <dirent.h>\n"
    "#include <dlfcn.h>\n#include <errno.h>\n#include <fcntl.h>\n#include <fenv.h>\n"
    "#include <float.h>\n#include <inttypes.h>\n#include <limits.h>\n#include <locale.h>\n"
    "#include <math.h>\n#include <netdb.h>\n#include <poll.h>\n#include <pthread.h>\n"
    "#include <sched.h>\n#include <semaphore.h>\n#include <setjmp.h>\n#include <signal.h>\n"
    "#include <stdarg.h>\n#include <stdatomic.h>\n#include <stdbool.h>\n#include <stddef.h>\n"
    "#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    "#include <sys/mman.h>\n#include <sys/socket.h>\n#include <sys/stat.h>\n#include <sys/wait.h>\n"
    "#include <tgmath.h>\n#include <time.h>\n#include <unistd.h>\n#include <wchar.h>\n"
    "#if defined(__x86_64__)\n#include <immintrin.h>\n#endif\n";

static const char cxx_headers[] =
    "#include <algorithm>\n#include <array>\n#include <atomic>\n#include <bitset>\n"
    "#include <chrono>\n#include <cmath>\n#include <complex>\n#include <condition_variable>\n"
    "#include <deque>\n#include <filesystem>\n#include <functional>\n#include <future>\n"
    "#include <iostream>\n#include <map>\n#include <memory>\n#include <mutex>\n#include <numeric>\n"
    "#include <random>\n#include <regex>\n#include <set>\n#include <sstream>\n#include <string>\n"
    "#include <thread>\n#include <tuple>\n#include <unordered_map>\n#include <variant>\n"
    "#include <vector>\n#include <stdlib.h>\n#include <math.h>\n";

static void every_file_that_a_compiler_opens_is_found(void **state)
{
    static struct compiler compilers[] = {
        { .name = "gcc", .language = "c" },
        { .name = "clang", .language = "c" },
        { .name = "g++", .language = "c++" },
        { .name = "clang++", .language = "c++" },
    };
    const char *flags = "-Iinclude -Isrc -I.";
    glob_t own;

    (void)state;
    if (IS_TSAN)
        skip(); /* this process has one thread */
    empty_tree();
    make_file("system.c", c_headers);
    make_file("system.cc", cxx_headers);
    /* the tests run in the root of the tree */
    assert_int_equal(glob("src/*/*.c", 0, NULL, &own), 0);
    for (int i = 0; i < 4; i += IS_SANITIZED ? 2 : 1) {
        struct compiler *compiler = &compilers[i];
        bool is_c = strcmp(compiler->language, "c") == 0;
        struct scan_memo *memo;
        uint32_t files = 0;
        uint64_t began;

        if (!ask_compiler(compiler, flags)) {
            print_message("there is no %s here\n", compiler->name);
            assert_int_not_equal(i, 0);
            continue;
        }
        assert_int_equal(scan_memo_create(&memo), PTO_OK);
        began = os_now_ns();
        files += compare(memo, compiler, flags, is_c ? at("system.c") : at("system.cc"));
        for (size_t k = 0; is_c && k < own.gl_pathc;
             k += (size_t)(i == 0 ? 3 : 12) * SANITIZED_STEP)
            files += compare(memo, compiler, flags, own.gl_pathv[k]);
        print_message("%s: %u files, all found (%lu ms with the compiler)\n", compiler->name, files,
                      (unsigned long)((os_now_ns() - began) / 1000000));
        assert_true(files > 50);
        scan_memo_destroy(memo);
    }
    globfree(&own);
}

/* Prints a figure, without judging it. */
static void time_of_a_scan(void **state)
{
    struct compiler compiler = { .name = "g++", .language = "c++" };
    uint64_t first = 0, again = 0;
    uint32_t files = 0;

    (void)state;
    empty_tree();
    make_file("system.cc", cxx_headers);
    if (!ask_compiler(&compiler, "")) {
        print_message("there is no g++ here\n");
        return;
    }
    for (int i = 0; i < 3; i++) {
        struct scan_params params = { .source = at("system.cc"),
                                      .dirs = compiler.dirs,
                                      .dir_count = compiler.dir_count };
        uint64_t began = os_now_ns();
        struct scan_memo *memo;
        struct scan *scan;

        assert_int_equal(scan_memo_create(&memo), PTO_OK);
        assert_int_equal(scan_files(memo, &params, &scan, NULL), PTO_OK);
        first = os_now_ns() - began;
        files = scan_entry_count(scan);
        scan_destroy(scan);
        began = os_now_ns();
        assert_int_equal(scan_files(memo, &params, &scan, NULL), PTO_OK);
        again = os_now_ns() - began;
        scan_destroy(scan);
        scan_memo_destroy(memo);
    }
    print_message("28 C++ headers: %u paths in %.1f ms, with the memo %.3f ms\n", files,
                  (double)first / 1e6, (double)again / 1e6);
}

/* ---- threads ---- */

enum { THREADS = 4, SOURCES = 24 };

struct shared {
    struct scan_memo *memo;
    struct digest digest[THREADS][SOURCES];
    uint32_t number;
};

struct thread {
    struct shared *shared;
    uint32_t number;
};

static void scan_one(struct scan_memo *memo, uint32_t number, struct digest *out)
{
    char name[32], path[256], a[256], b[256];
    const char *dirs[] = { a, b };
    struct scan_params params = { .source = path, .dirs = dirs, .dir_count = 2 };
    struct scan *scan;

    snprintf(name, sizeof(name), "s%u.c", number);
    snprintf(path, sizeof(path), "%s/%s", top, name);
    snprintf(a, sizeof(a), "%s/%s", top, number % 2 != 0 ? "a" : "b"); /* two orders */
    snprintf(b, sizeof(b), "%s/%s", top, number % 2 != 0 ? "b" : "a");
    if (scan_files(memo, &params, &scan, NULL) != PTO_OK)
        return;
    scan_digest(scan, out);
    if (scan_entry_count(scan) < 30)
        memset(out, 0, sizeof(*out));
    scan_destroy(scan);
}

static void *scan_all(void *arg)
{
    struct thread *thread = arg;

    for (uint32_t i = 0; i < SOURCES; i++) {
        uint32_t number = (i + thread->number * 7) % SOURCES;

        scan_one(thread->shared->memo, number, &thread->shared->digest[thread->number][number]);
    }
    return NULL;
}

static void threads_share_a_memo(void **state)
{
    static struct shared shared;
    struct thread thread[THREADS];
    pthread_t handle[THREADS];

    (void)state;
    empty_tree();
    for (uint32_t i = 0; i < 60; i++) {
        char name[32], text[128];

        snprintf(name, sizeof(name), "%s/h%u.h", i % 3 != 0 ? "a" : "b", i);
        snprintf(text, sizeof(text), "#include <h%u.h>\n#include \"h%u.h\"\n", (i * 7 + 1) % 60,
                 (i + 1) % 60);
        make_file(name, text);
    }
    for (uint32_t i = 0; i < SOURCES; i++) {
        char name[32], text[64];

        snprintf(name, sizeof(name), "s%u.c", i);
        snprintf(text, sizeof(text), "#include <h%u.h>\n", i);
        make_file(name, text);
    }
    assert_int_equal(scan_memo_create(&shared.memo), PTO_OK);
    for (uint32_t i = 0; i < THREADS; i++) {
        thread[i] = (struct thread){ .shared = &shared, .number = i };
        assert_int_equal(pthread_create(&handle[i], NULL, scan_all, &thread[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(handle[i], NULL);
    scan_memo_destroy(shared.memo);
    for (uint32_t s = 0; s < SOURCES; s++) {
        static const struct digest zero;
        struct digest alone = zero;
        struct scan_memo *memo;

        assert_int_equal(scan_memo_create(&memo), PTO_OK);
        scan_one(memo, s, &alone);
        scan_memo_destroy(memo);
        assert_false(digest_is_equal(&alone, &zero));
        for (uint32_t t = 0; t < THREADS; t++)
            assert_true(digest_is_equal(&alone, &shared.digest[t][s]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_headers_at_any_depth_and_in_untaken_branches),
        cmocka_unit_test(quotes_and_angles_search_in_their_own_orders),
        cmocka_unit_test(include_next_takes_every_file_of_the_name),
        cmocka_unit_test(has_include_counts_present_and_absent),
        cmocka_unit_test(a_new_header_that_shadows_changes_the_digest),
        cmocka_unit_test(missing_folders_are_entries_and_may_appear),
        cmocka_unit_test(forced_includes_are_found_and_further_roots_followed),
        cmocka_unit_test(roots_can_be_shadowed),
        cmocka_unit_test(an_overlay_stands_for_a_file_in_its_folder),
        cmocka_unit_test(circles_end_whatever_their_spelling),
        cmocka_unit_test(a_source_without_includes_has_the_header_that_compilers_begin_with),
        cmocka_unit_test(links_are_files_of_their_own_folders),
        cmocka_unit_test(only_contents_count),
        cmocka_unit_test(what_cannot_be_read_is_said),
        cmocka_unit_test(what_is_open_has_its_file_and_line),
        cmocka_unit_test(hard_texts_are_read_right),
        cmocka_unit_test(random_texts_are_read_as_by_a_slow_reader),
        cmocka_unit_test(random_bytes_do_no_harm),
        cmocka_unit_test(every_file_that_a_compiler_opens_is_found),
        cmocka_unit_test(time_of_a_scan),
        cmocka_unit_test(threads_share_a_memo),
    };

    return cmocka_run_group_tests(tests, make_top, remove_top);
}
