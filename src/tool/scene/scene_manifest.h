/* SPDX-License-Identifier: Apache-2.0 */
/* From the tree of a scene.yaml to a scene; every complaint has file, line and column. */
#ifndef PTO_SCENE_MANIFEST_H
#define PTO_SCENE_MANIFEST_H

#include "tool/scene/scene.h"

/* `scene` has its document; everything else is filled in, in memory of the document. */
int scene_manifest_load(struct scene *scene, const char *folder, struct pto_error *error);

#endif
