#!/usr/bin/env bash
# Runs mruby's own tests on its own collector and on Ashlar's heap, there also with collections at (nearly) every
# allocation, verified, in slices, by several threads, and with GCC's sanitizers; then our programs, which print the same
# on both.
#   scripts/mruby/test.sh
#   SANITIZE=no      leaves the build with sanitizers out
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/paths.sh
. "$here/../ruby/paths.sh"
# shellcheck source=scripts/ruby/messages.sh
. "$here/../ruby/messages.sh"
unset ASHLAR_OPTIONS
stock=$("$here/build.sh" stock)
ashlar=$("$here/build.sh" ashlar)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# row NAME RESULT
row() { printf '  %-66s %s\n' "$1" "$2"; }

failed() {
  row "$1" FAILED
  grep -a -v '^Skip' "$work/log" | tail -n 40
  failures=$((failures + 1))
}

# suite NAME COMMAND...: one that ends with mruby's counts.
suite() {
  local name=$1 total passed
  shift
  if ! "$@" >"$work/log" 2>&1; then
    failed "$name"
    return
  fi
  total=$(awk '/^  Total:/ {sum += $2} END {print sum + 0}' "$work/log")
  passed=$(awk '/^     OK:/ {sum += $2} END {print sum + 0}' "$work/log")
  if ! grep -q '^     KO: 0' "$work/log" || grep -Eq '^ *(KO|Crash): [1-9]' "$work/log"; then
    failed "$name"
  else
    row "$name" "$passed of $total pass, $(awk '/^   Skip:/ {sum += $2} END {print sum + 0}' "$work/log") skipped"
  fi
}

# answers DIRECTORY: what our programs print on a build.
answers() {
  local program
  for program in 'trees 10' 'strings 2000' 'hashes 5000' 'objects 5' 'templates 60' 'json 3' 'cache 3000 300 /dev/null'; do
    # shellcheck disable=SC2086
    set -- "$1" $program
    echo "$2: $("$1/bin/mruby" "$CLONE/workloads/mruby/$2.rb" "${@:3}")"
    set -- "$1"
  done
}
# programs NAME DIRECTORY: the answers of stock.
programs() {
  if ! answers "$2" >"$work/log" 2>&1 || ! cmp -s "$work/expected" "$work/log"; then
    failed "$1"
  else
    row "$1" 'the same answers'
  fi
}

# The tests of mruby's commands, by the build that made them.
# shellcheck disable=SC2317 # called by suite
commands() {
  local build=$CLONE/build/mruby name=$1 exports
  exports=$("$here/../ruby/env.sh" --no-library)
  eval "$exports"
  env -C "$build/$name-tree" MRUBY_CONFIG="$CLONE/vm/mruby/build_config.rb" MRUBY_BUILD_DIR="$build/$name" \
    INSTALL_DIR="$build/$name/installed" ASHLAR_LIBRARY="${CARGO_TARGET_DIR:-$CLONE/target}/release" \
    ASHLAR_INCLUDE="$CLONE/crates/heap-capi/include" "$RUBY_STOCK" ./minirake test:run:bin
}

echo "mruby's own tests"
suite 'its own collector' "$stock/bin/mrbtest"
suite 'Ashlar' "$ashlar/bin/mrbtest"
suite 'Ashlar: its commands' commands ashlar
while IFS='|' read -r name options; do
  suite "Ashlar, $name" env ASHLAR_OPTIONS="$options" "$ashlar/bin/mrbtest"
done <<'LIST'
a collection at every allocation|stress=collect-every:1,poison
major ones|stress=collect-every:1,no-minor,poison
at every 5th, each verified|stress=collect-every:5,verify,poison
major ones at every 7th, each verified|stress=collect-every:7,no-minor,verify,poison
in slices of one cell|stress=slice-cells:1,poison
in slices of 20, each verified|stress=slice-cells:20,collect-every:10,verify,poison
by two threads, each verified|slice_us=0 threads=2 stress=collect-every:50,verify
LIST

echo 'Our programs'
answers "$stock" >"$work/expected"
programs 'Ashlar' "$ashlar"
export ASHLAR_OPTIONS=stress=collect-every:200,verify,poison
programs 'Ashlar, at every 200th allocation, each verified' "$ashlar"
unset ASHLAR_OPTIONS

if [[ ${SANITIZE-} != no ]]; then
  sanitized=$("$here/build.sh" ashlar --sanitize)
  export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1
  echo "With sanitizers and mruby's assertions"
  suite 'Ashlar' "$sanitized/bin/mrbtest"
  suite 'Ashlar, at every 3rd allocation' env ASHLAR_OPTIONS=stress=collect-every:3,poison "$sanitized/bin/mrbtest"
  programs 'Ashlar' "$sanitized"
fi
exit $((failures > 0))
