// SPDX-License-Identifier: Apache-2.0
//
// Stands for the attention that the decode step of Qwen3-14B takes from a vendor's library: for each row of the batch
// the root mean square of each head, the rotation by the position, the new row of keys and values, and attention over
// all rows so far. Keys and values are in pages of 128 rows; the rows of a page have all heads one after the other.
// Block b computes row b of the batch in its first AIV core; the other cores have nothing to do.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "intrinsic.h"
#include "tensor.h"

namespace
{

constexpr int HEADS = 40, KV_HEADS = 8, GROUP = HEADS / KV_HEADS, DIM = 128, HALF = DIM / 2;
constexpr int ROWS = 16, PAGE = 128;
constexpr float EPSILON = 1e-6f, SCALE = 0.08838834764831845f; // one by the root of DIM

// In the order of the kernel's arguments; the last one is the number of the layer's first row of keys.
enum {
    OUT,
    Q,
    K,
    V,
    TABLE,
    Q_IN = 7,
    K_IN,
    V_IN,
    Q_WEIGHT,
    K_WEIGHT,
    COS,
    SIN,
    INVERSE,
    SLOT,
    LENGTH,
    BASE
};

template <typename T> T *data_of(int64_t *args, int i)
{
    auto *tensor = reinterpret_cast<ChipTensor *>(args[i]);

    return reinterpret_cast<T *>(tensor->buffer.addr) + tensor->start_offset;
}

float widen(uint16_t bits)
{
    const uint32_t word = static_cast<uint32_t>(bits) << 16;
    float value;

    std::memcpy(&value, &word, sizeof(value));
    return value;
}

uint16_t narrow(float value)
{
    uint32_t word;

    std::memcpy(&word, &value, sizeof(word));
    return static_cast<uint16_t>((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

// A head with its root mean square made 1, times the weights, rotated by the position.
void make_head(const float *in, float inverse, const float *weight, const float *cos,
               const float *sin, uint16_t *out)
{
    float v[DIM], squares = 0;

    for (int i = 0; i < DIM; i++) {
        v[i] = in[i] * inverse;
        squares += v[i] * v[i];
    }
    const float root = 1.0f / std::sqrt(squares / DIM + EPSILON);
    for (int i = 0; i < DIM; i++)
        v[i] = v[i] * root * weight[i];
    for (int i = 0; i < HALF; i++) {
        out[i] = narrow(v[i] * cos[i] - v[i + HALF] * sin[i]);
        out[i + HALF] = narrow(v[i + HALF] * cos[i + HALF] + v[i] * sin[i + HALF]);
    }
}

struct Row {
    int64_t *args;
    int b, length;
    int64_t base;
    const int32_t *pages;

    // The elements of a head in a row of keys or values.
    uint16_t *at(int i, int64_t row, int head) const
    {
        return data_of<uint16_t>(args, i) + (base + row * KV_HEADS + head) * DIM;
    }
    const uint16_t *of_position(int i, int position, int head) const
    {
        return at(i, static_cast<int64_t>(pages[position / PAGE]) * PAGE + position % PAGE, head);
    }

    void add_position(const float *cos, const float *sin, float inverse) const
    {
        const int64_t slot = data_of<int32_t>(args, SLOT)[b];

        for (int h = 0; h < KV_HEADS; h++) {
            const int at_in = (b * KV_HEADS + h) * DIM;

            make_head(data_of<float>(args, K_IN) + at_in, inverse, data_of<float>(args, K_WEIGHT),
                      cos, sin, at(K, slot, h));
            for (int i = 0; i < DIM; i++)
                at(V, slot, h)[i] = narrow(data_of<float>(args, V_IN)[at_in + i] * inverse);
        }
    }

    void attend(int head, const uint16_t *query, uint16_t *out) const
    {
        static thread_local std::vector<float> weights;
        float q[DIM], sums[DIM] = {}, most = -1e30f, total = 0;

        weights.resize(static_cast<size_t>(length));
        for (int i = 0; i < DIM; i++)
            q[i] = widen(query[i]);
        for (int t = 0; t < length; t++) {
            const uint16_t *key = of_position(K, t, head);
            float score = 0;

            for (int i = 0; i < DIM; i++)
                score += q[i] * widen(key[i]);
            weights[t] = score * SCALE;
            most = std::max(most, weights[t]);
        }
        for (int t = 0; t < length; t++) {
            const uint16_t *value = of_position(V, t, head);
            const float weight = std::exp(weights[t] - most);

            total += weight;
            for (int i = 0; i < DIM; i++)
                sums[i] += weight * widen(value[i]);
        }
        for (int i = 0; i < DIM; i++)
            out[i] = narrow(sums[i] / total);
    }
};

} // namespace

extern "C" void kernel_entry(int64_t *args)
{
    const int b = get_block_idx(args);
    const auto *table = reinterpret_cast<const ChipTensor *>(args[TABLE]);

    if (get_sub_block_id(args) != 0 || b >= ROWS)
        return;
    const int length = data_of<int32_t>(args, LENGTH)[b];
    const Row row = { args, b, length, args[BASE],
                      data_of<int32_t>(args, TABLE) + b * (table->shapes[0] / ROWS) };
    const float *cos = data_of<float>(args, COS) + (length - 1) * DIM;
    const float *sin = data_of<float>(args, SIN) + (length - 1) * DIM;
    const float inverse = data_of<float>(args, INVERSE)[b];

    row.add_position(cos, sin, inverse);
    for (int head = 0; head < HEADS; head++) {
        const int at = (b * HEADS + head) * DIM;
        uint16_t *query = data_of<uint16_t>(args, Q) + at;

        make_head(data_of<float>(args, Q_IN) + at, inverse, data_of<float>(args, Q_WEIGHT), cos,
                  sin, query);
        row.attend(head / GROUP, query, data_of<uint16_t>(args, OUT) + at);
    }
}
