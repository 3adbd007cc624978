#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The timeline has one named slice for each execution, including blocks and lanes, on the occupied core,
# and one flow for each wired edge; it reports lost records. Also for a failed run, and for one that
# ended its process. Slices have submit line and arguments if requested.
set -eu
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make -s --no-print-directory
gcc -std=gnu11 -Wall -Wextra -Werror -Iinclude tests/system/timeline_run.c -o "$work/timeline" \
    -Lbuild/lib -lpto -Wl,-rpath,"$PWD/build/lib"
for times in order times; do
    for workers in 1 2; do
        for records in 0 256; do
            for fail in '' fail; do
                "$work/timeline" "$work/t.json" $times $workers $records $fail >"$work/report"
                python3 tests/system/timeline.py "$work/t.json" "$work/report" $times $records
                python3 tests/system/track_event.py "$work/t.json.pftrace" "$work/t.json"
            done
        done
    done
done
"$work/timeline" "$work/t.json" arguments 2 0 >"$work/report"
python3 tests/system/timeline.py "$work/t.json" "$work/report" arguments 0
python3 tests/system/track_event.py "$work/t.json.pftrace" "$work/t.json"
# the figures of docs/user/recordings.md
python3 - "$work/t.json" <<'P'
import json, os, sys
slices = sum(e["ph"] == "X" for e in json.load(open(sys.argv[1]))["traceEvents"])
for ending, most in ("", 530), (".pftrace", 75), (".ptrec", 41):
    size = os.path.getsize(sys.argv[1] + ending) / slices
    print(f"t.json{ending}: {size:.1f} bytes a slice")
    assert size <= most, f"more than {most}"
P

# A kernel, and an orchestration, that call abort: the timeline has what ran before, in this process and
# isolated.
pto=$(realpath build/bin/pto)
export XDG_CACHE_HOME=$work/cache
cd "$work"
"$pto" new ends >/dev/null
cat >ends/orch.c <<'C'
#include <stdlib.h>

#include <pto/orch.h>

void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    for (int i = 0; i < 4; i++)
        pto_aiv(o, 0, PTO_IN(&entry->tensor[0]), PTO_INOUT(&entry->tensor[1]), PTO_INT(i));
    if (WHO == 1)
        (void)PTO_GET(o, &entry->tensor[1], 0);
    if (WHO == 1)
        abort();
}
C
cat >ends/kernels/axpy.c <<'C'
#include <stdlib.h>

#include <pto/kernel.h>

void kernel_entry(int64_t *args)
{
    if (WHO == 0 && args[2] == 3)
        abort();
}
C
for way in '' --isolated; do
    for who in 0 1; do
        rm -f t-*.json
        # shellcheck disable=SC2086 # no word, or one
        if "$pto" run ends --platform a5sim --mode stream --trace t --flag=-DWHO=$who $way >log 2>&1; then
            echo "FAIL  abort goes on: $(cat log)"
            exit 1
        fi
        python3 - t-*.json <<'P'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
slices = [e for e in events if e.get("ph") == "X" and e["name"] == "axpy"]
assert len(slices) == 4, slices
P
        [ -n "$way" ] || grep -q '^pto: the timeline of the run is in t-small-a5sim-stream.json$' log || {
            echo "FAIL  $(cat log)"
            exit 1
        }
    done
done
