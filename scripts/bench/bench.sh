#!/usr/bin/env bash
# Measures the Ruby workloads, start-up and what slices cost, prints the tables with the goals beside, and
# records the run under bench/results/. Environment:
#   PROGRAMS   names from workloads/ruby/bench.toml, blanks between; all unless given
#   VARIANTS   likewise; stock, default and ashlar unless given
#   BLOCKS     how often everything runs; 10 unless given
#   RECORD     a folder for the record; unless given, bench/results/DATE-KIND of machine for
#              a whole run and none for a part
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/bench/setup.sh
. "$here/setup.sh"

chosen=()
[[ -z ${VARIANTS-} ]] || chosen+=(--variants "$(tr -s ' ' , <<<"$VARIANTS" | tr -d '\n')")
programs=()
[[ -z ${PROGRAMS-} ]] || programs+=(--programs "$(tr -s ' ' , <<<"$PROGRAMS")")
blocks=()
[[ -z ${BLOCKS-} ]] || blocks+=(--blocks "$BLOCKS")

vendor=$(awk -F': *' '/^vendor_id/{print tolower($2); exit}' /proc/cpuinfo | sed 's/genuine//; s/authentic//')
kind=$(uname -m)-${vendor:-unknown}-$(nproc)cpus
record=${RECORD-}
whole=
[[ -n ${PROGRAMS-}${VARIANTS-} ]] || whole=yes
[[ -n $record || -z $whole ]] || record=$clone/bench/results/$(date -u +%Y-%m-%d)-$kind

# measure NAME OPTION...: one experiment of workloads/ruby, its page and its record.
measure() {
  local name=$1 store
  shift
  store=$(fresh "$name")
  "$ashlar_lab" compare --experiment "$clone/workloads/ruby/$name.toml" --store "$store" --form html "$@"
  [[ -n $record ]] || return 0
  mkdir -p "$record"
  "$ashlar_lab" report "$store" --output "$record/$name" --form record --quiet
  echo "recorded $record/$name.md, .json and .csv"
}

measure bench "${programs[@]}" "${chosen[@]}" "${blocks[@]}"
# The other experiments are parts of a whole run only.
if [[ -n $whole ]]; then
  for name in server startup slices; do
    echo
    measure "$name"
  done
fi
