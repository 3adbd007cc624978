/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares our bfloat16_t for kernels with the conversions of pto/half.h and with plain floats;
 * with NATIVE, also with std::bfloat16_t.
 */
#include <cmath>
#include <cstdio>
#include <cstring>

#include "pto/half.h"
#include "pto/types/bfloat16.hpp"
#ifdef NATIVE
#include <stdfloat>
#endif

static unsigned failures;
static uint64_t state = 1;

static uint64_t next_random()
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 29;
}

static uint16_t bits_of(bfloat16_t value)
{
    uint16_t bits;

    memcpy(&bits, (const void *)&value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void expect(bool is_so, const char *what, uint64_t a, uint64_t b)
{
    if (!is_so && failures++ < 20)
        printf("FAIL  %s: %llx, %llx\n", what, (unsigned long long)a, (unsigned long long)b);
}

static bool is_same(uint16_t a, uint16_t b)
{
    return a == b || ((a & 0x7fff) > 0x7f80 && (b & 0x7fff) > 0x7f80);
}

/* Every upper half of a float, with the lower halves at which rounding changes. */
static void check_conversions()
{
    static const uint16_t low[] = { 0, 1, 0x4000, 0x7fff, 0x8000, 0x8001, 0xc000, 0xffff };

    for (uint32_t high = 0; high < 65536; high++) {
        for (uint16_t l : low) {
            const uint32_t u = high << 16 | l;
            expect(is_same(bits_of(bfloat16_t(float_of(u))), pto_bfloat16_from_float(float_of(u))),
                   "from float", u, bits_of(bfloat16_t(float_of(u))));
        }
        const float wide = bfloat16_t::of((uint16_t)high);
        uint32_t u;

        memcpy(&u, &wide, sizeof(u));
        expect(u == high << 16, "to float", high, u);
    }
}

/* Rounds an integer or a double by comparing its neighbours. */
template <typename T> static void check_number(T value)
{
    const uint16_t bits = bits_of(bfloat16_t(value));
    const long double exact = value, got = (float)bfloat16_t::of(bits);

    if (exact != exact || std::isinf((float)got) || (bits & 0x7fff) == 0)
        return;
    for (int step = -1; step <= 1; step += 2) {
        const long double other = (float)bfloat16_t::of((uint16_t)(bits + step));
        const long double near = fabsl(got - exact), far = fabsl(other - exact);
        expect(near < far || (near == far && (bits & 1) == 0), "rounding of a number", bits,
               (uint64_t)(int64_t)value);
    }
}

static void check_numbers()
{
    for (int i = 0; i < 300000; i++) {
        const uint64_t r = next_random() << 29 ^ next_random();
        const int shift = (int)(next_random() % 64);
        check_number((int64_t)r >> shift);
        check_number(r >> shift);
        check_number((int32_t)((int64_t)r >> shift));
        /* one more or less than a tie */
        /* depends on the lowest bit of the tie */
        const int place = 30 + (int)(r >> 50 & 15) * 25 / 15;
        const uint64_t tie = (0x80 | (r & 0x7f)) << place | (uint64_t)1 << (place - 1);
        check_number((int64_t)tie + (int64_t)(r >> 60 & 1) - (int64_t)(r >> 61 & 1));
        check_number((double)((int64_t)(tie >> (place - 30)) + (int64_t)(r >> 60 & 1) - (int64_t)(r >> 61 & 1)));
        check_number((double)((int64_t)r) * std::ldexp(1.0, -shift));
    }
}

/* Expressions that a program may use. */
static void check_uses()
{
    const bfloat16_t a = 1.5f, b = 3, zero = 0;
    bfloat16_t c = a;

    c += b;
    c *= 2;
    expect((float)c == 9, "compound assignment", bits_of(c), 0);
    c = a > 0 ? a : 0;
    expect(c == a, "a choice between a value and 0", bits_of(c), 0);
    c = a * b + zero;
    expect((float)c == 4.5f && (int)c == 4 && (double)c == 4.5, "conversion", bits_of(c), 0);
    expect(std::max(a, b) == b && std::fabs(-a) == a && std::exp(zero) == 1, "functions", 0, 0);
    expect(std::isnan(zero / zero) && std::isinf(a / zero), "special values", 0, 0);
    expect(std::is_same_v<decltype(a * 1.0f), float> && std::is_same_v<decltype(a * 1.0), double>,
           "types", 0, 0);
    expect(std::numeric_limits<bfloat16_t>::max() > 3e38f, "limits", 0, 0);
}

#ifdef NATIVE

using native = std::bfloat16_t;

static native native_of(uint16_t bits)
{
    native value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint16_t bits_of(native value)
{
    uint16_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Evaluates expressions of three values, each rounded where it is stored. */
template <typename T> static void evaluate(T a, T b, T c, T *out)
{
    out[0] = a + b;
    out[1] = a - b;
    out[2] = a * b;
    out[3] = a / b;
    out[4] = a * b + c;
    out[5] = (a - b) * c;
    out[6] = a * b - c * a;
    out[7] = -(a + b);
    out[8] = (T)(a * b) + c;
    out[9] = (float)(a * b) + 1;
    out[10] = a < b ? a : b;
    out[11] = a * 3 + c;
    out[12] = a * 0.1f;
    out[13] = a * 0.1;
    out[14] = std::exp(a - b);
    out[15] = std::sqrt(a * a + b * b);
    out[16] = std::fabs(a - b);
    out[17] = c;
    out[17] += a * b;
    out[18] = a * b == c ? a : c;
    out[19] = a + b + c;
    out[20] = std::pow(std::fabs(a), c);
    out[21] = std::log(std::fabs(a) + b * b);
    out[22] = std::tanh(a);
    out[23] = a / b * c;
}

static void check_native()
{
    for (int i = 0; i < 2000000; i++) {
        uint16_t v[3];
        bfloat16_t ours[24];
        native theirs[24];

        for (uint16_t &bits : v) {
            bits = (uint16_t)next_random();
            if (i % 4 != 0) /* values near 1 */
                bits = (uint16_t)((bits & 0x81ff) | 0x3e00 | (bits & 0x0180));
        }
        evaluate(bfloat16_t::of(v[0]), bfloat16_t::of(v[1]), bfloat16_t::of(v[2]), ours);
        evaluate(native_of(v[0]), native_of(v[1]), native_of(v[2]), theirs);
        for (int e = 0; e < 24; e++)
            if (!is_same(bits_of(ours[e]), bits_of(theirs[e])) && failures++ < 20)
                printf("FAIL  expression %d of %x %x %x: %x, std::bfloat16_t has %x\n", e, v[0],
                       v[1], v[2], bits_of(ours[e]), bits_of(theirs[e]));
    }
    printf("ok    2 000 000 times 24 expressions are those of std::bfloat16_t\n");
}

#endif

int main()
{
    check_conversions();
    check_numbers();
    check_uses();
#ifdef NATIVE
    check_native();
#endif
    if (failures != 0)
        printf("FAIL  %u differences\n", failures);
    else
        printf("ok    conversions, rounding and uses of bfloat16_t\n");
    return failures != 0;
}
