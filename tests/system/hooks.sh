#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Kernels find the hooks of a simulated core in the whole process, although the library was loaded
# locally; each lane gets its own number, and the lanes of a cluster share state.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make -s --no-print-directory lib
gcc -std=gnu11 -Wall -Wextra -Werror -Iinclude tests/system/hooks_run.c -o "$work/hooks" -ldl
"$work/hooks" "$PWD/build/lib/libpto.so"
