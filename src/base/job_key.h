/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Job keys: the secret by which the ranks of a job prove to each other that they belong to it. The
 * text of a key is 64 lower-case hexadecimal digits and a newline. A key file is a regular file of
 * this user with the permissions 600 or 400. No error contains a part of a key.
 */
#ifndef PTO_JOB_KEY_H
#define PTO_JOB_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { JOB_KEY_BYTES = 32, JOB_KEY_TEXT_BYTES = 2 * JOB_KEY_BYTES + 1 };

struct job_key {
    uint8_t byte[JOB_KEY_BYTES];
};

/* Makes a random key. PTO_ESYSTEM: the system has no random numbers. */
int job_key_make(struct job_key *key_out, struct pto_error *error);

/* Reads the text of a key, which has no final zero byte. False: it is not the text of a key. */
bool job_key_parse(const char *text, size_t size, struct job_key *key_out);
/* Writes the text of a key, without a final zero byte. */
void job_key_format(const struct job_key *key, char text[JOB_KEY_TEXT_BYTES]);

/* Reads a key file and checks its owner, its permissions and its content. PTO_EINVAL, PTO_ESYSTEM. */
int job_key_read_file(const char *path, struct job_key *key_out, struct pto_error *error);
/*
 * Reads a key from an inherited descriptor, which stays open. A pipe is replaced by a file in
 * memory with the same content, so that the key can be read again; a file is read from its begin.
 */
int job_key_read_descriptor(int descriptor, struct job_key *key_out, struct pto_error *error);

/*
 * Reads the key that the environment names: PTO_KEY_FILE, a path, or PTO_KEY_FD, the number of a
 * descriptor. *has_key_out is false if there is neither.
 */
int job_key_find(struct job_key *key_out, bool *has_key_out, struct pto_error *error);

#endif
