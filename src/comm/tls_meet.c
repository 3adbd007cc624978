/* SPDX-License-Identifier: Apache-2.0 */
/* The meeting of src/comm/tls_meet.h: messages, and the side of ranks other than 0. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "comm/tls_meet.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/os.h"
#include "net/packer.h"

enum { TLS_MAGIC = 0x546f7470, CONNECT_MS = 500, AGAIN_MS = 20, HANDSHAKES_MAX = 20 };
#define TLS_SHAKE_NS 5000000000ull
#define TLS_VERDICT_NS 500000000ull

/* ---- messages ---- */

void tls_meet_pack_hello(const struct tls_hello *hello, uint8_t bytes[TLS_HELLO_BYTES])
{
    struct packer p = { bytes };

    memset(bytes, 0, TLS_HELLO_BYTES);
    pack_number(&p, TLS_MAGIC, 4);
    pack_number(&p, hello->version, 4);
    pack_number(&p, hello->rank, 4);
    pack_number(&p, hello->rank_count, 4);
    pack_number(&p, hello->head_bytes, 4);
    pack_number(&p, hello->has_fence, 4);
    pack_number(&p, hello->is_virtual, 4);
    pack_number(&p, hello->has_ucx, 4);
    pack_number(&p, hello->port, 4);
    pack_bytes(&p, hello->token, sizeof(hello->token));
    pack_bytes(&p, hello->address, sizeof(hello->address));
    pack_bytes(&p, hello->host, sizeof(hello->host));
    pack_bytes(&p, hello->name, sizeof(hello->name));
    assert(p.at <= bytes + TLS_HELLO_BYTES);
}

/* Whether a text of another rank has only printable ASCII characters without spaces. */
static bool tls_is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (!isgraph((unsigned char)*text) || (*text & 0x80) != 0)
            return false;
    return true;
}

bool tls_meet_unpack_hello(const uint8_t bytes[TLS_HELLO_BYTES], struct tls_hello *out)
{
    struct unpacker u = { bytes, TLS_HELLO_BYTES, false };
    bool is_good = unpack_number(&u, 4) == TLS_MAGIC;

    memset(out, 0, sizeof(*out));
    out->version = (uint32_t)unpack_number(&u, 4);
    out->rank = (uint32_t)unpack_number(&u, 4);
    out->rank_count = (uint32_t)unpack_number(&u, 4);
    out->head_bytes = (uint32_t)unpack_number(&u, 4);
    out->has_fence = (uint32_t)unpack_number(&u, 4);
    out->is_virtual = (uint32_t)unpack_number(&u, 4);
    out->has_ucx = (uint32_t)unpack_number(&u, 4);
    out->port = (uint32_t)unpack_number(&u, 4);
    unpack_text(&u, out->token, sizeof(out->token));
    unpack_text(&u, out->address, sizeof(out->address));
    unpack_text(&u, out->host, sizeof(out->host));
    unpack_bytes(&u, out->name, sizeof(out->name));
    return is_good && !u.has_failed && out->port <= UINT16_MAX && tls_is_plain(out->address) &&
           tls_is_plain(out->host) && out->host[0] != '\0';
}

void tls_meet_pack_answer(const struct tls_answer *answer, uint8_t bytes[TLS_ANSWER_BYTES])
{
    struct packer p = { bytes };

    memset(bytes, 0, TLS_ANSWER_BYTES);
    pack_number(&p, TLS_MAGIC, 4);
    pack_number(&p, (uint32_t)answer->status, 4);
    pack_number(&p, (uint32_t)answer->rank, 4);
    pack_number(&p, answer->has_fence, 4);
    pack_bytes(&p, answer->job, sizeof(answer->job));
    pack_bytes(&p, answer->text, sizeof(answer->text));
    assert(p.at <= bytes + TLS_ANSWER_BYTES);
}

bool tls_meet_unpack_answer(const uint8_t bytes[TLS_ANSWER_BYTES], struct tls_answer *out)
{
    struct unpacker u = { bytes, TLS_ANSWER_BYTES, false };
    bool is_good = unpack_number(&u, 4) == TLS_MAGIC;

    memset(out, 0, sizeof(*out));
    out->status = (int32_t)unpack_number(&u, 4);
    out->rank = (int32_t)unpack_number(&u, 4);
    out->has_fence = (uint32_t)unpack_number(&u, 4);
    unpack_bytes(&u, out->job, sizeof(out->job));
    unpack_text(&u, out->text, sizeof(out->text));
    return is_good && !u.has_failed && out->status <= 0 && out->rank >= -1;
}

void tls_meet_pack_entry(const struct tls_entry *entry, uint8_t bytes[TLS_ENTRY_BYTES])
{
    struct packer p = { bytes };

    memset(bytes, 0, TLS_ENTRY_BYTES);
    pack_number(&p, entry->port, 4);
    pack_bytes(&p, entry->address, sizeof(entry->address));
    pack_bytes(&p, entry->host, sizeof(entry->host));
    pack_bytes(&p, entry->name, sizeof(entry->name));
    assert(p.at <= bytes + TLS_ENTRY_BYTES);
}

bool tls_meet_unpack_entry(const uint8_t bytes[TLS_ENTRY_BYTES], struct tls_entry *out)
{
    struct unpacker u = { bytes, TLS_ENTRY_BYTES, false };

    memset(out, 0, sizeof(*out));
    out->port = (uint32_t)unpack_number(&u, 4);
    unpack_text(&u, out->address, sizeof(out->address));
    unpack_text(&u, out->host, sizeof(out->host));
    unpack_bytes(&u, out->name, sizeof(out->name));
    return !u.has_failed && out->port <= UINT16_MAX && tls_is_plain(out->address) &&
           tls_is_plain(out->host);
}

/* ---- sending and receiving with a deadline ---- */

static int tls_wait(struct secure *secure, bool wants_write, uint64_t deadline_ns)
{
    struct pollfd look = { .fd = secure_socket(secure), .events = wants_write ? POLLOUT : POLLIN };

    if (os_now_ns() >= deadline_ns)
        return PTO_ETIMEOUT;
    (void)poll(&look, 1, meet_timeout_ms(deadline_ns, 1000));
    return PTO_OK;
}

int tls_meet_put(struct secure *secure, const void *bytes, size_t size, uint64_t deadline_ns)
{
    int status = PTO_OK;

    for (size_t done = 0; done < size && status >= 0;) {
        ssize_t wrote = secure_send(secure, (const char *)bytes + done, size - done);

        if (wrote < 0)
            return PTO_EPEER;
        done += (size_t)wrote;
        if (wrote == 0)
            status = tls_wait(secure, true, deadline_ns);
    }
    return status;
}

int tls_meet_take(struct secure *secure, void *bytes, size_t size, uint64_t deadline_ns)
{
    int status = PTO_OK;

    for (size_t done = 0; done < size && status >= 0;) {
        ssize_t got = secure_receive(secure, (char *)bytes + done, size - done);

        if (got < 0)
            return PTO_EPEER;
        done += (size_t)got;
        if (got == 0)
            status = tls_wait(secure, false, deadline_ns);
    }
    return status;
}

/* ---- the parts of a meeting ---- */

/*
 * Finds the job's key. Without one, the connections must stay inside this machine, and the key is
 * derived from the token.
 */
static int tls_find_key(struct tls_meeting *m)
{
    struct digest digest;
    int status = job_key_find(&m->key, &m->has_key, m->error);

    if (status >= 0 && !m->has_key) {
        digest_of(m->comm->token, strlen(m->comm->token), &digest);
        memcpy(m->key.byte, digest.byte, JOB_KEY_BYTES);
    }
    return status;
}

/* Fails if there is no key and the address can be reached from other machines. */
static int tls_check_reach(struct tls_meeting *m, const struct net_address *address)
{
    char text[NET_TEXT_BYTES];

    if (m->has_key || net_address_is_loopback(address)) /* mutation: open-gate */
        return PTO_OK;
    return error_setf(m->error, PTO_EINVAL,
                      "%s is not an address of this machine alone, and ranks on several hosts need "
                      "a job key: set PTO_KEY_FILE to a file that `pto key` made",
                      net_address_format(address, text));
}

static void tls_name_host(char host[TLS_HOST_BYTES])
{
    const char *given = getenv("PTO_COMM_HOST");

    if (given != NULL && given[0] != '\0')
        snprintf(host, TLS_HOST_BYTES, "%s", given);
    else if (gethostname(host, TLS_HOST_BYTES) != 0)
        host[0] = '\0';
    host[TLS_HOST_BYTES - 1] = '\0';
    if (host[0] == '\0' || !tls_is_plain(host))
        snprintf(host, TLS_HOST_BYTES, "?");
}

/*
 * Opens the gate of this rank on any free port of the address in PTO_COMM_ADDRESS, or of `local`.
 */
static int tls_open_gate(struct tls_meeting *m, const struct net_address *local)
{
    const char *given = getenv("PTO_COMM_ADDRESS");
    struct net_address at = *local;
    char text[NET_TEXT_BYTES];
    int status;

    if (given != NULL && given[0] != '\0' && !net_address_parse_numeric(given, &at))
        return error_setf(m->error, PTO_EINVAL,
                          "PTO_COMM_ADDRESS is '%.100s', which is not a numeric address", given);
    net_address_set_port(&at, 0);
    status = tls_check_reach(m, &at);
    if (status < 0)
        return status;
    m->gate = net_listen(&at);
    if (m->gate < 0 || !net_address_of(m->gate, false, &at))
        return error_setf(m->error, PTO_ESYSTEM, "rank %u cannot listen at %s: %s", m->comm->rank,
                          net_address_format(&at, text), strerror(errno));
    m->own.port = net_address_port(&at);
    if (net_address_is_any(&at))
        /*
         * address "" in the hello: the others use the host address at which they have reached rank
         * 0
         */
        return PTO_OK;
    net_address_set_port(&at, 0);
    net_address_format(&at, text);
    /* only the numeric address: cuts off the port, and below the brackets */
    *strrchr(text, ':') = '\0';
    if (text[0] == '[')
        text[strlen(text) - 1] = '\0';
    snprintf(m->own.address, sizeof(m->own.address), "%s", text + (text[0] == '['));
    return PTO_OK;
}

int tls_meet_open(struct tls_meeting *m, const struct comm_request *comm, uint32_t head_bytes,
                  struct pto_error *error)
{
    int status;

    memset(m, 0, sizeof(*m));
    m->comm = comm;
    m->gate = m->listener = m->socket = -1;
    m->error = error;
    m->connection = calloc(comm->rank_count, sizeof(struct secure *));
    m->entry = calloc(comm->rank_count, sizeof(*m->entry));
    if (m->connection == NULL || m->entry == NULL)
        return PTO_ENOMEM;
    m->own = (struct tls_hello){ .version = TLS_VERSION,
                                 .rank = comm->rank,
                                 .rank_count = comm->rank_count,
                                 .head_bytes = head_bytes,
                                 .has_fence = os_fence_processes_init() };
    snprintf(m->own.token, sizeof(m->own.token), "%s", comm->token);
    tls_name_host(m->own.host);
    status = tls_find_key(m);
    if (status >= 0)
        status = net_address_parse(comm->path, &m->root, error);
    if (status < 0)
        return status;
    if (getrandom(m->own.name, sizeof(m->own.name), 0) != (ssize_t)sizeof(m->own.name))
        return error_setf(error, PTO_ESYSTEM, "no random numbers: %s", strerror(errno));
    m->socket = meet_listen(m->own.name);
    if (m->socket < 0)
        return error_setf(error, PTO_ESYSTEM, "this rank cannot listen for ranks of its host: %s",
                          strerror(errno));
    if (comm->rank != 0)
        return tls_check_reach(m, &m->root);
    status = tls_meet_listen(m);
    if (status >= 0)
        status = tls_check_reach(m, &m->root);
    return status < 0 ? status : tls_open_gate(m, &m->root);
}

void tls_meet_close(struct tls_meeting *m)
{
    for (uint32_t i = 0; m->connection != NULL && i < m->comm->rank_count; i++)
        secure_free(m->connection[i]);
    meet_close_fds(&m->gate, 1);
    meet_close_fds(&m->listener, 1);
    meet_close_fds(&m->socket, 1);
    free(m->connection);
    free(m->entry);
    explicit_bzero(&m->key, sizeof(m->key));
}

/* ---- ranks other than 0 ---- */

/* Tries once to connect to rank 0. Returns a socket, or PTO_EAGAIN and in *number the errno. */
static int tls_try_connect(const struct net_address *root, int *number)
{
    int socket = net_connect(root);
    struct pollfd look = { .fd = socket, .events = POLLOUT };

    *number = socket < 0 ? errno : ETIMEDOUT;
    if (socket >= 0 && poll(&look, 1, CONNECT_MS) == 1)
        *number = net_connect_result(socket);
    if (*number == 0)
        return socket;
    if (socket >= 0)
        close(socket);
    return PTO_EAGAIN;
}

static int tls_shake(struct secure *secure, uint64_t deadline_ns)
{
    int status;

    while ((status = secure_shake(secure)) == PTO_EAGAIN) {
        status = tls_wait(secure, secure_wants_write(secure), deadline_ns);
        if (status < 0)
            return status;
    }
    return status;
}

/* Connects to rank 0, which may start later than this rank. */
static int tls_connect(struct tls_meeting *m)
{
    const struct comm_request *c = m->comm;
    uint32_t failed = 0;
    int number = 0;

    while (os_now_ns() < c->deadline_ns && failed < HANDSHAKES_MAX) {
        int socket = tls_try_connect(&m->root, &number);
        uint64_t limit_ns = os_now_ns() + TLS_SHAKE_NS;

        if (socket >= 0) {
            m->connection[0] = secure_make(socket, false, &m->key);
            if (m->connection[0] == NULL)
                return PTO_ENOMEM;
            if (tls_shake(m->connection[0],
                          limit_ns < c->deadline_ns ? limit_ns : c->deadline_ns) >= 0)
                return PTO_OK;
            secure_free(m->connection[0]);
            m->connection[0] = NULL;
            failed++;
        }
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ 0, AGAIN_MS * 1000000 },
                              NULL);
    }
    if (failed == HANDSHAKES_MAX)
        return comm_error_set(
            m->error, PTO_EPEER, 0,
            "rank 0 at %s refuses this rank (%u): it has another job key or token, or "
            "is not a rank",
            c->path, c->rank);
    return comm_error_set(m->error, PTO_ETIMEOUT, 0, "rank 0 did not arrive at %s in time: %s",
                          c->path, strerror(number));
}

/* Reads an answer of rank 0. Returns PTO_OK, or the error with which the meeting has failed. */
static int tls_take_answer(struct tls_meeting *m, struct tls_answer *answer)
{
    uint64_t deadline_ns = m->comm->deadline_ns;
    uint8_t bytes[TLS_ANSWER_BYTES];
    int status;

    /* waits longer than rank 0, which reports after its deadline which ranks are missing */
    if (deadline_ns < UINT64_MAX - TLS_VERDICT_NS)
        deadline_ns += TLS_VERDICT_NS;
    status = tls_meet_take(m->connection[0], bytes, sizeof(bytes), deadline_ns);
    if (status == PTO_ETIMEOUT)
        return comm_error_set(m->error, status, UINT32_MAX, "not all ranks arrived at %s in time",
                              m->comm->path);
    if (status < 0 || !tls_meet_unpack_answer(bytes, answer))
        return comm_error_set(m->error, PTO_EPEER, 0, "rank 0 has ended while the ranks met");
    if (answer->status < 0)
        return comm_error_set(m->error, answer->status,
                              answer->rank < 0 ? UINT32_MAX : (uint32_t)answer->rank, "%s",
                              answer->text);
    return PTO_OK;
}

static int tls_send_hello(struct tls_meeting *m)
{
    uint8_t bytes[TLS_HELLO_BYTES];

    tls_meet_pack_hello(&m->own, bytes);
    return tls_meet_put(m->connection[0], bytes, sizeof(bytes), m->comm->deadline_ns) < 0
               ? comm_error_set(m->error, PTO_EPEER, 0, "rank 0 has ended while the ranks met")
               : PTO_OK;
}

static int tls_take_roster(struct tls_meeting *m)
{
    uint8_t bytes[TLS_ENTRY_BYTES];

    for (uint32_t i = 0; i < m->comm->rank_count; i++)
        if (tls_meet_take(m->connection[0], bytes, sizeof(bytes), m->comm->deadline_ns) < 0 ||
            !tls_meet_unpack_entry(bytes, &m->entry[i]))
            return comm_error_set(m->error, PTO_EPEER, 0, "rank 0 has ended while the ranks met");
    return PTO_OK;
}

int tls_meet_gather(struct tls_meeting *m)
{
    struct net_address local;
    struct tls_answer answer;
    int status;

    if (m->comm->rank == 0)
        return tls_meet_host_gather(m);
    status = tls_connect(m);
    if (status >= 0 && !net_address_of(secure_socket(m->connection[0]), false, &local))
        status = error_setf(m->error, PTO_ESYSTEM, "this rank has no address");
    if (status >= 0)
        status = tls_open_gate(m, &local);
    if (status >= 0)
        status = tls_send_hello(m);
    if (status >= 0)
        status = tls_take_answer(m, &answer);
    if (status < 0)
        return status;
    m->has_fence = answer.has_fence != 0;
    memcpy(m->job, answer.job, sizeof(m->job));
    return tls_take_roster(m);
}

int tls_meet_conclude(struct tls_meeting *m)
{
    struct tls_answer answer;
    int status;

    if (m->comm->rank == 0)
        return tls_meet_host_conclude(m);
    status = tls_send_hello(m);
    return status < 0 ? status : tls_take_answer(m, &answer);
}

void tls_meet_fail(struct tls_meeting *m, int status, const struct pto_error *why)
{
    if (m->comm->rank == 0)
        tls_meet_host_fail(m, status, why);
    /* other ranks close their connections after this, by which rank 0 notices the failure */
}

int tls_meet_check(struct tls_meeting *m)
{
    struct pollfd look;
    struct tls_answer answer;

    if (m->comm->rank == 0)
        return tls_meet_host_check(m);
    look = (struct pollfd){ .fd = secure_socket(m->connection[0]), .events = POLLIN };
    if (poll(&look, 1, 0) != 1)
        return PTO_OK;
    /* rank 0 sends nothing but errors until this rank has sent its second hello */
    return tls_take_answer(m, &answer) < 0
               ? (m->error != NULL ? m->error->status : PTO_EPEER)
               : comm_error_set(m->error, PTO_EPEER, 0, "rank 0 does not follow the protocol");
}
