#!/usr/bin/env bash
# Runs every part of the tests, goes on after one that fails, and ends with a table.
#   scripts/test/parts.sh                      all parts
#   scripts/test/parts.sh test-rust test-lab   these
# Each part is a verb of the Makefile and can be run alone. The exit status is 0 when no
# part failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

all=(ruby check-format check-lints check-scripts check-layers check-documents test-scripts test-rust lib test-behaviour
  test-applications test-ruby-quick
  inside test-inside test-not-lazy test-kernels-quick test-lab test-wordmap test-heap-capi)

# why_not PART: says why a part cannot be run here, or nothing. Rust's own tools for
# format and lints are the developer's choice to install; shellcheck and Python are installed
# below where that may be done.
why_not() {
  case $1 in
    check-format) cargo fmt --version >/dev/null 2>&1 || echo 'cargo fmt is not installed' ;;
    check-lints) cargo clippy --version >/dev/null 2>&1 || echo 'cargo clippy is not installed' ;;
    test-kernels-quick) why_no_emulator ;;
    check-layers | check-documents) python3 -c 'import tomllib' 2>/dev/null || echo 'Python 3.11 or newer is not installed (Debian: apt-get install python3)' ;;
    check-scripts) command -v shellcheck >/dev/null || echo 'shellcheck is not installed (Debian: apt-get install shellcheck)' ;;
  esac
}

# The emulated machine is one for x86-64, with a kernel of Debian's.
why_no_emulator() {
  local program
  [[ $(uname -m) == x86_64 ]] || { echo "this is $(uname -m); the kernels are those for x86_64"; return; }
  command -v apt-get dpkg >/dev/null || { echo 'this is not Debian, whose packages have the kernels'; return; }
  ((EUID != 0)) || return 0
  for program in qemu-system-x86_64 busybox cpio; do
    command -v "$program" >/dev/null ||
      { echo "$program is not installed (apt-get install qemu-system-x86 busybox-static cpio)"; return; }
  done
}

(($#)) && parts=("$@") || parts=("${all[@]}")

# The lab's tests use one core at a time and need no more than the library. So they run beside
# the other parts, and show what they printed when their turn comes.
aside=test-lab
aside_log=
begin_aside() {
  [[ ! $aside_log && " ${parts[*]} " == *" $aside "* && " ${parts[*]} " == *' lib '* ]] || return 0
  aside_log=$(mktemp)
  { make --no-print-directory "$aside" >"$aside_log" 2>&1; } &
  aside_process=$!
  trap 'kill "$aside_process" 2>/dev/null; rm -f "$aside_log"' EXIT
}

run_part() {
  if [[ $1 != "$aside" || ! $aside_log ]]; then
    make --no-print-directory "$1"
    return
  fi
  local status=0
  wait "$aside_process" || status=$?
  cat "$aside_log"
  return "$status"
}

[[ ! " ${parts[*]} " =~ ' check-'(layers|scripts)' ' ]] || scripts/test/packages.sh
rows=()
failed=0
for part in "${parts[@]}"; do
  start=$SECONDS
  reason=$(why_not "$part")
  if [[ $reason ]]; then
    outcome="not run: $reason"
  else
    printf '\n=== make %s\n' "$part"
    if run_part "$part"; then
      outcome=passed
    else
      outcome=FAILED
      failed=1
    fi
  fi
  [[ $part != lib ]] || begin_aside
  rows+=("$(printf '%-18s %5d s  %s' "$part" $((SECONDS - start)) "$outcome")")
done
printf '\n=== parts\n'
printf '%s\n' "${rows[@]}"
exit $failed
