/* SPDX-License-Identifier: Apache-2.0 */
/* What a compiled_meta.json says of the entry's arguments, and where their data are. */
#ifndef PTO_SCENE_META_H
#define PTO_SCENE_META_H

#include "tool/scene/scene_fields.h"

/* Of the scene's `meta`; the rest of the scene is read. */
int scene_meta_load(struct loader *l);
/* The files in data/in and data/out, the sizes that they say, and golden.py's tolerance. */
int scene_meta_find_data(struct scene *scene, struct pto_error *error);

#endif
