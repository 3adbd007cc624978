/* SPDX-License-Identifier: Apache-2.0 */
/* Writes test results as JUnit XML: a suite per scene and a test case per item. */
#include "tool/cli/junit.h"

#include <stdlib.h>
#include <string.h>

#include "tool/cli/options.h"
#include "pto/build.h"

/* Returns the number of bytes of a UTF-8 character; 0: it is invalid, or not allowed in XML. */
static uint32_t junit_character_bytes(const unsigned char *at)
{
    uint32_t bytes = error_character_bytes(at);
    bool is_control = bytes == 1 && at[0] < ' ' && at[0] != '\n' && at[0] != '\t';

    return is_control || (at[0] == 0xef && at[1] == 0xbf && at[2] >= 0xbe) ? 0 : bytes;
}

static void print_escaped(FILE *to, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at != '\0') {
        uint32_t bytes = junit_character_bytes(at);

        if (bytes == 0)
            fputs("\xef\xbf\xbd", to);
        else if (*at == '&' || *at == '<' || *at == '>' || *at == '"' || *at == '\n')
            fprintf(to, "&#%d;", *at);
        else
            fwrite(at, 1, bytes, to);
        at += bytes != 0 ? bytes : 1;
    }
}

static void print_tag(FILE *to, const char *name, const char *text)
{
    if (text == NULL)
        return;
    fprintf(to, "      <%s>", name);
    print_escaped(to, text);
    fprintf(to, "</%s>\n", name);
}

static void print_testcase(FILE *to, const struct test_item *item)
{
    static const char *const elements[TEST_OUTCOMES] = {
        [TEST_WAITING] = "skipped", [TEST_FAILED] = "failure", [TEST_SKIPPED] = "skipped"
    };
    const char *text = item->outcome == TEST_WAITING ? "not reached" : item->text;
    size_t line = text != NULL ? strcspn(text, "\n") : 0;
    char first[200];

    fprintf(to, "    <testcase classname=\"");
    print_escaped(to, item->scene != NULL ? item->scene->name : item->path);
    fprintf(to, "\" name=\"");
    if (item->scene == NULL)
        fprintf(to, "scene.yaml");
    else
        fprintf(to, "%s %s %s", item->test_case->name, item->platform, pto_mode_name(item->mode));
    fprintf(to, "\" time=\"%.6f\">\n", item->seconds);
    if (elements[item->outcome] != NULL) {
        snprintf(first, sizeof(first), "%.*s", (int)(line < 190 ? line : 190),
                 text != NULL ? text : "");
        fprintf(to, "      <%s message=\"", elements[item->outcome]);
        print_escaped(to, first);
        fprintf(to, "\">");
        print_escaped(to, text != NULL ? text : "");
        fprintf(to, "</%s>\n", elements[item->outcome]);
    }
    print_tag(to, "system-out", item->output);
    fprintf(to, "    </testcase>\n");
}

static void print_counts(FILE *to, const struct test_item *item, uint32_t count, double seconds)
{
    uint32_t of[TEST_OUTCOMES] = { 0 };

    for (uint32_t i = 0; i < count; i++)
        of[item[i].outcome]++;
    fprintf(to, " tests=\"%u\" failures=\"%u\" errors=\"0\" skipped=\"%u\" time=\"%.6f\">\n", count,
            of[TEST_FAILED], of[TEST_SKIPPED] + of[TEST_WAITING], seconds);
}

void cli_junit_print(FILE *to, const struct test_item *item, uint32_t count, double seconds)
{
    fprintf(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"pto test\"");
    print_counts(to, item, count, seconds);
    for (uint32_t first = 0, next; first < count; first = next) {
        double sum = 0;

        for (next = first; next < count && strcmp(item[next].path, item[first].path) == 0; next++)
            sum += item[next].seconds;
        fprintf(to, "  <testsuite name=\"");
        print_escaped(to, item[first].scene != NULL ? item[first].scene->name : item[first].path);
        fprintf(to, "\"");
        print_counts(to, item + first, next - first, sum);
        for (uint32_t i = first; i < next; i++)
            print_testcase(to, &item[i]);
        fprintf(to, "  </testsuite>\n");
    }
    fprintf(to, "</testsuites>\n");
}

int cli_junit_write(const char *path, const struct test_item *item, uint32_t count, double seconds,
                    struct pto_error *error)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    int status;

    if (to == NULL)
        return error_setf(error, PTO_ENOMEM, "not enough memory for %s", path);
    cli_junit_print(to, item, count, seconds);
    if (fclose(to) != 0) {
        free(text);
        return error_setf(error, PTO_ENOMEM, "not enough memory for %s", path);
    }
    status = pto_file_write(path, text, size, error);
    free(text);
    return status;
}
