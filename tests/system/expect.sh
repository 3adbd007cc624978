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

# As expect_all, for a phrase that must be printed before a time limit ends the command. On a busy machine it may not
# be; then the limit is raised. The limit replaces LIMIT in phrases and arguments, and is in the environment as LIMIT.
expect_late() { # code phrase... -- arguments
    for LIMIT in 0.5 5; do
        export LIMIT
        if (expect_all "${@//LIMIT/$LIMIT}") >"$work/early"; then return; fi
        echo "      $LIMIT s are too short: $(head -c 400 "$work/early")"
    done
    export LIMIT=60
    expect_all "${@//LIMIT/$LIMIT}"
}

# Waits for a condition; the machine may be slow.
until_true() { # what command...
    local what=$1 i
    shift
    for ((i = 0; i < 6000; i++)); do
        if "$@"; then return; fi
        sleep 0.05
    done
    fail "$what did not happen: $(cat "$work/out" 2>/dev/null)"
}
