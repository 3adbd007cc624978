/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/cli/report_page.h"

#include <stdlib.h>

#include "pto/status.h"
#include "tool/cli/report_analysis.h"
#include "tool/cli/report_meta.h"

static int make_columns(struct report *report, const struct report_analysis *analysis)
{
    uint8_t *on_path = calloc(report->r->task_count + (size_t)1, sizeof(*on_path));
    int status = PTO_ENOMEM;

    if (on_path != NULL) {
        cli_report_mark_path(analysis, on_path);
        status = see_page_columns(report->r, &report->layout, &report->legend, on_path,
                                  &report->columns);
    }
    free(on_path);
    return status;
}

static int make_parts(struct report *report, struct report_analysis *analysis)
{
    int status = see_layout_make(report->r, &report->layout);

    if (status >= 0)
        status = see_legend_make(report->r, &report->legend);
    if (status >= 0)
        status = see_links_make(report->r, &report->links);
    if (status >= 0)
        status = cli_report_analyse(analysis);
    if (status >= 0)
        status = make_columns(report, analysis);
    return status;
}

/* Returns the page's data as JSON, which the caller frees; NULL: out of memory. */
static char *make_meta(const struct report *report, const struct report_analysis *analysis)
{
    char *meta = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&meta, &bytes);
    struct json j = cli_json_start(to);

    if (to == NULL)
        return NULL;
    cli_json_open(&j, NULL, '{');
    cli_report_write_meta(&j, report);
    cli_report_write_analysis(&j, analysis);
    cli_json_close(&j, '}');
    if (fclose(to) != 0) {
        free(meta);
        return NULL;
    }
    return meta;
}

int cli_report_write(FILE *to, const struct report_about *about)
{
    struct report report = { .r = about->r, .title = about->title };
    struct report_analysis analysis = { .about = about };
    char *meta = NULL, *data = NULL;
    int status = make_parts(&report, &analysis);

    if (status >= 0)
        status = see_columns_pack(&report.columns, &data);
    if (status >= 0)
        meta = make_meta(&report, &analysis);
    if (status >= 0 && meta == NULL)
        status = PTO_ENOMEM;
    if (status >= 0) {
        see_page_write(to, meta, data);
        status = ferror(to) != 0 ? PTO_ESYSTEM : PTO_OK;
    }
    free(meta);
    free(data);
    cli_report_analysis_free(&analysis);
    see_columns_free(&report.columns);
    see_links_free(&report.links);
    see_legend_free(&report.legend);
    see_layout_free(&report.layout);
    return status;
}
