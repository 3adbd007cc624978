/* SPDX-License-Identifier: Apache-2.0 */
/* The tile library's header includes its types by a relative path; these come first. */
#ifndef PTO_TYPES_CPU_STUB_HPP
#define PTO_TYPES_CPU_STUB_HPP

#include <pto/common/type.hpp>
#include_next <pto/common/cpu_stub.hpp>

#endif
