/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership of the store. Its content is executed, so its folders and files must be owned by this
 * user and writable by no other user. A secret, FOLDER/key, enters the digest of every file, so a
 * file that another user wrote while the folder was writable, or that was made for another store,
 * counts as damaged.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/file.h"
#include "toolchain/store_files.h"

enum { OTHERS_WRITE = S_IWGRP | S_IWOTH, OTHERS = S_IRWXG | S_IRWXO };

bool store_is_own(const struct stat *about)
{
    /* mutation: open-store */
    return about->st_uid == geteuid() && (about->st_mode & OTHERS_WRITE) == 0;
}

/*
 * Checks a folder of the store. Returns PTO_OK, STORE_ABSENT, or PTO_EINVAL: it belongs to another
 * user, or other users can write to it.
 */
static int check_folder(struct store *store, const char *inner)
{
    char path[STORE_PATH_MAX];
    struct stat link, about;

    snprintf(path, sizeof(path), "%s%s", store->folder, inner);
    if (lstat(path, &link) != 0 || stat(path, &about) != 0 || !S_ISDIR(about.st_mode))
        /*
         * a reader treats a missing or unusable folder as an empty store; a writer reports the
         * error
         */
        return STORE_ABSENT;
    if (store_is_own(&about) && (link.st_uid == geteuid() || link.st_uid == 0))
        return PTO_OK;
    if (about.st_uid != geteuid())
        snprintf(store->refusal, sizeof(store->refusal),
                 "the store is not used: %.300s belongs to another user (%lu), who could put any "
                 "code into it; set PTO_STORE to a folder of your own, or remove this one",
                 path, (unsigned long)about.st_uid);
    else
        snprintf(store->refusal, sizeof(store->refusal),
                 "the store is not used: others can write to %.180s, and so put any code into it; "
                 "`chmod -R go-w %.180s` closes it",
                 path, store->folder);
    return PTO_EINVAL;
}

static int read_secret(struct store *store)
{
    char path[STORE_PATH_MAX];
    struct stat about;
    ssize_t got = -1;
    int file;

    snprintf(path, sizeof(path), "%s/key", store->folder);
    file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 && errno == ENOENT)
        return STORE_ABSENT;
    if (file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode) && store_is_own(&about) &&
        (about.st_mode & OTHERS) == 0 && about.st_size == (off_t)sizeof(store->secret))
        got = read(file, &store->secret, sizeof(store->secret));
    if (file >= 0)
        close(file);
    if (got == (ssize_t)sizeof(store->secret))
        return PTO_OK;
    snprintf(store->refusal, sizeof(store->refusal),
             "the store is not used: %.300s is not a key that only you can read; remove it; "
             "everything is then compiled again",
             path);
    return PTO_EINVAL;
}

/*
 * Creates the secret of the store. If several processes try, the first one wins, and the others
 * read its secret. PTO_ESYSTEM sets errno.
 */
static int make_secret(const struct store *store)
{
    char path[STORE_PATH_MAX], name[STORE_PATH_MAX + 64];
    struct digest secret;
    int number = 0;

    if (getrandom(&secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
        return PTO_ESYSTEM;
    snprintf(path, sizeof(path), "%s/key", store->folder);
    snprintf(name, sizeof(name), "%s/key.%ld-%02x%02x%02x%02x", store->folder, (long)getpid(),
             secret.byte[0], secret.byte[1], secret.byte[2], secret.byte[3]);
    if (getrandom(&secret, sizeof(secret), 0) != (ssize_t)sizeof(secret) ||
        file_write_private(name, &secret, sizeof(secret)) < 0)
        return PTO_ESYSTEM;
    if (link(name, path) != 0 && errno != EEXIST)
        /* fallback for a file system without hard links */
        number = rename(name, path) != 0 ? errno : 0;
    (void)unlink(name);
    errno = number;
    return number == 0 ? PTO_OK : PTO_ESYSTEM;
}

int store_check(struct store *store, bool is_made)
{
    static const char *const folders[] = { "", "/entries", "/names" };
    int status;

    if (store->is_checked)
        return store->refusal[0] == '\0' ? PTO_OK : PTO_EINVAL;
    if (store->folder[0] == '\0')
        return STORE_ABSENT;
    status = check_folder(store, folders[0]);
    if (status == STORE_ABSENT)
        return status;
    for (uint32_t i = 1; status == PTO_OK && i < sizeof(folders) / sizeof(folders[0]); i++)
        if (check_folder(store, folders[i]) < 0)
            status = PTO_EINVAL;
    if (status == PTO_OK)
        status = read_secret(store);
    if (status == STORE_ABSENT && is_made) {
        status = make_secret(store);
        if (status == PTO_OK)
            status = read_secret(store);
    }
    store->is_checked = status == PTO_OK || status == PTO_EINVAL;
    return status;
}
