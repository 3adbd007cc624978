#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The program in README.md compiles without warnings and prints what README.md says.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make -s --no-print-directory lib
tools/readme-example c >"$work/hello.c"
tools/readme-example text >"$work/expected"
gcc -std=c11 -Wall -Wextra -Werror -Iinclude "$work/hello.c" -o "$work/hello" \
    -Lbuild/lib -lpto -Wl,-rpath,"$PWD/build/lib"
"$work/hello" >"$work/printed"
diff -u "$work/expected" "$work/printed"
