/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the mappings of a scene.yaml are taken apart: each has a table of fields,
 * and each field a function that takes its value or refuses it with its place.
 */
#ifndef PTO_SCENE_FIELDS_H
#define PTO_SCENE_FIELDS_H

#include "tool/scene/scene.h"

struct loader {
    struct scene *scene;
    struct document *document;
    struct pto_error *error;
    const char *folder;
    struct scene_list flags; /* of all sources */
    struct scene_list include;
    struct scene_case common; /* what a case is before it says otherwise */
};

typedef int (*take_fn)(struct loader *l, const struct node *value, void *target);

struct field {
    const char *key; /* NULL ends the table */
    take_fn take;
    bool is_required;
};

#define REFUSE(l, at, ...) scene_document_refuse((l)->document, (at), (l)->error, __VA_ARGS__)

/* In the order of the table, not of the file, so that a field can rely on earlier ones. */
int scene_fields_take(struct loader *l, const struct node *map, const char *what,
                      const struct field *fields, void *target);
/* A list of mappings in memory of the document. `take` gets each with its element. */
int scene_fields_take_list(struct loader *l, const struct node *value, const char *what,
                           uint32_t count_max, size_t item_bytes, take_fn take, void **items_out,
                           uint32_t *count_out);

int scene_fields_text(struct loader *l, const struct node *value, const char **text_out);
/* An identifier of C; a word that can also be a file name. */
int scene_fields_name(struct loader *l, const struct node *value, const char **name_out);
int scene_fields_title(struct loader *l, const struct node *value, const char **name_out);
/* A path, from the scene's folder. */
int scene_fields_path(struct loader *l, const struct node *value, const char **path_out);
int scene_fields_integer(struct loader *l, const struct node *value, int64_t low, int64_t high,
                         int64_t *value_out);
int scene_fields_number(struct loader *l, const struct node *value, double low, double high,
                        double *value_out);

typedef int (*take_text_fn)(struct loader *l, const struct node *value, const char **text_out);

int scene_fields_texts(struct loader *l, const struct node *value, take_text_fn take,
                       struct scene_list *list);
/* A number, a parameter, or a product of them. */
int scene_fields_product(struct loader *l, const struct node *value, struct scene_product *product);

/* float32, int8 and so on; PTO_EINVAL: it is none of them. */
int scene_fields_scalar_type(const struct node *value, struct scene_scalar *scalar);
/* Whether the type of a scalar holds the whole number. */
bool scene_fields_scalar_fits(const struct scene_scalar *scalar, int64_t value);
/* What a case is if nobody says anything. */
void scene_fields_set_defaults(struct scene_case *test_case);

bool scene_fields_parse_number(const char *text, double *value_out);
int scene_fields_no_memory(struct loader *l);

/* The fields of scene_sources.c. `target` is not looked at: they are the scene's. */
int scene_sources_take_flags(struct loader *l, const struct node *value, void *target);
int scene_sources_take_include(struct loader *l, const struct node *value, void *target);
int scene_sources_take_isa(struct loader *l, const struct node *value, void *target);
int scene_sources_take_isa_pin(struct loader *l, const struct node *value, void *target);
int scene_sources_take_orchestration(struct loader *l, const struct node *value, void *target);
int scene_sources_take_kernels(struct loader *l, const struct node *value, void *target);
int scene_sources_take_golden(struct loader *l, const struct node *value, void *target);
/* Of a struct scene_source, and of a struct scene_kernel. */
int scene_sources_take_path(struct loader *l, const struct node *value, void *target);
int scene_sources_take_id(struct loader *l, const struct node *value, void *target);
int scene_sources_take_core(struct loader *l, const struct node *value, void *target);

int scene_sources_take_source_flags(struct loader *l, const struct node *value, void *target);
int scene_sources_take_source_include(struct loader *l, const struct node *value, void *target);

/* The fields of scene_level_fields.c, and what they have to fulfil in a case. */
int scene_level_take(struct loader *l, const struct node *value, void *target);
int scene_level_take_chips(struct loader *l, const struct node *value, void *target);
int scene_level_take_subs(struct loader *l, const struct node *value, void *target);
int scene_level_take_callables(struct loader *l, const struct node *value, void *target);
/* Whether a parameter is set automatically. */
bool scene_level_owns_param(const struct scene *scene, const char *name);
int scene_level_check(struct loader *l, const struct node *root,
                      const struct scene_case *test_case);

/* The fields of scene_rank_fields.c, and what they have to fulfil in a case. */
int scene_ranks_take_count(struct loader *l, const struct node *value, void *target);
int scene_ranks_take_domains(struct loader *l, const struct node *value, void *target);
int scene_ranks_take_window(struct loader *l, const struct node *value, void *target);
int scene_ranks_take_offset(struct loader *l, const struct node *value, void *target);
int scene_ranks_take_context(struct loader *l, const struct node *value, void *target);
int scene_ranks_check(struct loader *l, const struct node *root,
                      const struct scene_case *test_case);

#endif
