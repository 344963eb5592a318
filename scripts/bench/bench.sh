#!/usr/bin/env bash
# Measures the Ruby workloads, start-up and what slices cost, prints the tables with the goals beside, and
# records the run under bench/results/. measure.sh says what PROGRAMS, VARIANTS, BLOCKS and RECORD do.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034 # setup.sh
inside=yes
# shellcheck source=scripts/bench/setup.sh
. "$here/setup.sh"
# shellcheck source=scripts/bench/measure.sh
. "$here/measure.sh"

experiments=$clone/workloads/ruby
measure bench "$experiments/bench.toml" "${selection[@]}"
# The other experiments are parts of a whole run only.
if [[ -n $whole ]]; then
  for name in server startup slices; do
    echo
    measure "$name" "$experiments/$name.toml"
  done
fi
