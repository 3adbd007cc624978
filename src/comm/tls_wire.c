/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs and unpacks the payloads of records between ranks of different hosts: src/comm/tls_wire.h.
 */
#include "comm/tls_wire.h"

#include "net/packer.h"

size_t tls_wire_pack_entry(const struct tls_wire_entry *entry, uint8_t *bytes)
{
    struct packer p = { bytes };

    pack_number(&p, entry->index, 4);
    pack_number(&p, entry->state, 4);
    pack_number(&p, entry->other, 4);
    pack_number(&p, entry->serial, 8);
    pack_number(&p, entry->id, 8);
    pack_number(&p, entry->digest, 8);
    pack_number(&p, entry->window_bytes, 8);
    pack_number(&p, entry->offset, 8);
    pack_number(&p, entry->other_bytes, 8);
    pack_number(&p, entry->host_first, 4);
    pack_number(&p, entry->host_index, 4);
    pack_number(&p, entry->host_count, 4);
    for (uint32_t i = 0; i < SHARED_MEMBER_WORDS; i++)
        pack_number(&p, entry->member[i], 8);
    return (size_t)(p.at - bytes);
}

bool tls_wire_unpack_entry(const uint8_t *bytes, size_t size, struct tls_wire_entry *out)
{
    struct unpacker u = { bytes, size, false };

    out->index = (uint32_t)unpack_number(&u, 4);
    out->state = (uint32_t)unpack_number(&u, 4);
    out->other = (uint32_t)unpack_number(&u, 4);
    out->serial = unpack_number(&u, 8);
    out->id = unpack_number(&u, 8);
    out->digest = unpack_number(&u, 8);
    out->window_bytes = unpack_number(&u, 8);
    out->offset = unpack_number(&u, 8);
    out->other_bytes = unpack_number(&u, 8);
    out->host_first = (uint32_t)unpack_number(&u, 4);
    out->host_index = (uint32_t)unpack_number(&u, 4);
    out->host_count = (uint32_t)unpack_number(&u, 4);
    for (uint32_t i = 0; i < SHARED_MEMBER_WORDS; i++)
        out->member[i] = unpack_number(&u, 8);
    /* mutation: far-entry */
    return !u.has_failed && u.left == 0 && out->index < SHARED_ENTRIES &&
           out->state <= ENTRY_LEAVING && out->serial != 0;
}

size_t tls_wire_pack_control(const struct tls_wire_control *control, uint8_t *bytes)
{
    struct packer p = { bytes };

    pack_number(&p, control->offset, 8);
    pack_number(&p, control->arrived, 4);
    pack_number(&p, control->given_up, 4);
    pack_number(&p, control->torn, 4);
    return (size_t)(p.at - bytes);
}

bool tls_wire_unpack_control(const uint8_t *bytes, size_t size, struct tls_wire_control *out)
{
    struct unpacker u = { bytes, size, false };

    out->offset = unpack_number(&u, 8);
    out->arrived = (uint32_t)unpack_number(&u, 4);
    out->given_up = (uint32_t)unpack_number(&u, 4);
    out->torn = (uint32_t)unpack_number(&u, 4);
    return !u.has_failed && u.left == 0;
}

size_t tls_wire_pack_round(const struct tls_wire_round *round, uint8_t *bytes)
{
    struct packer p = { bytes };

    pack_number(&p, round->offset, 8);
    pack_number(&p, round->number, 4);
    pack_number(&p, round->word, 4);
    pack_bytes(&p, round->bytes, sizeof(round->bytes));
    pack_number(&p, round->has_call, 1);
    pack_number(&p, (uint32_t)round->status, 4);
    pack_number(&p, round->args[0], 8);
    pack_number(&p, round->args[1], 8);
    return (size_t)(p.at - bytes);
}

bool tls_wire_unpack_round(const uint8_t *bytes, size_t size, struct tls_wire_round *out)
{
    struct unpacker u = { bytes, size, false };
    uint64_t has_call;

    out->offset = unpack_number(&u, 8);
    out->number = (uint32_t)unpack_number(&u, 4);
    out->word = (uint32_t)unpack_number(&u, 4);
    unpack_bytes(&u, out->bytes, sizeof(out->bytes));
    has_call = unpack_number(&u, 1);
    out->has_call = has_call == 1;
    out->status = (int32_t)unpack_number(&u, 4);
    out->args[0] = unpack_number(&u, 8);
    out->args[1] = unpack_number(&u, 8);
    return !u.has_failed && u.left == 0 && has_call <= 1;
}

size_t tls_wire_pack_state(uint32_t state, int32_t status, uint8_t *bytes)
{
    struct packer p = { bytes };

    pack_number(&p, state, 4);
    pack_number(&p, (uint32_t)status, 4);
    return (size_t)(p.at - bytes);
}

bool tls_wire_unpack_state(const uint8_t *bytes, size_t size, uint32_t *state, int32_t *status)
{
    struct unpacker u = { bytes, size, false };

    *state = (uint32_t)unpack_number(&u, 4);
    *status = (int32_t)unpack_number(&u, 4);
    return !u.has_failed && u.left == 0 && *state <= RANK_ABORTED && *status <= 0;
}

size_t tls_wire_pack_place(const struct tls_wire_place *place, uint8_t *bytes)
{
    struct packer p = { bytes };

    pack_number(&p, place->offset, 8);
    pack_number(&p, place->at, 8);
    return (size_t)(p.at - bytes);
}

static void unpack_place(struct unpacker *u, struct tls_wire_place *out)
{
    out->offset = unpack_number(u, 8);
    out->at = unpack_number(u, 8);
}

bool tls_wire_unpack_place(const uint8_t *bytes, size_t size, struct tls_wire_place *out)
{
    struct unpacker u = { bytes, size, false };

    unpack_place(&u, out);
    return !u.has_failed && u.left <= LANE_DATA_MAX;
}

size_t tls_wire_pack_signal(const struct tls_wire_signal *signal, uint8_t *bytes)
{
    struct packer p = { bytes };

    p.at += tls_wire_pack_place(&signal->place, bytes);
    pack_number(&p, signal->how, 4);
    pack_number(&p, (uint32_t)signal->value, 4);
    pack_number(&p, signal->call, 8);
    return (size_t)(p.at - bytes);
}

bool tls_wire_unpack_signal(const uint8_t *bytes, size_t size, struct tls_wire_signal *out)
{
    struct unpacker u = { bytes, size, false };

    unpack_place(&u, &out->place);
    out->how = (uint32_t)unpack_number(&u, 4);
    out->value = (int32_t)unpack_number(&u, 4);
    out->call = unpack_number(&u, 8);
    return !u.has_failed && u.left == 0 && out->how <= PTO_SIGNAL_ADD &&
           out->place.at % sizeof(int32_t) == 0;
}

size_t tls_wire_pack_get(const struct tls_wire_get *get, uint8_t *bytes)
{
    struct packer p = { bytes };

    p.at += tls_wire_pack_place(&get->place, bytes);
    pack_number(&p, get->call, 8);
    pack_number(&p, get->to, 8);
    pack_number(&p, get->bytes, 4);
    return (size_t)(p.at - bytes);
}

bool tls_wire_unpack_get(const uint8_t *bytes, size_t size, struct tls_wire_get *out)
{
    struct unpacker u = { bytes, size, false };

    unpack_place(&u, &out->place);
    out->call = unpack_number(&u, 8);
    out->to = unpack_number(&u, 8);
    out->bytes = (uint32_t)unpack_number(&u, 4);
    return !u.has_failed && u.left == 0 && out->bytes <= LANE_DATA_MAX && out->call != 0;
}

size_t tls_wire_pack_answer(const struct tls_wire_answer *answer, uint8_t *bytes)
{
    struct packer p = { bytes };

    pack_number(&p, answer->call, 8);
    pack_number(&p, answer->to, 8);
    pack_number(&p, (uint32_t)answer->status, 4);
    pack_number(&p, answer->before, 4);
    return (size_t)(p.at - bytes);
}

bool tls_wire_unpack_answer(const uint8_t *bytes, size_t size, struct tls_wire_answer *out)
{
    struct unpacker u = { bytes, size, false };

    out->call = unpack_number(&u, 8);
    out->to = unpack_number(&u, 8);
    out->status = (int32_t)unpack_number(&u, 4);
    out->before = (uint32_t)unpack_number(&u, 4);
    return !u.has_failed && u.left <= LANE_DATA_MAX && out->status <= 0;
}
