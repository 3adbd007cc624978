/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the entry's arguments from a compiled_meta.json, and finds their data. */
#ifndef PTO_SCENE_META_H
#define PTO_SCENE_META_H

#include "tool/scene/scene_fields.h"

/* Parses scene->meta, the compiled_meta.json, after the rest of the scene. */
int scene_meta_load(struct loader *l);
/*
 * Finds the files in data/in and data/out, takes sizes from them, and reads golden.py's tolerance.
 */
int scene_meta_find_data(struct scene *scene, struct pto_error *error);

#endif
