#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The committed files build and run in an empty clone, so nothing depends on other files of this tree.
# Compiled without optimisation, which takes half as long, but gives fewer warnings.
set -eu
cd "$(dirname "$0")/../.."
git rev-parse --git-dir >/dev/null 2>&1 || { echo "not a git checkout"; exit 77; }
if [ -z "$(git status --porcelain --ignored | grep -v '^!! build/$')" ]; then
    echo "this tree is a clone without changes itself, and has built"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q . "$work/clone"
cd "$work/clone"
env -u MAKEFLAGS make OPT=-O0 CFLAGS=-g0 WERROR= run >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
[ "$(grep -c 'result   ok' "$work/log")" = 4 ] || { cat "$work/log"; exit 1; }
