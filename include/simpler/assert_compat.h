// SPDX-License-Identifier: Apache-2.0
/*
 * Assertions that throw: an exception in an orchestration ends its run, with the
 * exception's text. debug_assert is checked unless NDEBUG is defined; orchestrations are compiled
 * without it, kernels with it.
 */
#ifndef PTO_SIMPLER_ASSERT_COMPAT_H
#define PTO_SIMPLER_ASSERT_COMPAT_H

#include <stdexcept>
#include <string>

class AssertionError : public std::runtime_error
{
  public:
    AssertionError(const char *condition, const char *file, int line)
        : std::runtime_error(std::string("assertion failed: ") + condition + ", " + file + ":" +
                             std::to_string(line)),
          condition_(condition), file_(file), line_(line)
    {
    }

    const char *condition() const
    {
        return condition_;
    }
    const char *file() const
    {
        return file_;
    }
    int line() const
    {
        return line_;
    }

  private:
    const char *condition_;
    const char *file_;
    int line_;
};

[[noreturn]] __attribute__((cold, noinline)) inline void assert_impl(const char *condition,
                                                                     const char *file, int line)
{
    throw AssertionError(condition, file, line);
}

// An empty stub: this runtime records its backtraces elsewhere.
inline std::string get_stacktrace(int skip_frames = 1)
{
    (void)skip_frames;
    return std::string();
}

#define always_assert(cond) \
    (__builtin_expect(!!(cond), 1) ? (void)0 : assert_impl(#cond, __FILE__, __LINE__))
#ifdef NDEBUG
#define debug_assert(cond) ((void)0)
#else
#define debug_assert(cond) always_assert(cond)
#endif

#define PTO_SIMPLER_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define MAYBE_UNINITIALIZED_BEGIN             \
    PTO_SIMPLER_PRAGMA(clang diagnostic push) \
    PTO_SIMPLER_PRAGMA(clang diagnostic ignored "-Wuninitialized")
#define MAYBE_UNINITIALIZED_END PTO_SIMPLER_PRAGMA(clang diagnostic pop)
#else
#define MAYBE_UNINITIALIZED_BEGIN                                \
    PTO_SIMPLER_PRAGMA(GCC diagnostic push)                      \
    PTO_SIMPLER_PRAGMA(GCC diagnostic ignored "-Wuninitialized") \
    PTO_SIMPLER_PRAGMA(GCC diagnostic ignored "-Wmaybe-uninitialized")
#define MAYBE_UNINITIALIZED_END PTO_SIMPLER_PRAGMA(GCC diagnostic pop)
#endif

#endif
