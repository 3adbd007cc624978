# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# For scripts to source that run the command: a folder that goes with the script, and what they expect. `$pto` is the
# command; what it prints is in `$work/out`.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAIL  $*"
    exit 1
}

# Runs pto, expects an exit code and phrases in what it prints.
expect_all() { # code phrase... -- arguments
    local code=$1 got=0 phrases=()
    shift
    while [ "$1" != -- ]; do
        phrases+=("$1")
        shift
    done
    shift
    "$pto" "$@" >"$work/out" 2>&1 </dev/null || got=$?
    [ "$got" = "$code" ] || fail "pto $*: exit $got instead of $code: $(cat -v "$work/out")"
    for phrase in "${phrases[@]}"; do
        grep -qaF -- "$phrase" "$work/out" || fail "pto $*: no '$phrase' in: $(cat -v "$work/out")"
    done
}

expect() { # code phrase arguments...
    expect_all "$1" "$2" -- "${@:3}"
}
