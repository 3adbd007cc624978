/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bfloat16_t for compilers without std::bfloat16_t, with the results of GCC 14: a value is rounded
 * to nearest, ties to even, when it is stored, converted or passed on. Inside of an expression the
 * results of operations are floats (GCC: excess precision), so that a * b + c is rounded once.
 *
 * Such a result is a bfloat16_wide. It differs from GCC's result only where a program deduces its
 * type: `auto x = a * b` is not rounded.
 */
#ifndef PTO_TYPES_BFLOAT16_HPP
#define PTO_TYPES_BFLOAT16_HPP

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

class bfloat16_t;
class bfloat16_wide;

template <> struct std::is_floating_point<bfloat16_t> : std::true_type {
};
template <> struct std::is_arithmetic<bfloat16_t> : std::true_type {
};

namespace pto_types
{

template <typename T>
constexpr bool is_bfloat16 = std::is_same_v<T, bfloat16_t> || std::is_same_v<T, bfloat16_wide>;

template <typename T>
concept bfloat16 = is_bfloat16<T>;

/* The arithmetic types that the language has, and half. */
template <typename T>
concept number = (std::is_arithmetic_v<T> || std::is_same_v<T, _Float16>)&&!is_bfloat16<T>;

/* The types that every bfloat16_t converts to without loss. */
template <typename T>
concept wider =
    std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, long double>;

template <typename T>
concept narrower = number<T> && !wider<T>;

constexpr uint16_t round_float(float value)
{
    const uint32_t u = __builtin_bit_cast(uint32_t, value);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40); /* stays a NaN */
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/*
 * Rounds to float "to odd": if the value is no float, to its neighbour with an odd last bit.
 * Rounding that again gives the same as rounding once.
 */
constexpr float round_to_odd(double value)
{
    const float near = (float)value;
    uint32_t u = __builtin_bit_cast(uint32_t, near);

    if (value != value || (double)near == value)
        return near;
    if ((near < 0 ? -(double)near : (double)near) > (value < 0 ? -value : value))
        u--; /* towards zero */
    return __builtin_bit_cast(float, u | 1u);
}

/* Converts to double. A wide integer whose last bits do not fit is rounded to odd as well. */
template <typename T> constexpr double to_double(T value)
{
    if constexpr (sizeof(T) >= 8 && std::is_integral_v<T>) {
        const bool is_negative = value < 0;
        uint64_t u = is_negative ? 0 - (uint64_t)value : (uint64_t)value;

        if (u >> 53 != 0 && (u & 0x7ff) != 0)
            u = (u & ~(uint64_t)0x7ff) | 0x800;
        return is_negative ? -(double)u : (double)u;
    } else {
        return (double)value;
    }
}

template <typename T> constexpr uint16_t round_number(T value)
{
    if constexpr (sizeof(T) > 4 || (std::is_integral_v<T> && sizeof(T) > 2))
        return round_float(round_to_odd(to_double(value)));
    else
        return round_float((float)value);
}

} // namespace pto_types

class bfloat16_t
{
    uint16_t bits;

  public:
    bfloat16_t() = default;
    template <pto_types::number T>
    constexpr bfloat16_t(T value) : bits(pto_types::round_number(value))
    {
    }
    constexpr bfloat16_t(const bfloat16_wide &value);

    static constexpr bfloat16_t of(uint16_t bits)
    {
        bfloat16_t value{};
        value.bits = bits;
        return value;
    }
    constexpr float wide() const
    {
        return __builtin_bit_cast(float, (uint32_t)bits << 16);
    }

    template <pto_types::wider T> constexpr operator T() const
    {
        return (T)wide();
    }
    template <pto_types::narrower T> constexpr explicit operator T() const
    {
        return (T)wide();
    }

    constexpr bfloat16_t operator+() const
    {
        return *this;
    }
    constexpr bfloat16_t operator-() const
    {
        return of(bits ^ 0x8000);
    }
    template <typename T> constexpr bfloat16_t &operator+=(const T &b);
    template <typename T> constexpr bfloat16_t &operator-=(const T &b);
    template <typename T> constexpr bfloat16_t &operator*=(const T &b);
    template <typename T> constexpr bfloat16_t &operator/=(const T &b);
    constexpr bfloat16_t &operator++()
    {
        return *this = bfloat16_t(wide() + 1);
    }
    constexpr bfloat16_t &operator--()
    {
        return *this = bfloat16_t(wide() - 1);
    }
    constexpr bfloat16_t operator++(int)
    {
        const bfloat16_t old = *this;
        ++*this;
        return old;
    }
    constexpr bfloat16_t operator--(int)
    {
        const bfloat16_t old = *this;
        --*this;
        return old;
    }
};

/* The result of an operation inside of an expression. */
class bfloat16_wide
{
    float value;

  public:
    explicit constexpr bfloat16_wide(float v) : value(v)
    {
    }
    constexpr float wide() const
    {
        return value;
    }
    template <pto_types::wider T> constexpr operator T() const
    {
        return (T)value;
    }
    template <pto_types::narrower T> constexpr explicit operator T() const
    {
        return (T)value;
    }
    constexpr bfloat16_wide operator+() const
    {
        return *this;
    }
    constexpr bfloat16_wide operator-() const
    {
        return bfloat16_wide(-value);
    }
};

constexpr bfloat16_t::bfloat16_t(const bfloat16_wide &value)
    : bits(pto_types::round_float(value.wide()))
{
}

static_assert(sizeof(bfloat16_t) == 2 && std::is_trivially_copyable_v<bfloat16_t>);

namespace pto_types
{

/* An operand as the type in which an operation with a bfloat16 is evaluated. */
template <typename T> constexpr auto operand(const T &value)
{
    if constexpr (bfloat16<T>)
        return value.wide();
    else if constexpr (std::is_integral_v<T>)
        return bfloat16_t(value).wide();
    else
        return value;
}

/* Whether an operation of these types gives a bfloat16: integers have the lower rank. */
template <typename A, typename B>
constexpr bool is_result = (bfloat16<A> || std::is_integral_v<A>)&&(bfloat16<B> ||
                                                                    std::is_integral_v<B>);

template <typename A, typename B>
concept operands = (bfloat16<A> && (bfloat16<B> || number<B>)) || (number<A> && bfloat16<B>);

} // namespace pto_types

#define PTO_TYPES_OPERATOR(op)                                                         \
    template <typename A, typename B>                                                  \
    requires pto_types::operands<A, B>                                                 \
    constexpr auto operator op(const A &a, const B &b)                                 \
    {                                                                                  \
        if constexpr (pto_types::is_result<A, B>)                                      \
            return bfloat16_wide(pto_types::operand(a) op pto_types::operand(b));      \
        else                                                                           \
            return pto_types::operand(a) op pto_types::operand(b);                     \
    }                                                                                  \
    template <typename T> constexpr bfloat16_t &bfloat16_t::operator op##=(const T &b) \
    {                                                                                  \
        return *this = bfloat16_t(*this op b);                                         \
    }
PTO_TYPES_OPERATOR(+)
PTO_TYPES_OPERATOR(-)
PTO_TYPES_OPERATOR(*)
PTO_TYPES_OPERATOR(/)
#undef PTO_TYPES_OPERATOR

#define PTO_TYPES_COMPARISON(op)                               \
    template <typename A, typename B>                          \
    requires pto_types::operands<A, B>                         \
    constexpr bool operator op(const A &a, const B &b)         \
    {                                                          \
        return pto_types::operand(a) op pto_types::operand(b); \
    }
PTO_TYPES_COMPARISON(==)
PTO_TYPES_COMPARISON(!=)
PTO_TYPES_COMPARISON(<)
PTO_TYPES_COMPARISON(>)
PTO_TYPES_COMPARISON(<=)
PTO_TYPES_COMPARISON(>=)
#undef PTO_TYPES_COMPARISON

template <> class std::numeric_limits<bfloat16_t> : public std::numeric_limits<float>
{
  public:
    static constexpr int digits = 8, digits10 = 2, max_digits10 = 4;
    static constexpr bfloat16_t min() noexcept
    {
        return bfloat16_t::of(0x0080);
    }
    static constexpr bfloat16_t max() noexcept
    {
        return bfloat16_t::of(0x7f7f);
    }
    static constexpr bfloat16_t lowest() noexcept
    {
        return bfloat16_t::of(0xff7f);
    }
    static constexpr bfloat16_t epsilon() noexcept
    {
        return bfloat16_t::of(0x3c00);
    }
    static constexpr bfloat16_t round_error() noexcept
    {
        return bfloat16_t::of(0x3f00);
    }
    static constexpr bfloat16_t infinity() noexcept
    {
        return bfloat16_t::of(0x7f80);
    }
    static constexpr bfloat16_t quiet_NaN() noexcept
    {
        return bfloat16_t::of(0x7fc0);
    }
    static constexpr bfloat16_t signaling_NaN() noexcept
    {
        return bfloat16_t::of(0x7fa0);
    }
    static constexpr bfloat16_t denorm_min() noexcept
    {
        return bfloat16_t::of(0x0001);
    }
};

/* Functions of <cmath>: their arguments are rounded, then their result. */
namespace std
{

#define PTO_TYPES_UNARY(name)                                    \
    template <pto_types::bfloat16 T> inline bfloat16_t name(T x) \
    {                                                            \
        return bfloat16_t(std::name(bfloat16_t(x).wide()));      \
    }
PTO_TYPES_UNARY(abs)
PTO_TYPES_UNARY(fabs)
PTO_TYPES_UNARY(exp)
PTO_TYPES_UNARY(exp2)
PTO_TYPES_UNARY(expm1)
PTO_TYPES_UNARY(log)
PTO_TYPES_UNARY(log2)
PTO_TYPES_UNARY(log10)
PTO_TYPES_UNARY(log1p)
PTO_TYPES_UNARY(sqrt)
PTO_TYPES_UNARY(cbrt)
PTO_TYPES_UNARY(sin)
PTO_TYPES_UNARY(cos)
PTO_TYPES_UNARY(tan)
PTO_TYPES_UNARY(asin)
PTO_TYPES_UNARY(acos)
PTO_TYPES_UNARY(atan)
PTO_TYPES_UNARY(sinh)
PTO_TYPES_UNARY(cosh)
PTO_TYPES_UNARY(tanh)
PTO_TYPES_UNARY(erf)
PTO_TYPES_UNARY(erfc)
PTO_TYPES_UNARY(tgamma)
PTO_TYPES_UNARY(lgamma)
PTO_TYPES_UNARY(ceil)
PTO_TYPES_UNARY(floor)
PTO_TYPES_UNARY(trunc)
PTO_TYPES_UNARY(round)
PTO_TYPES_UNARY(nearbyint)
PTO_TYPES_UNARY(rint)
PTO_TYPES_UNARY(logb)
#undef PTO_TYPES_UNARY

#define PTO_TYPES_BINARY(name)                                                               \
    template <pto_types::bfloat16 T, pto_types::bfloat16 U> inline bfloat16_t name(T x, U y) \
    {                                                                                        \
        return bfloat16_t(std::name(bfloat16_t(x).wide(), bfloat16_t(y).wide()));            \
    }
PTO_TYPES_BINARY(pow)
PTO_TYPES_BINARY(fmod)
PTO_TYPES_BINARY(remainder)
PTO_TYPES_BINARY(fmin)
PTO_TYPES_BINARY(fmax)
PTO_TYPES_BINARY(fdim)
PTO_TYPES_BINARY(atan2)
PTO_TYPES_BINARY(hypot)
PTO_TYPES_BINARY(copysign)
#undef PTO_TYPES_BINARY

template <pto_types::bfloat16 T> constexpr bool isnan(T x)
{
    return x.wide() != x.wide();
}
template <pto_types::bfloat16 T> inline bool isinf(T x)
{
    return std::isinf(bfloat16_t(x).wide());
}
template <pto_types::bfloat16 T> inline bool isfinite(T x)
{
    return std::isfinite(bfloat16_t(x).wide());
}
template <pto_types::bfloat16 T> inline bool signbit(T x)
{
    return std::signbit(x.wide());
}
template <pto_types::bfloat16 T> inline long lround(T x)
{
    return std::lround(bfloat16_t(x).wide());
}
template <pto_types::bfloat16 T> inline long lrint(T x)
{
    return std::lrint(bfloat16_t(x).wide());
}

/* One of the arguments is the result of an operation. */
inline bfloat16_t max(const bfloat16_t &a, const bfloat16_wide &b)
{
    return std::max(a, bfloat16_t(b));
}
inline bfloat16_t max(const bfloat16_wide &a, const bfloat16_t &b)
{
    return std::max(bfloat16_t(a), b);
}
inline bfloat16_t min(const bfloat16_t &a, const bfloat16_wide &b)
{
    return std::min(a, bfloat16_t(b));
}
inline bfloat16_t min(const bfloat16_wide &a, const bfloat16_t &b)
{
    return std::min(bfloat16_t(a), b);
}

} // namespace std

#endif
