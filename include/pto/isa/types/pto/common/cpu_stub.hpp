/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Includes the types of this folder before the tile library's header, which would include its own
 * types by a relative path.
 */
#ifndef PTO_TYPES_CPU_STUB_HPP
#define PTO_TYPES_CPU_STUB_HPP

#include <pto/common/type.hpp>
#include_next <pto/common/cpu_stub.hpp>

#endif
