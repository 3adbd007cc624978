/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads folders that pypto writes as scenes: kernel_config.py lists what to compile,
 * compiled_meta.json describes the arguments of the entry, data/in and data/out hold them.
 * docs/user/scenes.md documents them.
 */
#ifndef PTO_SCENE_CONFIG_H
#define PTO_SCENE_CONFIG_H

#include "tool/scene/scene.h"

#define SCENE_CONFIG_FILE "kernel_config.py"
#define SCENE_META_FILE "compiled_meta.json"

/* Contents of the files. */
struct scene_config_texts {
    const void *config;
    size_t config_bytes;
    const void *meta; /* NULL: no such file */
    size_t meta_bytes;
};

/* Reads the files of the folder; does not check that the sources exist. */
int scene_config_open(const char *folder, struct scene **scene_out, struct pto_error *error);
/* Parses the files from memory, and does not look for files with data. */
int scene_config_parse(const char *folder, const struct scene_config_texts *texts,
                       struct scene **scene_out, struct pto_error *error);

/* Returns the mode that the folder was compiled for. */
static inline enum pto_mode scene_config_mode(const struct scene *scene)
{
    return (scene->test_case->modes & 1u << PTO_MODE_HOST) != 0 ? PTO_MODE_HOST : PTO_MODE_STREAM;
}

/* Sets the values of all scalars, in order. */
int scene_config_give_scalars(struct scene *scene, const char *const *texts, uint32_t count,
                              struct pto_error *error);

/* Sets the error that explains why argument `index` has no data. */
int scene_config_refuse_empty(const struct scene *scene, uint32_t index, struct pto_error *error);

#endif
