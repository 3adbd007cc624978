#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Input from outside: names with control characters, files of absurd sizes, full disks, scenes for
# chips that do not exist.
set -eu
cd "$(dirname "$0")/../.."
pto=$PWD/build/bin/pto
source tests/system/expect.sh
cd "$work"
export PTO_STORE=$work/store
export TERM=xterm

# As expect; and the output has no control characters except line ends and tabs.
expect_clean() { # code phrase arguments...
    expect "$@"
    ! LC_ALL=C grep -qa "[$(printf '\001')-$(printf '\010')$(printf '\013')-$(printf '\037')$(printf '\177')]" "$work/out" ||
        fail "pto ${*:3}: control characters: $(cat -v "$work/out")"
    ! LC_ALL=C grep -qa "$(printf '\302\233')" "$work/out" ||
        fail "pto ${*:3}: a control sequence in UTF-8: $(cat -v "$work/out")"
}

# ---- names ----

esc=$(printf 'k\033[2J\033]0;owned\007\302\233 31m\nresult ok')
cat >orch.c <<'C'
#include <pto/orch.h>
void orchestrate(struct pto_orch *o, const struct pto_entry *entry)
{
    (void)entry;
    pto_aiv(o, 0);
}
C
printf '#include <pto/orch.h>\nvoid kernel_entry(int64_t *args) { *(volatile int *)8 = (int)args[0]; }\n' >"$esc.c"
printf 'nonsense\033[2J;\n' >"bad$esc.c"
expect_clean 0 "compiled" build --orchestration orch.c --kernel "0:aiv:$esc.c" --name "$esc" -o a.ptoc
expect_clean 0 'k?[2J?]0;owned?' inspect a.ptoc --files
expect_clean 1 'k?[2J?]0;owned?' run a.ptoc --mode stream
expect_clean 1 'k?[2J?]0;owned?' run a.ptoc --mode stream --isolated
grep -qa '^result ok' out && fail "a name makes a line of its own: $(cat -v out)"
expect_clean 1 'nonsense' build --orchestration orch.c --kernel "0:aiv:bad$esc.c" -o b.ptoc
mkdir "scene$esc"
printf 'name: x\nsummary: "\\e[2Jgone"\n' >"scene$esc/scene.yaml"
expect_clean 1 "a text must not contain control characters" test .
rm -r "scene$esc"
expect_clean 1 "cannot be read" inspect "no$esc"
expect_clean 2 "unknown option" run "--$esc"
expect_clean 2 "unknown scene" run "$esc"
expect_clean 2 "unknown command" "$esc"
echo "ok    no name reaches the terminal as it is"

# ---- sizes ----

truncate -s 3G sparse.ptoc
{ head -c 4096 a.ptoc; } >head.ptoc && truncate -s 3G head.ptoc
{ head -c 4096 a.ptoc; } >large.ptoc && truncate -s 900M large.ptoc
for file in sparse head large; do
    for command in inspect run; do
        python3 - "$pto" $command $file.ptoc <<'PY' || fail "$command of $file.ptoc"
import resource, subprocess, sys
r = subprocess.run(sys.argv[1:], capture_output=True, text=True)
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
assert r.returncode == 1 and "ptoc: it " in r.stderr, (r.returncode, r.stderr)
assert peak < 100 << 10, f"{peak} KiB"
PY
    done
done
echo "ok    a file that is too large is refused before it is read"

# ---- disks ----

if unshare -rm true 2>/dev/null; then
    mkdir small
    unshare -rm bash -c 'mount -t tmpfs -o size=8k none small && ! "$1" new small/scene >out 2>&1 &&
        [ -z "$(ls -A small)" ]' - "$pto" || fail "pto new on a full disk leaves $(ls -R small): $(cat out)"
    grep -q "No space" out || fail "pto new on a full disk: $(cat out)"
    echo "ok    a scene that cannot be made leaves nothing behind"
else
    echo "skip  mounts are not permitted here: no full disk"
fi

# ---- scenes ----

expect_clean 0 "made layer-norm.2" new layer-norm.2
expect_clean 2 "is not a valid name" new ./-x
cd layer-norm.2
expect_clean 0 "layer-norm.2: y = alpha" run --platform a2a3sim --mode stream
expect_clean 0 "compiled" build . -o ../n.ptoc
expect_clean 0 "       1  inout   y float32 [n]" inspect ../n.ptoc
grep -q "       2  scalar  alpha float32" "$work/out" || fail "inspect tells no names: $(cat "$work/out")"
"$pto" inspect ../n.ptoc --json | python3 -c '
import json, sys
assert json.load(sys.stdin)["arguments"][0] == {
    "direction": "in", "name": "x", "type": "float32", "shape": "[n]"}' || fail "inspect --json"
cp scene.yaml ../good.yaml
sed 's/, params: { n: 1024/, clusters: 1000, params: { n: 1024/' ../good.yaml >scene.yaml
expect_clean 1 "scene.yaml:19:30: 1000 clusters, but a2a3sim has at most 24" run
sed 's/, params: { n: 1024/, clusters: 30, params: { n: 1024/' ../good.yaml >scene.yaml
expect_clean 1 "30 clusters, but a2a3sim has at most 24" run --platform a5sim
sed 's/, params: { n: 1024/, clusters: 30, platforms: [a5sim], params: { n: 1024/' ../good.yaml >scene.yaml
expect_clean 0 "result   ok" run --platform a5sim --mode stream
cp ../good.yaml scene.yaml
expect_clean 2 "--clusters 25, but a2a3sim has at most 24" run --platform a2a3sim --clusters 25
expect_clean 2 "--clusters 37, but the largest chip has at most 36" run --clusters 37
expect_clean 1 "30 clusters, but a2a3sim has at most 24" run --clusters 30 --mode stream
printf 'name: x\ncases:\n\t- { name: a }\n' >scene.yaml
expect_clean 1 "scene.yaml:3:1: the line begins with a tab; indent it with spaces" run
cd ..
expect_clean 0 "vector" run --platform a2a3sim --mode stream # no scene is here
echo "ok    scenes of this folder, their names, clusters and tabs"
