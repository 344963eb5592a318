#!/usr/bin/env bash
# What parts.sh promises: every part runs, one that fails does not hide, the lab's tests keep nobody waiting, and a clone
# without git is told of. Parts are stand-ins in a folder of their own.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL GIT_DIR GIT_WORK_TREE
checks=0
mkdir -p "$work/scripts/test" "$work/bin"
cp "$here/parts.sh" "$work/scripts/test/"
printf '#!/bin/sh\n' | tee "$work/scripts/test/packages.sh" "$work/bin/shellcheck" >"$work/bin/cargo"
chmod +x "$work/scripts/test/packages.sh" "$work"/bin/*
# The lab's tests take a second of a processor, and end when all other parts have run. They wait for TENTHS of a second.
cat >"$work/test-lab-runs" <<'RUNS'
#!/bin/bash
awk 'BEGIN {do {getline line < "/proc/self/stat"; close("/proc/self/stat"); split(line, of, " ")} while (of[14] + of[15] < 100)}'
for ((i = 0; i < ${TENTHS:-600}; i++)); do
  if grep -qx test-heap-capi ran; then exit; fi
  sleep 0.1
done
echo 'no other part ran beside it'
exit 1
RUNS
chmod +x "$work/test-lab-runs"
cat >"$work/Makefile" <<'MAKE'
.DEFAULT:
	@echo $@ >>ran; [ "$@" != "$(FAILS)" ]
test-lab:
	@echo $@ >>ran; ./test-lab-runs
MAKE

# run [FAILS=PART] PART...: what the script says, in `answer`, and its status.
run() {
  rm -f "$work/ran"
  status=0
  answer=$(env GIT_CEILING_DIRECTORIES="$(dirname "$work")" PATH="$work/bin:$PATH" "$@" 2>&1) || status=$?
}
parts() { run "$work/scripts/test/parts.sh" "$@"; }

# says CLAIM STATUS WORDS: a pattern of the table, whose blanks are any number of them.
says() {
  local pattern=${3// / +}
  [[ $status == "$2" && ${answer#*=== parts} =~ $pattern ]] || {
    printf 'parts-test.sh: %s: not so. The script said (status %s):\n%s\n' "$1" "$status" "$answer" >&2
    exit 1
  }
  checks=$((checks + 1))
}

parts
says 'no other part waits for the lab, whose time is its own' 0 'test-heap-capi [0-9]+ s 0 s CPU passed'$'\n''test-lab [0-9]+ s [1-9] s CPU passed$'
[[ ! $(sort "$work/ran" | uniq -d) ]] || says 'each runs once' 0 'never'
says 'without git there is nothing to look at' 0 'check-scripts .* not run: no git checkout.*check-documents .* not run: '
run env TENTHS=5 "$work/scripts/test/parts.sh" test-rust test-lab
says 'without the library the lab has its turn as others have' 1 'test-rust .* passed.*test-lab .* FAILED$'
run env FAILS=test-rust "$work/scripts/test/parts.sh" test-rust lib test-heap-capi test-lab
says 'what comes after one that fails runs, too' 1 'test-rust .* FAILED.*lib .* passed.*test-heap-capi .* passed.*test-lab .* passed$'
if command -v git >/dev/null; then
  git init -q "$work"
  parts check-scripts
  says 'with git they are looked at' 0 'check-scripts .* passed$'
fi
echo "$checks checks passed"
