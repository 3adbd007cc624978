#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command on CPU 0 only, or on the first CPU that this process may use:
#
#     tests/system/one_cpu.sh build/bin/pto run
#
# Exit code: the command's; 2 without one.
set -u

if [ $# = 0 ]; then
    echo "usage: one_cpu.sh COMMAND [ARGUMENT...]" >&2
    exit 2
fi
cpu=0
if ! taskset -c 0 true 2>/dev/null; then
    allowed=$(taskset -cp $$) || exit 2
    cpu=$(sed 's/.*: //; s/[-,].*//' <<<"$allowed")
fi
exec taskset -c "$cpu" "$@"
