#!/usr/bin/env bash
# Counts the instructions of the native programs on each contender that can run under valgrind alone: those of which no
# thread waits for another all the time. Each runs at two sizes and the difference is counted, so start-up is not in it.
# Called by native.sh, which compiles them. PROGRAMS and VARIANTS choose, as there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../build/native"
command -v valgrind >/dev/null || {
  echo "native-instructions.sh: needs valgrind (Debian: apt-get install valgrind)" >&2
  exit 2
}
libraries=/usr/lib/$(uname -m)-linux-gnu

# name: small run | large run
programs() {
  cat <<'LIST'
trees|trees 11|trees 14
lists|lists 200|lists 700
tables|tables 300000|tables 800000
strings|strings 300000|strings 1300000
growth|growth 1|growth 3
queue|queue 100000|queue 600000
larson|larson 2 400000|larson 2 2400000
marking|marking 50000|marking 250000
LIST
}

# shellcheck source=scripts/bench/instruction-table.sh
. "$here/instruction-table.sh"
refuse_unknown_programs

# count VARIANT WORD...
count() {
  local directory=$1 preload=
  case $1 in
    mimalloc) directory=malloc preload=$(echo "$libraries"/libmimalloc.so.*) ;;
    jemalloc) directory=malloc preload=$libraries/libjemalloc.so.2 ;;
    glibc) directory=malloc ;;
  esac
  shift
  ASHLAR_OPTIONS=space_overhead=100 valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null \
    --trace-children=yes --log-file="$counted/log" env ${preload:+"LD_PRELOAD=${preload##* }"} "./$directory/native" "$@" >"$counted/answer" 2>/dev/null || {
    echo "native-instructions.sh: '$*' failed on $directory:" >&2
    tail -n 5 "$counted/log" >&2
    return 1
  }
  awk '/I +refs/ {gsub(",", "", $NF); last = $NF} END {print last}' "$counted/log"
}

read -ra variants <<<"${VARIANTS:-mimalloc jemalloc glibc payloads ashlar bdwgc}"
print_table "${variants[@]}"
