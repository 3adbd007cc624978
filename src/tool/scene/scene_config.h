/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folders that pypto writes, as scenes: kernel_config.py says what there is to
 * compile, compiled_meta.json what the entry's arguments are, data/in and data/out
 * hold them. docs/user/scenes.md describes them.
 */
#ifndef PTO_SCENE_CONFIG_H
#define PTO_SCENE_CONFIG_H

#include "tool/scene/scene.h"

#define SCENE_CONFIG_FILE "kernel_config.py"
#define SCENE_META_FILE "compiled_meta.json"

/* The contents of the files. */
struct scene_config_texts {
    const void *config;
    size_t config_bytes;
    const void *meta; /* NULL: there is none */
    size_t meta_bytes;
};

/* Reads the files of the folder; does not check that the sources exist. */
int scene_config_open(const char *folder, struct scene **scene_out, struct pto_error *error);
/* The same from memory; looks at no data. */
int scene_config_parse(const char *folder, const struct scene_config_texts *texts,
                       struct scene **scene_out, struct pto_error *error);

/* The one that it was compiled for. */
static inline enum pto_mode scene_config_mode(const struct scene *scene)
{
    return (scene->test_case->modes & 1u << PTO_MODE_HOST) != 0 ? PTO_MODE_HOST : PTO_MODE_STREAM;
}

/* The values of the scalars, in order; as many as the scene has. */
int scene_config_give_scalars(struct scene *scene, const char *const *texts, uint32_t count,
                              struct pto_error *error);

/* Why argument `index` has no data, as a sentence in the error. */
int scene_config_refuse_empty(const struct scene *scene, uint32_t index, struct pto_error *error);

#endif
