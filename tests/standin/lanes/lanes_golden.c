/* SPDX-License-Identifier: Apache-2.0 */
#include <pto/scene.h>

#include "lanes.h"

int pto_scene_golden(const struct pto_scene *s)
{
    const struct pto_scene_tensor *given = pto_scene_tensor(s, "x");
    int32_t *x = given->data, *y = pto_scene_expected(s, "y");

    for (uint64_t i = 0; i < given->count && !given->is_given; i++)
        x[i] = (int32_t)pto_scene_integer(s, 0, 400);
    for (uint64_t block = 0; block < given->count / WORDS; block++) {
        int32_t sum = 0, first = 0, second = 0;

        for (int32_t round = 0; round < ROUNDS; round++) {
            int32_t asked = x[block * WORDS + (uint64_t)round] + sum;

            first = 2 * asked % 1000;
            second = 1000000 - asked;
            sum = first + second;
        }
        for (int32_t i = 0; i < WORDS; i++)
            y[block * WORDS + (uint64_t)i] = sum + i * (second - first);
    }
    return 0;
}
