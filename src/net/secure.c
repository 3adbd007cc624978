/* SPDX-License-Identifier: Apache-2.0 */
/* Encrypted connections, by GnuTLS, which is loaded when it is first needed: src/net/secure.h. */
#include "net/secure.h"

#include <dlfcn.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The functions of GnuTLS that are used. */
#define GNUTLS_MAP(X)                             \
    X(gnutls_credentials_set)                     \
    X(gnutls_deinit)                              \
    X(gnutls_error_is_fatal)                      \
    X(gnutls_handshake)                           \
    X(gnutls_init)                                \
    X(gnutls_priority_set_direct)                 \
    X(gnutls_psk_allocate_client_credentials)     \
    X(gnutls_psk_allocate_server_credentials)     \
    X(gnutls_psk_free_client_credentials)         \
    X(gnutls_psk_free_server_credentials)         \
    X(gnutls_psk_set_client_credentials)          \
    X(gnutls_psk_set_server_credentials_function) \
    X(gnutls_record_check_pending)                \
    X(gnutls_record_get_direction)                \
    X(gnutls_record_recv)                         \
    X(gnutls_record_send)                         \
    X(gnutls_session_get_ptr)                     \
    X(gnutls_session_set_ptr)                     \
    X(gnutls_transport_set_int2)

static struct {
#define X(name) __typeof__(&name) name;
    GNUTLS_MAP(X)
#undef X
    bool is_loaded;
} tls;

struct secure {
    int socket;
    bool is_server;
    gnutls_session_t session;
    gnutls_psk_client_credentials_t client;
    gnutls_psk_server_credentials_t server;
    /* number of bytes that GnuTLS has encrypted, but not written completely to the socket */
    size_t held_bytes;
    struct job_key key;
};

static const char library_name[] = "libgnutls.so.30";
static const char user_name[] = "pto";
static const char priorities[] =
    "NONE:+VERS-TLS1.3:+AEAD:+AES-128-GCM:+CHACHA20-POLY1305:+GROUP-X25519:+ECDHE-PSK:+SIGN-ALL:"
    "+COMP-NULL:+CTYPE-ALL";

/* ---- loading ---- */

/* Stores the address of a function of the library. False: the library has no such function. */
static bool find_function(void *library, const char *name, void *pointer_out)
{
    void *found = dlsym(library, name);

    memcpy(pointer_out, &found, sizeof(found));
    return found != NULL;
}

/* Loads GnuTLS. It stays loaded until the process ends. */
static void secure_load(void)
{
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
    bool has_all = library != NULL;

#define X(name) has_all = has_all && find_function(library, #name, &tls.name);
    GNUTLS_MAP(X)
#undef X
    tls.is_loaded = has_all;
}

int secure_init(struct pto_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, secure_load);
    return tls.is_loaded
               ? PTO_OK
               : error_setf(error, PTO_ENOSUP,
                            "ranks on several hosts need %s, which cannot be loaded; install the "
                            "Debian package libgnutls30",
                            library_name);
}

/* ---- connections ---- */

/* Called by GnuTLS on the accepting side: returns the key for a client with the name `user`. */
static int give_key(gnutls_session_t session, const char *user, gnutls_datum_t *key)
{
    const struct secure *secure = tls.gnutls_session_get_ptr(session);

    if (strcmp(user, user_name) != 0)
        return -1;
    key->data = malloc(JOB_KEY_BYTES); /* GnuTLS frees it */
    if (key->data == NULL)
        return -1;
    memcpy(key->data, secure->key.byte, JOB_KEY_BYTES);
    key->size = JOB_KEY_BYTES;
    return 0;
}

static bool secure_give_credentials(struct secure *s)
{
    gnutls_datum_t key = { s->key.byte, JOB_KEY_BYTES };

    if (s->is_server) {
        if (tls.gnutls_psk_allocate_server_credentials(&s->server) < 0)
            return false;
        tls.gnutls_psk_set_server_credentials_function(s->server, give_key);
        return tls.gnutls_credentials_set(s->session, GNUTLS_CRD_PSK, s->server) >= 0;
    }
    return tls.gnutls_psk_allocate_client_credentials(&s->client) >= 0 &&
           tls.gnutls_psk_set_client_credentials(s->client, user_name, &key, GNUTLS_PSK_KEY_RAW) >=
               0 &&
           tls.gnutls_credentials_set(s->session, GNUTLS_CRD_PSK, s->client) >= 0;
}

struct secure *secure_make(int socket, bool is_server, const struct job_key *key)
{
    struct secure *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        close(socket);
        return NULL;
    }
    s->socket = socket;
    s->is_server = is_server;
    s->key = *key;
    if (tls.gnutls_init(&s->session, (is_server ? GNUTLS_SERVER : GNUTLS_CLIENT) | GNUTLS_NONBLOCK |
                                         GNUTLS_NO_SIGNAL) < 0) {
        s->session = NULL;
        secure_free(s);
        return NULL;
    }
    tls.gnutls_session_set_ptr(s->session, s);
    if (tls.gnutls_priority_set_direct(s->session, priorities, NULL) < 0 ||
        !secure_give_credentials(s)) {
        secure_free(s);
        return NULL;
    }
    tls.gnutls_transport_set_int2(s->session, socket, socket);
    return s;
}

void secure_free(struct secure *s)
{
    if (s == NULL)
        return;
    if (s->session != NULL)
        tls.gnutls_deinit(s->session);
    if (s->client != NULL)
        tls.gnutls_psk_free_client_credentials(s->client);
    if (s->server != NULL)
        tls.gnutls_psk_free_server_credentials(s->server);
    close(s->socket);
    explicit_bzero(&s->key, sizeof(s->key));
    free(s);
}

int secure_socket(const struct secure *s)
{
    return s->socket;
}

bool secure_wants_write(const struct secure *s)
{
    return s->held_bytes > 0 || tls.gnutls_record_get_direction(s->session) == 1;
}

/* Whether GnuTLS asks to repeat the call when the socket is ready. */
static bool must_repeat(ssize_t code)
{
    return code == GNUTLS_E_AGAIN || code == GNUTLS_E_INTERRUPTED;
}

int secure_shake(struct secure *s)
{
    int code;

    do
        code = tls.gnutls_handshake(s->session);
    while (code == GNUTLS_E_INTERRUPTED ||
           (code < 0 && code != GNUTLS_E_AGAIN && tls.gnutls_error_is_fatal(code) == 0));
    return code >= 0 ? PTO_OK : code == GNUTLS_E_AGAIN ? PTO_EAGAIN : PTO_EPEER;
}

ssize_t secure_send(struct secure *s, const void *bytes, size_t size)
{
    ssize_t code;

    if (size > SECURE_RECORD_BYTES)
        size = SECURE_RECORD_BYTES;
    do /* GnuTLS sends the rest of what it has encrypted before, so it gets no new bytes */
        code = tls.gnutls_record_send(s->session, s->held_bytes > 0 ? NULL : bytes,
                                      s->held_bytes > 0 ? 0 : size);
    while (code == GNUTLS_E_INTERRUPTED);
    if (code == GNUTLS_E_AGAIN) {
        if (s->held_bytes == 0)
            s->held_bytes = size;
        return 0;
    }
    if (code < 0)
        return PTO_EPEER;
    if (s->held_bytes > 0)
        code = (ssize_t)s->held_bytes;
    s->held_bytes = 0;
    return code;
}

ssize_t secure_receive(struct secure *s, void *bytes, size_t size)
{
    ssize_t code;

    do
        code = tls.gnutls_record_recv(s->session, bytes, size);
    while (code == GNUTLS_E_INTERRUPTED ||
           (code < 0 && !must_repeat(code) && tls.gnutls_error_is_fatal((int)code) == 0));
    return code > 0 ? code : must_repeat(code) ? 0 : PTO_EPEER;
}

bool secure_has_more(const struct secure *s)
{
    return tls.gnutls_record_check_pending(s->session) > 0;
}
