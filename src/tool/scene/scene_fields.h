/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the mappings of a scene.yaml: each has a table of fields, and each field a function that
 * parses its value or reports an error with its place.
 */
#ifndef PTO_SCENE_FIELDS_H
#define PTO_SCENE_FIELDS_H

#include "tool/scene/scene.h"

struct loader {
    struct scene *scene;
    struct document *document;
    struct pto_error *error;
    const char *folder;
    struct scene_list flags; /* compiler flags for all sources */
    struct scene_list include;
    struct scene_case common; /* defaults of all cases */
};

typedef int (*parse_fn)(struct loader *l, const struct node *value, void *target);

struct field {
    const char *key; /* NULL at the end of the table */
    parse_fn take;
    bool is_required;
};

#define REFUSE(l, at, ...) scene_document_refuse((l)->document, (at), (l)->error, __VA_ARGS__)

/*
 * Parses the fields in the order of the table, not of the file, so that a field's parser can use
 * the values of earlier fields.
 */
int scene_fields_parse(struct loader *l, const struct node *map, const char *what,
                       const struct field *fields, void *target);
/*
 * Parses a list of mappings into memory of the document. `take` parses each mapping into its
 * element.
 */
int scene_fields_parse_list(struct loader *l, const struct node *value, const char *what,
                            uint32_t count_max, size_t item_bytes, parse_fn take, void **items_out,
                            uint32_t *count_out);

int scene_fields_text(struct loader *l, const struct node *value, const char **text_out);
/* Parse an identifier of C, and (scene_fields_title) a word that can also be a file name. */
int scene_fields_name(struct loader *l, const struct node *value, const char **name_out);
int scene_fields_title(struct loader *l, const struct node *value, const char **name_out);
/* Parses a path relative to the scene's folder. */
int scene_fields_path(struct loader *l, const struct node *value, const char **path_out);
int scene_fields_integer(struct loader *l, const struct node *value, int64_t low, int64_t high,
                         int64_t *value_out);
int scene_fields_number(struct loader *l, const struct node *value, double low, double high,
                        double *value_out);

typedef int (*parse_text_fn)(struct loader *l, const struct node *value, const char **text_out);

int scene_fields_texts(struct loader *l, const struct node *value, parse_text_fn take,
                       struct scene_list *list);
/* Parses a number, a parameter, or a product of them. */
int scene_fields_product(struct loader *l, const struct node *value, struct scene_product *product);

/* Parses float32, int8 and so on; PTO_EINVAL for other names. */
int scene_fields_scalar_type(const struct node *value, struct scene_scalar *scalar);
/* Whether the type of the scalar can hold the whole number. */
bool scene_fields_scalar_fits(const struct scene_scalar *scalar, int64_t value);
/* Sets the defaults of a case. */
void scene_fields_set_defaults(struct scene_case *test_case);

bool scene_fields_parse_number(const char *text, double *value_out);
int scene_fields_no_memory(struct loader *l);

/*
 * Parsers of fields in scene_sources.c. They ignore `target`, because their results go to the
 * scene.
 */
int scene_sources_parse_flags(struct loader *l, const struct node *value, void *target);
int scene_sources_parse_include(struct loader *l, const struct node *value, void *target);
int scene_sources_parse_isa(struct loader *l, const struct node *value, void *target);
int scene_sources_parse_isa_pin(struct loader *l, const struct node *value, void *target);
int scene_sources_parse_orchestration(struct loader *l, const struct node *value, void *target);
int scene_sources_parse_kernels(struct loader *l, const struct node *value, void *target);
int scene_sources_parse_golden(struct loader *l, const struct node *value, void *target);
/* Parsers of the fields of a struct scene_source and a struct scene_kernel. */
int scene_sources_parse_path(struct loader *l, const struct node *value, void *target);
int scene_sources_parse_id(struct loader *l, const struct node *value, void *target);
int scene_sources_parse_core(struct loader *l, const struct node *value, void *target);

int scene_sources_parse_source_flags(struct loader *l, const struct node *value, void *target);
int scene_sources_parse_source_include(struct loader *l, const struct node *value, void *target);

/* Parsers of fields in scene_level_fields.c, and the checks of a case at level 3. */
int scene_level_parse(struct loader *l, const struct node *value, void *target);
int scene_level_parse_chips(struct loader *l, const struct node *value, void *target);
int scene_level_parse_subs(struct loader *l, const struct node *value, void *target);
int scene_level_parse_callables(struct loader *l, const struct node *value, void *target);
/* Whether every level-3 scene has a parameter with that name. */
bool scene_level_owns_param(const struct scene *scene, const char *name);
int scene_level_check(struct loader *l, const struct node *root,
                      const struct scene_case *test_case);

/* Parsers of fields in scene_rank_fields.c, and the checks of a case with ranks. */
int scene_ranks_parse_count(struct loader *l, const struct node *value, void *target);
int scene_ranks_parse_domains(struct loader *l, const struct node *value, void *target);
int scene_ranks_parse_window(struct loader *l, const struct node *value, void *target);
int scene_ranks_parse_offset(struct loader *l, const struct node *value, void *target);
int scene_ranks_parse_context(struct loader *l, const struct node *value, void *target);
int scene_ranks_check(struct loader *l, const struct node *root,
                      const struct scene_case *test_case);

#endif
