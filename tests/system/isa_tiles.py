#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a kernel that moves and multiplies random tiles: isa_tiles.py SEED COUNT FILE.

Each case fills its tensors with random bits or values, runs one operation of the tile library, and
writes a hash of everything that the operation may have changed to its element of the output."""
import random
import sys

HEAD = r"""
#include <cstdint>
#include <cstring>
#include <pto/pto-inst.hpp>
using namespace pto;

static uint64_t state;
static uint64_t next_random()
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return state >> 33;
}
template <typename T> static void fill_bits(T *to, size_t count)
{
    for (size_t i = 0; i < count * sizeof(T); i++)
        ((unsigned char *)to)[i] = (unsigned char)next_random();
}
// Values of which sums round; one in `specials` is an infinity, a NaN, a zero or the largest.
template <typename T> static void fill_values(T *to, size_t count, unsigned specials)
{
    for (size_t i = 0; i < count; i++) {
        const float v = (float)((int)(next_random() % 65536) - 32768) / 4096.0f;
        if constexpr (std::is_integral_v<T>)
            to[i] = (T)next_random();
        else
            to[i] = (T)v;
        if constexpr (!std::is_integral_v<T>)
            if (specials != 0 && next_random() % specials == 0) {
                static const float special[] = { __builtin_inff(), -__builtin_inff(), -0.0f, 3e38f,
                                                 1e-40f, __builtin_nanf("") };
                to[i] = (T)special[next_random() % 6];
            }
    }
}
static uint64_t hash(const void *from, size_t bytes, uint64_t h = 14695981039346656037ull)
{
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ ((const unsigned char *)from)[i]) * 1099511628211ull;
    return h;
}
template <typename T> struct memory {
    T *at;
    size_t count;
    explicit memory(size_t n) : at(new T[n]), count(n) { fill_bits(at, n); }
    ~memory() { delete[] at; }
    uint64_t sum() const { return hash(at, count * sizeof(T)); }
};
using Shapes = Shape<-1, -1, -1, -1, -1>;
using Strides = Stride<-1, -1, -1, -1, -1>;

// A load into a tile of `valid` rows and columns.
template <typename T, typename TileData, Layout L>
static uint64_t load(Shapes shape, Strides stride, size_t count, int rows, int cols)
{
    using Global = GlobalTensor<T, Shapes, Strides, L>;
    memory<T> m(count);
    Global g(m.at, shape, stride);
    TileData t(rows, cols);

    TASSIGN(t, 0);
    fill_bits(t.data(), TileData::GetSizeInUnits());
    TLOAD(t, g);
    return hash(t.data(), TileData::GetSizeInBytes());
}
template <typename T, typename TileData, Layout L, AtomicType atomic>
static uint64_t store(Shapes shape, Strides stride, size_t count, int rows, int cols)
{
    using Global = GlobalTensor<T, Shapes, Strides, L>;
    memory<T> m(count);
    fill_values(m.at, count, 0);
    Global g(m.at, shape, stride);
    TileData t(rows, cols);

    TASSIGN(t, 0);
    fill_values(t.data(), TileData::GetSizeInUnits(), atomic == AtomicType::AtomicNone ? 50 : 0);
    TSTORE<TileData, Global, atomic>(g, t);
    return m.sum();
}
template <typename To, typename From>
static uint64_t extract(int from_rows, int from_cols, int rows, int cols, int row, int col)
{
    From s(from_rows, from_cols);
    To d(rows, cols);

    TASSIGN(s, 0);
    TASSIGN(d, 0);
    fill_bits(s.data(), From::GetSizeInUnits());
    fill_bits(d.data(), To::GetSizeInUnits());
    TEXTRACT(d, s, row, col);
    return hash(d.data(), To::GetSizeInBytes());
}
template <typename To, typename From>
static uint64_t move(int rows, int cols, int apart)
{
    From s(rows, cols);
    To d(rows, cols);

    TASSIGN(s, 0);
    TASSIGN(d, apart);
    fill_bits(d.data(), To::GetSizeInUnits());
    fill_bits(s.data(), From::GetSizeInUnits());
    TMOV(d, s);
    return hash(d.data(), To::GetSizeInBytes(), hash(s.data(), From::GetSizeInBytes()));
}
template <typename T, typename C, int M, int K, int N>
static uint64_t multiply(int rows, int depth, int cols, unsigned specials)
{
    using A = TileLeft<T, M, K, -1, -1>;
    using B = TileRight<T, K, N, -1, -1>;
    using Acc = TileAcc<C, M, N, -1, -1>;
    using Bias = Tile<TileType::Bias, C, 1, N, BLayout::RowMajor, 1, -1>;
    A a(rows, depth);
    B b(depth, cols);
    Acc c(rows, cols), d(rows, cols);
    Bias bias(cols);
    uint64_t h;

    TASSIGN(a, 0);
    TASSIGN(b, 0);
    TASSIGN(c, 0);
    TASSIGN(d, M * N * 4);
    TASSIGN(bias, 0);
    fill_values(a.data(), A::GetSizeInUnits(), specials);
    fill_values(b.data(), B::GetSizeInUnits(), specials);
    fill_values(c.data(), Acc::GetSizeInUnits(), 0);
    fill_values(d.data(), Acc::GetSizeInUnits(), 0);
    fill_values(bias.data(), N, 0);
    TMATMUL(c, a, b);
    h = hash(c.data(), Acc::GetSizeInBytes());
    TMATMUL_ACC(c, c, a, b);
    h = hash(c.data(), Acc::GetSizeInBytes(), h);
    TMATMUL_ACC(d, c, a, b);
    h = hash(d.data(), Acc::GetSizeInBytes(), h);
    TMATMUL_BIAS(c, a, b, bias);
    return hash(c.data(), Acc::GetSizeInBytes(), h);
}
"""

SIZE = {"int8_t": 1, "uint8_t": 1, "int16_t": 2, "uint16_t": 2, "int32_t": 4, "uint32_t": 4, "half": 2,
        "bfloat16_t": 2, "float": 4}


def plain(r, kind, where="Vec"):
    """A tile without boxes: its type, rows and columns."""
    size = SIZE[kind]
    is_row = r.random() < 0.7
    step = 32 // size
    rows, cols = r.choice([1, 2, 3, 7, 16, 33]), step * r.randint(1, 300 // step + 1)
    if not is_row:
        rows, cols = cols, rows
    pad = r.choice(["Null", "Zero", "Min", "Max"])
    text = (f"Tile<TileType::{where}, {kind}, {rows}, {cols}, BLayout::{'Row' if is_row else 'Col'}Major, -1, -1, "
            f"SLayout::NoneBox, 512, PadValue::{pad}>")
    return text, rows, cols, is_row


def boxed(r, kind, where="Mat", zn=None):
    """A tile of 512-byte boxes, of which the rows or the columns are 32 bytes."""
    zn = r.random() < 0.4 if zn is None else zn
    short = 32 // SIZE[kind]
    rows, cols = 16 * r.randint(1, 8), short * r.randint(1, 6)
    if zn:
        rows, cols = cols, rows
    outer, inner = ("Row", "Col") if zn else ("Col", "Row")
    text = f"Tile<TileType::{where}, {kind}, {rows}, {cols}, BLayout::{outer}Major, -1, -1, SLayout::{inner}Major, 512>"
    return text, rows, cols


def view(r, layout, rows, cols, kind):
    """A tensor of so many rows and columns in this layout: shape, strides, elements of its memory."""
    def split(n):
        """Three factors."""
        a = r.choice([i for i in range(1, n + 1) if n % i == 0])
        b = r.choice([i for i in range(1, n // a + 1) if (n // a) % i == 0])
        return [a, b, n // a // b]
    if layout == "ND":
        f = split(rows)
        shape = [1, *f, cols] if r.random() < 0.5 else [f[0], 1, f[1], f[2], cols]
    elif layout == "DN":
        f = split(cols)
        shape = [1, f[0], f[1], rows, f[2]] if r.random() < 0.5 else [f[0], 1, f[1], rows, f[2]]
    else:
        short = 32 // SIZE[kind]
        boxes = cols // short
        a = r.choice([i for i in range(1, boxes + 1) if boxes % i == 0])
        shape = [a, boxes // a, rows // 16, 16, short]
    order = [3, 4] if layout == "DN" else [4, 3]
    stride, step = [0] * 5, 1
    for i in [*order, 2, 1, 0]:
        stride[i] = step
        step *= shape[i]
        if r.random() < 0.3:
            step += r.randint(1, 40)
    return shape, stride, sum((n - 1) * s for n, s in zip(shape, stride)) + 1


def transfer(r):
    kind = r.choice(list(SIZE))
    if r.random() < 0.5:
        tile, rows, cols, is_row = plain(r, kind)
        layout = "ND" if is_row else "DN"
        valid = r.randint(1, rows), r.randint(1, cols)
    else:
        tile, rows, cols = boxed(r, kind)
        layout = r.choice(["ND", "DN", "NZ"])
        short = 32 // SIZE[kind]
        valid = r.randint(1, rows), r.randint(1, cols)
        if layout == "NZ":
            if rows < 16 or cols < short or rows % 16 != 0:
                layout = "ND"
            else:
                valid = 16 * r.randint(1, rows // 16), short * r.randint(1, cols // short)
    if r.random() < 0.3 and layout != "NZ":
        valid = rows, cols
    shape, stride, count = view(r, layout, *valid, kind)
    text = lambda values: ", ".join(map(str, values))
    arguments = f"Shapes({text(shape)}), Strides({text(stride)}), {count}, {valid[0]}, {valid[1]}"
    if r.random() < 0.5:
        return f"load<{kind}, {tile}, Layout::{layout}>({arguments})"
    atomic = r.choice(["AtomicNone", "AtomicNone", "AtomicAdd"])
    return f"store<{kind}, {tile}, Layout::{layout}, AtomicType::{atomic}>({arguments})"


def drain(r):
    """A store from the accumulator, of the same or of another type."""
    acc, kinds = r.choice([("float", ["float", "half", "bfloat16_t"]), ("int32_t", ["int32_t"])])
    kind = r.choice(kinds)
    rows, cols = 16 * r.randint(1, 8), 16 * r.randint(1, 8)
    layout = r.choice(["ND", "ND", "DN", "NZ"])
    valid = r.randint(1, rows), r.randint(1, cols)
    if layout == "NZ":
        short = 32 // SIZE[kind]
        cols = (cols + 31) // 32 * 32
        valid = 16 * r.randint(1, rows // 16), short * r.randint(1, cols // short)
    shape, stride, count = view(r, layout, *valid, kind)
    text = lambda values: ", ".join(map(str, values))
    return (f"store<{kind}, TileAcc<{acc}, {rows}, {cols}, -1, -1>, Layout::{layout}, AtomicType::"
            f"{r.choice(['AtomicNone', 'AtomicNone', 'AtomicAdd'])}>(Shapes({text(shape)}), Strides({text(stride)}), "
            f"{count}, {valid[0]}, {valid[1]})")


def extraction(r):
    kind = r.choice(["int8_t", "half", "bfloat16_t", "float"])
    to = r.choice(["Left", "Right"])
    source, rows, cols = boxed(r, kind)
    short = 32 // SIZE[kind]
    m, n = (16, short) if to == "Left" else (short, 16)
    to_rows, to_cols = m * max(1, rows // m // r.randint(1, 3)), n * max(1, cols // n // r.randint(1, 3))
    if to_rows > rows or to_cols > cols:
        return extraction(r)
    valid = r.randint(1, to_rows), r.randint(1, to_cols)
    row, col = r.randint(0, rows - valid[0]), r.randint(0, cols - valid[1])
    if r.random() < 0.7:
        row, col = row // 16 * 16, col // 16 * 16
    return (f"extract<Tile{to}<{kind}, {to_rows}, {to_cols}, -1, -1>, {source}>({rows}, {cols}, {valid[0]}, "
            f"{valid[1]}, {row}, {col})")


def movement(r):
    kind = r.choice(list(SIZE))
    source, rows, cols, _ = plain(r, kind)
    other = "Col" if "RowMajor" in source else "Row"
    to = source
    if r.random() < 0.3 and rows * SIZE[kind] % 32 == 0 and cols * SIZE[kind] % 32 == 0:
        to = source.replace("BLayout::RowMajor", "BLayout::ColMajor") if other == "Col" else \
            source.replace("BLayout::ColMajor", "BLayout::RowMajor")
    apart = r.choice([0, 32, 64, 32 * (rows * cols * SIZE[kind] // 32 + 1)])
    return f"move<{to}, {source}>({r.randint(1, rows)}, {r.randint(1, cols)}, {apart})"


def product(r):
    kind, acc = r.choice([("int8_t", "int32_t"), ("half", "float"), ("bfloat16_t", "float"), ("float", "float")])
    short = 32 // SIZE[kind]
    m, k, n = 16 * r.randint(1, 10), max(short, 16) * r.randint(1, 12), 16 * r.randint(1, 6)
    if kind == "int8_t":
        n = (n + 31) // 32 * 32
    if max(m, n) * k * SIZE[kind] > 65536 or m * n * 8 > 131072: # the chip's memories for operands and results
        return product(r)
    valid = (m, k, n) if r.random() < 0.3 else (r.randint(1, m), r.randint(1, k), r.randint(1, n))
    return f"multiply<{kind}, {acc}, {m}, {k}, {n}>({valid[0]}, {valid[1]}, {valid[2]}, {r.choice([0, 0, 2000, 50])})"


def main():
    seed, count, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    r = random.Random(seed)
    kinds = [transfer, transfer, transfer, drain, extraction, movement, product, product]
    with open(path, "w") as to:
        to.write(HEAD)
        calls = []
        for i in range(count):
            call = kinds[i % len(kinds)](r)
            to.write(f"// {call}\n__attribute__((noinline)) static uint64_t case_{i}()\n{{\n"
                     f"    state = {seed * 1000 + i};\n    return {call};\n}}\n")
            calls.append(f"    out[{i}] = case_{i}();\n")
        to.write('extern "C" void run_cases(uint64_t *out)\n{\n' + "".join(calls) + "}\n")


main()
