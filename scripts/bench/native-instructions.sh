#!/usr/bin/env bash
# Counts the instructions of the native programs on each contender that can run under valgrind alone: programs of one
# thread. Each runs at two sizes and the difference is counted, so start-up is not in it. Called by native.sh, which
# compiles them. PROGRAMS and VARIANTS choose, as there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../build/native"
command -v valgrind >/dev/null || {
  echo "native-instructions.sh: needs valgrind (Debian: apt-get install valgrind)" >&2
  exit 2
}
libraries=/usr/lib/$(uname -m)-linux-gnu
counted=$(mktemp)
trap 'rm -f "$counted"' EXIT

# name: small run | large run
programs() {
  cat <<'LIST'
trees|trees 11|trees 14
lists|lists 200|lists 700
tables|tables 300000|tables 800000
strings|strings 300000|strings 1300000
growth|growth 1|growth 3
queue|queue 100000|queue 600000
marking|marking 50000|marking 250000
LIST
}

# count VARIANT WORD...: instructions of one run.
count() {
  local directory=$1 preload=
  case $1 in
    mimalloc) directory=malloc preload=$(echo "$libraries"/libmimalloc.so.*) ;;
    jemalloc) directory=malloc preload=$libraries/libjemalloc.so.2 ;;
    glibc) directory=malloc ;;
  esac
  shift
  ASHLAR_OPTIONS=space_overhead=100 valgrind --tool=cachegrind --cache-sim=no --cachegrind-out-file=/dev/null \
    --trace-children=yes --log-file="$counted" env ${preload:+"LD_PRELOAD=${preload##* }"} "./$directory/native" "$@" >/dev/null 2>&1 || {
    echo "native-instructions.sh: '$*' failed on $directory:" >&2
    tail -5 "$counted" >&2
    exit 1
  }
  awk '/I +refs/ {gsub(",", "", $NF); last = $NF} END {print last}' "$counted"
}

# millions VARIANT SMALL LARGE: the difference, in millions.
millions() {
  local small large
  # shellcheck disable=SC2086
  small=$(count "$1" $2)
  # shellcheck disable=SC2086
  large=$(count "$1" $3)
  echo $(((large - small) / 1000000))
}

read -ra variants <<<"${VARIANTS:-mimalloc jemalloc glibc payloads ashlar bdwgc}"
first=${variants[0]}
header="| program | $first (millions) |" rule='| --- | ---: |'
for variant in "${variants[@]:1}"; do
  header+=" $variant (millions) | / $first |" rule+=' ---: | ---: |'
done
printf '%s\n%s\n' "$header" "$rule"
programs | while IFS='|' read -r name small large; do
  [[ -z ${PROGRAMS-} || " $PROGRAMS " == *" $name "* ]] || continue
  base=$(millions "$first" "$small" "$large")
  row="| $name | $base |"
  for variant in "${variants[@]:1}"; do
    own=$(millions "$variant" "$small" "$large")
    row+=" $own | $(awk -v own="$own" -v base="$base" 'BEGIN { printf "%.2f", own / base }') |"
  done
  echo "$row"
done
