/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "chip/status_record.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "link/hello.h"

void status_record_open(struct status *s, bool is_chip_only)
{
    void *at = MAP_FAILED;

    s->record = NULL;
    s->file = link_file_make(STATUS_NAME, sizeof(struct status_record));
    if (s->file >= 0)
        at = mmap(NULL, sizeof(struct status_record), PROT_READ | PROT_WRITE, MAP_SHARED, s->file,
                  0);
    if (at == MAP_FAILED) {
        if (s->file >= 0)
            close(s->file);
        return;
    }
    s->record = at;
    s->record->head = (struct status_head){ .magic = STATUS_MAGIC,
                                            .bytes = sizeof(struct status_record),
                                            .pid = (int32_t)getpid(),
                                            .is_chip_only = is_chip_only };
}

void status_record_close(struct status *s)
{
    if (s->record == NULL)
        return;
    munmap(s->record, sizeof(struct status_record));
    close(s->file);
    s->record = NULL;
}

void status_record_text(char *to, size_t size, const char *text, bool is_path)
{
    size_t length = text != NULL ? strlen(text) : 0, left_out = 0;

    if (length >= size) {
        left_out = is_path ? length - (size - 1) : 0;
        length = size - 1;
    }
    if (length != 0)
        memcpy(to, text + left_out, length);
    to[length] = '\0';
}
