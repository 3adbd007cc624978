/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a scene from the tree of a scene.yaml; every error has file, line and column. */
#ifndef PTO_SCENE_MANIFEST_H
#define PTO_SCENE_MANIFEST_H

#include "tool/scene/scene.h"

/* Fills `scene`, whose document is already set, in memory of the document. */
int scene_manifest_load(struct scene *scene, const char *folder, struct pto_error *error);

#endif
