#!/usr/bin/env bash
# Runs every part of the tests, goes on after one that fails, and ends with a table: the seconds that each took, and those
# of processors that it took.
#   scripts/test/parts.sh                      all parts
#   scripts/test/parts.sh test-rust test-lab   these
# Each part is a verb of the Makefile and can be run alone. The exit status is 0 when no
# part failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit

all=(ruby lib check-format check-lints check-scripts check-layers check-documents test-scripts test-rust test-module
  test-applications inside test-inside test-not-lazy test-wordmap test-heap-capi test-lab)

# why_not PART: says why a part cannot be run here, or nothing. Rust's own tools for
# format and lints are the developer's choice to install; shellcheck and Python are installed
# below where that may be done.
why_not() {
  case $1 in
    check-format) cargo fmt --version >/dev/null 2>&1 || echo 'cargo fmt is not installed' ;;
    check-lints) cargo clippy --version >/dev/null 2>&1 || echo 'cargo clippy is not installed' ;;
    test-kernels-quick) why_no_emulator ;;
    check-layers) why_no_python ;;
    check-documents) why_no_python || why_no_checkout ;;
    check-scripts)
      command -v shellcheck >/dev/null || { echo 'shellcheck is not installed (Debian: apt-get install shellcheck)'; return; }
      why_no_checkout
      ;;
  esac
}

why_no_python() {
  ! python3 -c 'import tomllib' 2>/dev/null || return 1
  echo 'Python 3.11 or newer is not installed (Debian: apt-get install python3)'
}

# The files are those that git names. It may be missing, or refuse a folder of another owner.
why_no_checkout() { git ls-files >/dev/null 2>&1 || echo 'no git checkout'; }

# The emulated machine is one for x86-64, with a kernel of Debian's.
why_no_emulator() {
  local program
  [[ $(uname -m) == x86_64 ]] || { echo "this is $(uname -m); the kernels are those for x86_64"; return; }
  type -P apt-get dpkg >/dev/null || { echo 'this is not Debian, whose packages have the kernels'; return; }
  ((EUID != 0)) || return 0
  for program in qemu-system-x86_64 busybox cpio; do
    command -v "$program" >/dev/null ||
      { echo "$program is not installed (apt-get install qemu-system-x86 busybox-static cpio)"; return; }
  done
}

(($#)) && parts=("$@") || parts=("${all[@]}")

work=$(mktemp -d)
aside_process=
trap '[[ ! $aside_process ]] || kill "$aside_process" 2>/dev/null; rm -rf "$work"' EXIT

# make_part PART: writes down what the shell says of the processors' time of what it has waited for: this part alone.
make_part() (
  make --no-print-directory "$1"
  status=$?
  times >"$work/$1.times"
  exit "$status"
)

# cpu_seconds PART: as 1m2.345s, of users and of the system, in the line about what was waited for.
cpu_seconds() {
  awk 'NR == 2 {gsub(",", "."); for (i = 1; i <= 2; i++) {split($i, time, /[ms]/); sum += 60 * time[1] + time[2]}}
    END {print int(sum + 0.5)}' "$work/$1.times" 2>/dev/null || echo 0
}

# The lab's tests use one core at a time and need no more than the library. So they run beside
# the other parts, and show what they printed when their turn comes, the last.
aside=test-lab
begin_aside() {
  [[ ! $aside_process && " ${parts[*]} " == *" $aside "* && " ${parts[*]} " == *' lib '* ]] || return 0
  make_part "$aside" >"$work/log" 2>&1 &
  aside_process=$!
}

run_part() {
  if [[ $1 != "$aside" || ! $aside_process ]]; then
    make_part "$1"
    return
  fi
  local status=0
  wait "$aside_process" || status=$?
  cat "$work/log"
  return "$status"
}

# What a later compilation could reuse costs a first one a third more.
[[ -e ${CARGO_TARGET_DIR:-target} ]] || export CARGO_INCREMENTAL=0

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
  rows+=("$(printf '%-18s %5d s %5d s CPU  %s' "$part" $((SECONDS - start)) "$(cpu_seconds "$part")" "$outcome")")
done
printf '\n=== parts\n'
printf '%s\n' "${rows[@]}"
exit $failed
