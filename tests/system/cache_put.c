/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores entries, for cache.sh: FOLDER COUNT BYTES. With COUNT 0 until it is killed. Exit code 1:
 * the store accepted something that it cannot store, or did not report a failure.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "toolchain/store.h"

int main(int argc, char **argv)
{
    uint32_t count = argc == 4 ? (uint32_t)atoi(argv[2]) : 0;
    size_t size = argc == 4 ? (size_t)atol(argv[3]) : 0;
    char *bytes = calloc(1, size + 1);
    char note[STORE_NOTE_MAX];
    uint32_t failed = 0, noted = 0;
    struct store *store;

    if (argc != 4 || bytes == NULL || store_open(argv[1], &store, NULL) != PTO_OK)
        return 2;
    for (uint32_t i = 0; count == 0 || i < count; i++) {
        uint32_t number = i % 64;
        struct digest key;

        digest_of(&number, sizeof(number), &key);
        memset(bytes, (int)number, size);
        failed += store_put(store, &key, bytes, size, "source x\n", NULL) != PTO_OK;
    }
    while (store_take_note(store, note)) {
        printf("%s\n", note);
        noted++;
    }
    store_close(store);
    free(bytes);
    printf("%u failed\n", failed);
    return failed != 0 && noted == 0;
}
