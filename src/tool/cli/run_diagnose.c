/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the list of --diagnose: the names of the diagnostics that `pto run` is to write. */
#include <stddef.h>
#include <string.h>

#include "tool/cli/run_request.h"

/* Names that --diagnose accepts. */
static const struct diagnosis {
    const char *name;
    size_t at;     /* offset of the diagnostic's level in struct pto_diagnostics */
    uint8_t level; /* level if the user gives none */
    uint8_t max;   /* highest level; 1: the diagnostic has no levels */
} diagnoses[] = {
    { "swimlane", offsetof(struct pto_diagnostics, swimlane), 4, 4 },
    { "args", offsetof(struct pto_diagnostics, args), 2, 3 },
    { "deps", offsetof(struct pto_diagnostics, has_deps), 1, 1 },
    { "scopes", offsetof(struct pto_diagnostics, has_scopes), 1, 1 },
    { "pmu", offsetof(struct pto_diagnostics, pmu), 2, 8 },
    { "names", offsetof(struct pto_diagnostics, has_names), 1, 1 },
};

enum { DIAGNOSES = sizeof(diagnoses) / sizeof(diagnoses[0]) };

/* Parses the NAME or NAME=LEVEL of a diagnostic. */
static bool parse_diagnosis(struct pto_diagnostics *asked, char *word)
{
    char *equals = strchr(word, '=');

    if (equals != NULL)
        *equals++ = '\0';
    for (uint32_t i = 0; i < DIAGNOSES; i++) {
        const struct diagnosis *d = &diagnoses[i];
        uint8_t level = d->level;

        if (strcmp(d->name, word) != 0)
            continue;
        if (equals != NULL) {
            level = (uint8_t)(equals[0] - '0');
            if (d->max == 1 || level < 1 || level > d->max || equals[1] != '\0')
                return false;
        }
        memcpy((char *)asked + d->at, &level, 1);
        return true;
    }
    return false;
}

int cli_run_parse_diagnoses(void *context, const struct cli_option *option, char *value,
                            struct pto_error *error)
{
    struct run_request *request = context;
    char *next = NULL;

    (void)option;
    for (char *word = strtok_r(value, ",", &next); word != NULL;
         word = strtok_r(NULL, ",", &next)) {
        if (!parse_diagnosis(&request->session.diagnostics, word))
            return error_setf(
                error, PTO_EINVAL,
                "--diagnose takes swimlane (1 to 4), args (1 to 3), deps, scopes, "
                "pmu (1 to 8) and names with commas between them, as swimlane=4,deps; not "
                "'%.100s'",
                word);
        request->has_diagnoses = true;
    }
    return PTO_OK;
}

/* Selects all diagnostics, unless the command line names some. */
void cli_run_choose_diagnoses(struct run_request *request)
{
    for (uint32_t i = 0; i < DIAGNOSES && !request->has_diagnoses; i++)
        memcpy((char *)&request->session.diagnostics + diagnoses[i].at, &diagnoses[i].level, 1);
}
