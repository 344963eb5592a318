#!/usr/bin/env bash
# Measures mruby on its own collector and on Ashlar's heap: points, then curves. measure.sh says what PROGRAMS, BLOCKS,
# CURVES and RECORD do. --instructions counts instructions, which a busy machine does not change.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
clone=$(cd "$here/../.." && pwd -P)
unset LD_PRELOAD ASHLAR_OPTIONS INTERVAL_RATIO
[[ -z ${TURNS-} ]] || {
  echo "mruby.sh: TURNS=$TURNS is not for these programs, some of which tell times by the clock on the wall; leave it out." >&2
  exit 2
}

# name|words of the small run|words of the large run
programs() {
  cat <<'LIST'
trees|trees 9|trees 12
strings|strings 2000|strings 12000
hashes|hashes 5000|hashes 30000
objects|objects 3|objects 20
templates|templates 50|templates 400
json|json 2|json 20
cache|cache 5000 1000 /dev/null|cache 20000 5000 /dev/null
LIST
}

build_both() {
  stock=$("$clone/scripts/mruby/build.sh" stock)
  ashlar=$("$clone/scripts/mruby/build.sh" ashlar)
}

# count VARIANT PROGRAM WORD...
count() {
  local mruby=$stock/bin/mruby
  [[ $1 == stock ]] || mruby=$ashlar/bin/mruby
  # shellcheck disable=SC2154 # counted: instruction-table.sh
  valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null --log-file="$counted/log" \
    "$mruby" "$clone/workloads/mruby/$2.rb" "${@:3}" >"$counted/answer" || {
    echo "mruby.sh: '${*:2}' failed on $1:" >&2
    tail -n 5 "$counted/log" >&2
    return 1
  }
  awk '/I +refs/ {gsub(",", "", $NF); print $NF}' "$counted/log"
}

if [[ ${1-} == --instructions ]]; then
  command -v valgrind >/dev/null || {
    echo "mruby.sh: needs valgrind (Debian: apt-get install valgrind)" >&2
    exit 2
  }
  # shellcheck source=scripts/bench/instruction-table.sh
  . "$here/instruction-table.sh"
  refuse_unknown_programs
  build_both
  print_table stock ashlar
  exit
fi
build_both
# shellcheck source=scripts/bench/stores.sh
. "$clone/scripts/bench/stores.sh"
# shellcheck source=scripts/bench/measure.sh
. "$here/measure.sh"
# shellcheck disable=SC2154 # selection, points, curves: measure.sh
[[ -z $points ]] || measure mruby "$clone/workloads/mruby.toml" "${selection[@]}"
[[ -z $curves ]] || measure mruby-curves "$clone/workloads/mruby-curves.toml" "${selection[@]}"
