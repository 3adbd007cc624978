/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds operands of directives in one pass over the bytes. Between directives the lexer only
 * recognises what can hide the beginning of a line: comments, strings, characters and continued
 * lines. A zero after the last byte ends every loop, so most loops need no other bound.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "toolchain/lexer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORD_MAX = 32,
    DELIMITER_MAX = 16,
    SHOWN_MAX = 60,
    NUMBER_MAX = 128, /* how many bytes before a quote are searched for the start of a number */
    /*
     * after this many unterminated raw strings, later raw strings are treated as ordinary strings
     */
    RAW_FAILURES = 64,
};

struct lexer {
    const char *begin;
    const char *at;
    const char *end; /* end of the text; the byte there is a zero */
    const struct lexer_sink *sink;
    uint32_t raw_failures;
    const char *line_at; /* end of the part of the text whose lines have been counted */
    uint32_t line;
    char operand[LEXER_OPERAND_MAX];
};

static void run_pass(struct lexer *l, const char *bytes, size_t size);
static void skip_to_newline(struct lexer *l);
static bool skip_comment(struct lexer *l);
static void skip_blanks(struct lexer *l);
static void read_directive(struct lexer *l);
static void read_operand(struct lexer *l, bool is_next);
static void read_define(struct lexer *l);
static void read_expression(struct lexer *l, bool is_define);
static void read_query(struct lexer *l, const char *word, bool is_define);

static bool has_text(const char *begin, const char *end, const char *text)
{
    return memmem(begin, (size_t)(end - begin), text, strlen(text)) != NULL;
}

/* Searches for question marks first, because they are rare and memchr is faster than memmem. */
static bool has_trigraph(const char *at, const char *end)
{
    while ((at = memchr(at, '?', (size_t)(end - at))) != NULL) {
        if (at[1] == '?' && (at[2] == '/' || at[2] == '='))
            return true;
        at++;
    }
    return false;
}

/*
 * Trigraphs are valid in some standards only, and can change where lines end. A text with a
 * relevant trigraph is lexed both ways, and yields the operands of both.
 */
bool lexer_run(const char *bytes, size_t size, const struct lexer_sink *sink)
{
    struct lexer l = { .sink = sink };

    run_pass(&l, bytes, size);
    if (!has_trigraph(bytes, bytes + size))
        return true;

    char *replaced = malloc(size + 1);
    size_t length = 0;

    if (replaced == NULL)
        return false;
    for (size_t i = 0; i < size; i++) {
        bool is_trigraph = size - i >= 3 && bytes[i] == '?' && bytes[i + 1] == '?' &&
                           (bytes[i + 2] == '/' || bytes[i + 2] == '=');

        replaced[length++] = !is_trigraph ? bytes[i] : bytes[i + 2] == '/' ? '\\' : '#';
        i += is_trigraph ? 2 : 0;
    }
    replaced[length] = '\0';
    run_pass(&l, replaced, length);
    free(replaced);
    return true;
}

static void run_pass(struct lexer *l, const char *bytes, size_t size)
{
    l->begin = bytes;
    l->at = bytes;
    l->end = bytes + size;
    l->line_at = bytes;
    l->line = 1;
    l->raw_failures = 0;
    if (size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
        l->at += 3; /* skip a byte order mark */
    while (l->at < l->end) {
        skip_blanks(l);
        if (*l->at == '#') {
            l->at++;
            read_directive(l);
        } else if (l->at[0] == '%' && l->at[1] == ':') {
            l->at += 2;
            read_directive(l);
        }
        skip_to_newline(l);
        l->at += l->at < l->end;
    }
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f' || c == '\v' || c == '\r';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
           (uint8_t)c >= 0x80;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/*
 * Returns the end of a line continuation (backslash, blanks, newline) at `at`; NULL if there is
 * none.
 */
static const char *after_splice(const char *at)
{
    if (*at != '\\')
        return NULL;
    at++;
    while (is_blank(*at))
        at++;
    return *at == '\n' ? at + 1 : NULL;
}

static void skip_splices(struct lexer *l)
{
    const char *after;

    while (*l->at == '\\' && (after = after_splice(l->at)) != NULL)
        l->at = after;
}

/*
 * Returns the current character of the logical line, in which continued lines are joined; zero at
 * the end of the text.
 */
static char lexer_look(struct lexer *l)
{
    skip_splices(l);
    return *l->at;
}

static void lexer_report(struct lexer *l, enum scan_open_kind kind, const char *at)
{
    char text[SHOWN_MAX + 4];
    const char *stop = memchr(at, '\n', (size_t)(l->end - at));
    size_t length = (size_t)((stop != NULL ? stop : l->end) - at);
    bool is_short = length <= SHOWN_MAX;

    length = is_short ? length : SHOWN_MAX;
    while (length != 0 && is_blank(at[length - 1]))
        length--;
    snprintf(text, sizeof(text), "%.*s%s", (int)length, at, is_short ? "" : "...");
    for (; l->line_at < at; l->line_at++)
        l->line += *l->line_at == '\n';
    l->sink->open(l->sink->context, kind, l->line, text);
}

/* ---- comments and literals ---- */

static void skip_line_comment(struct lexer *l)
{
    for (;;) {
        const char *stop = memchr(l->at, '\n', (size_t)(l->end - l->at));
        const char *last = stop;

        if (stop == NULL) {
            l->at = l->end;
            return;
        }
        while (last > l->at && is_blank(last[-1]))
            last--;
        if (last == l->at || last[-1] != '\\') {
            l->at = stop; /* the newline also ends the directive */
            return;
        }
        l->at = stop + 1;
    }
}

static void skip_block_comment(struct lexer *l)
{
    for (;;) {
        const char *star = memchr(l->at, '*', (size_t)(l->end - l->at));

        if (star == NULL) {
            l->at = l->end;
            return;
        }
        l->at = star + 1;
        if (lexer_look(l) == '/') {
            l->at++;
            return;
        }
    }
}

/* Skips a comment at a slash. False: the slash begins no comment, and was skipped. */
static bool skip_comment(struct lexer *l)
{
    l->at++;

    const char *restart = l->at;
    char next = lexer_look(l);

    if (next != '/' && next != '*') {
        l->at = restart;
        return false;
    }
    l->at++;
    if (next == '/')
        skip_line_comment(l);
    else
        skip_block_comment(l);
    return true;
}

static void skip_blanks(struct lexer *l)
{
    for (;;) {
        while (*l->at == ' ' || *l->at == '\t')
            l->at++;

        char c = lexer_look(l);

        if (is_blank(c) || (c == '\0' && l->at < l->end)) {
            l->at++;
        } else if (c == '/') {
            const char *slash = l->at;

            if (!skip_comment(l)) {
                l->at = slash;
                return;
            }
        } else {
            return;
        }
    }
}

/*
 * Whether the quote at `quote` follows R, LR, uR, UR or u8R, which is not the end of a longer word.
 */
static bool is_raw(const struct lexer *l, const char *quote)
{
    const char *p = quote;

    if (p == l->begin || p[-1] != 'R' || l->raw_failures >= RAW_FAILURES)
        return false;
    p--;
    if (p - l->begin >= 2 && p[-1] == '8' && p[-2] == 'u')
        p -= 2;
    else if (p > l->begin && (p[-1] == 'u' || p[-1] == 'U' || p[-1] == 'L'))
        p--;
    return p == l->begin || (!is_letter(p[-1]) && !is_digit(p[-1]));
}

/* Skips a raw string at its quote. False: it is not one. */
static bool skip_raw_string(struct lexer *l)
{
    char stop[DELIMITER_MAX + 2];
    const char *open = l->at + 1;
    size_t length = strcspn(open, " ()\\\t\v\f\n\"");

    if (length > DELIMITER_MAX || open[length] != '(')
        return false;
    stop[0] = ')';
    memcpy(stop + 1, open, length);
    stop[length + 1] = '"';

    const char *close = memmem(open, (size_t)(l->end - open), stop, length + 2);

    if (close == NULL) {
        l->raw_failures++;
        return false;
    }
    l->at = close + length + 2;
    return true;
}

/*
 * Skips a literal at a quote of either kind; stops after the closing quote, or before the end of
 * the line.
 */
static void skip_quoted(struct lexer *l)
{
    const char *begin = l->at;
    char quote = *begin;

    if (quote != '"' || !is_raw(l, begin) || !skip_raw_string(l)) {
        l->at++;
        for (;;) {
            char c = lexer_look(l);

            if (c == '\n' || (c == '\0' && l->at >= l->end))
                break;
            l->at++;
            if (c == quote)
                break;
            if (c == '\\' && lexer_look(l) != '\n' && l->at < l->end)
                l->at++;
        }
    }
    if (quote == '"' && memchr(begin, '.', (size_t)(l->at - begin)) != NULL &&
        (has_text(begin, l->at, ".incbin") || has_text(begin, l->at, ".include")))
        lexer_report(l, SCAN_OPEN_ASSEMBLER, begin);
}

/* Whether the quote at l->at is a digit separator: 1'000. */
static bool is_separator(const struct lexer *l)
{
    const char *p = l->at;

    if (!is_digit(p[1]) && !is_letter(p[1]))
        return false;
    while (p > l->begin && l->at - p < NUMBER_MAX &&
           (is_digit(p[-1]) || is_letter(p[-1]) || p[-1] == '.' || p[-1] == '\''))
        p--;
    return p < l->at && (is_digit(*p) || (*p == '.' && is_digit(p[1])));
}

static void skip_character(struct lexer *l)
{
    if (is_separator(l))
        l->at++;
    else
        skip_quoted(l);
}

/* Skips to the newline that ends the logical line, or to the end of the text. */
static void skip_to_newline(struct lexer *l)
{
    static const bool is_special[256] = { ['\0'] = true, ['\n'] = true, ['"'] = true, ['\''] = true,
                                          ['/'] = true,  ['\\'] = true, ['.'] = true };

    for (;;) {
        while (!is_special[(uint8_t)*l->at])
            l->at++;
        switch (*l->at) {
        case '\n':
            return;
        case '"':
            skip_quoted(l);
            break;
        case '\'':
            skip_character(l);
            break;
        case '/':
            skip_comment(l);
            break;
        case '\\':
            if (after_splice(l->at) != NULL)
                skip_splices(l);
            else
                l->at++;
            break;
        /*
         * report .incbin anywhere in the text, because a macro may turn it into a string for the
         * assembler
         */
        case '.':
            if (strncmp(l->at, ".incbin", 7) == 0)
                lexer_report(l, SCAN_OPEN_ASSEMBLER, l->at);
            l->at++;
            break;
        default:
            if (l->at >= l->end)
                return;
            l->at++;
        }
    }
}

/* ---- directives ---- */

/*
 * Reads the identifier at the current position; "" if there is none. Words longer than all keywords
 * are truncated.
 */
static void lexer_read_word(struct lexer *l, char word[WORD_MAX])
{
    size_t length = 0;

    for (char c = lexer_look(l); is_letter(c) || (length != 0 && is_digit(c)); c = lexer_look(l)) {
        if (length + 1 < WORD_MAX)
            word[length++] = c;
        l->at++;
    }
    word[length] = '\0';
}

/*
 * Whether this part of the text may use __has_include or a similar query. Returns true as well if a
 * word that begins like one continues on the next line.
 */
static bool may_have_query(const char *begin, const char *end)
{
    if (has_text(begin, end, "__has_"))
        return true;
    for (const char *p = begin; (p = memchr(p, '\n', (size_t)(end - p))) != NULL && p + 1 < end;
         p++)
        if (is_letter(p[1]))
            return true;
    return false;
}

/* Reads a #define. Skips most macros at full speed, because some headers contain little else. */
static void read_define(struct lexer *l)
{
    char word[WORD_MAX];

    skip_blanks(l);
    lexer_read_word(l, word); /* a #define of __has_include itself is not a query */

    const char *rest = l->at;

    skip_to_newline(l);
    if (may_have_query(rest, l->at)) {
        l->at = rest;
        read_expression(l, true);
    }
}

/* Reads a directive after its #. The caller skips what is left of the line. */
static void read_directive(struct lexer *l)
{
    char word[WORD_MAX];

    skip_blanks(l);
    lexer_read_word(l, word);
    if (strcmp(word, "include") == 0 || strcmp(word, "import") == 0) {
        read_operand(l, false);
    } else if (strcmp(word, "include_next") == 0) {
        read_operand(l, true);
    } else if (strcmp(word, "if") == 0 || strcmp(word, "elif") == 0) {
        read_expression(l, false);
    } else if (strcmp(word, "define") == 0) {
        read_define(l);
    } else if (strcmp(word, "embed") == 0) {
        skip_blanks(l);
        lexer_report(l, SCAN_OPEN_EMBED, l->at);
    }
}

/*
 * Reads a name from < or " up to its counterpart on this line. Backslashes have no special meaning.
 */
static bool read_name(struct lexer *l, bool is_next)
{
    const char *begin = l->at;
    char partner = *begin == '<' ? '>' : '"';
    size_t length = 0;

    l->at++;
    for (char c = lexer_look(l); c != partner; c = lexer_look(l)) {
        if (c == '\n' || l->at >= l->end || length + 1 == LEXER_OPERAND_MAX) {
            l->at = begin;
            return false;
        }
        l->operand[length++] = c;
        l->at++;
    }
    l->at++;
    l->operand[length] = '\0';
    if (l->operand[0] != '\0')
        l->sink->operand(l->sink->context, l->operand, partner == '>', is_next);
    return true;
}

static void read_operand(struct lexer *l, bool is_next)
{
    char c;

    skip_blanks(l);
    c = *l->at;
    if ((c == '<' || c == '"') && read_name(l, is_next))
        return;
    /* An unterminated string is an error in the source. A macro may expand to any name. */
    if (is_letter(c) || c == '<')
        lexer_report(l, SCAN_OPEN_INCLUDE, l->at);
}

/*
 * Reads the rest of an #if or of a #define. In an #if, a string or a < after a parenthesis can only
 * be the operand of __has_include, which a macro may have given another name.
 */
static void read_expression(struct lexer *l, bool is_define)
{
    char word[WORD_MAX];
    char before = '\0';

    for (;;) {
        skip_blanks(l);

        char c = *l->at;

        if (c == '\n' || l->at >= l->end)
            return;
        if (is_letter(c)) {
            lexer_read_word(l, word);
            if (strncmp(word, "__has_", 6) == 0)
                read_query(l, word, is_define);
        } else if (is_digit(c)) {
            while (is_letter(*l->at) || is_digit(*l->at) || (*l->at == '\'' && is_separator(l)))
                l->at++;
        } else if (c == '"' && !is_define && read_name(l, false)) {
            ;
        } else if (c == '<' && before == '(' && !is_define && read_name(l, false)) {
            ;
        } else if (c == '"' || c == '\'') {
            skip_quoted(l);
        } else {
            l->at++;
        }
        before = c;
    }
}

/* Reads the operand after a word that begins with __has_. */
static void read_query(struct lexer *l, const char *word, bool is_define)
{
    bool is_next = strncmp(word, "__has_include_next", 18) == 0;
    bool is_embed = strcmp(word, "__has_embed") == 0;
    const char *begin = l->at;

    if (!is_next && !is_embed && strcmp(word, "__has_include") != 0 &&
        strcmp(word, "__has_include__") != 0)
        return;
    skip_blanks(l);
    if (*l->at !=
        /*
         * without a parenthesis, the word only tests whether __has_include exists, unless a macro
         * passes its name on
         */
        '(') {
        if (is_define)
            lexer_report(l, is_embed ? SCAN_OPEN_EMBED : SCAN_OPEN_HAS_INCLUDE,
                         begin - strlen(word));
        return;
    }
    l->at++;
    skip_blanks(l);
    if (is_embed)
        lexer_report(l, SCAN_OPEN_EMBED, l->at);
    else if ((*l->at != '<' && *l->at != '"') || !read_name(l, is_next))
        lexer_report(l, SCAN_OPEN_HAS_INCLUDE, l->at);
}
