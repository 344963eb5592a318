#!/usr/bin/env bash
# Measures the Ruby workloads, start-up and what slices cost, prints the tables with the goals beside, and
# records the run under bench/results/. measure.sh says what PROGRAMS, VARIANTS, BLOCKS and RECORD do.
# --ruby-gc measures the programs of benchmark/gc in Ruby's own source instead; setup.sh says where that is.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
measured="stock default ashlar inside"
# shellcheck disable=SC2034 # setup.sh
[[ ${1-} != --ruby-gc ]] || measured="stock inside"
# shellcheck source=scripts/ruby/messages.sh
. "$here/../ruby/messages.sh"
trap - ERR # what is run here says itself what was wrong
# shellcheck source=scripts/bench/setup.sh
. "$here/setup.sh"
# shellcheck source=scripts/bench/measure.sh
. "$here/measure.sh"
# shellcheck source=scripts/bench/bundled-gems.sh
. "$here/bundled-gems.sh"
unset RUBYLIB

experiments=$clone/workloads/ruby
if [[ ${1-} == --ruby-gc ]]; then
  use_bundled_gems rdoc racc benchmark
  measure ruby-gc "$experiments/ruby_gc.toml" "${selection[@]}"
  exit
fi
use_bundled_gems rdoc racc
measure bench "$experiments/bench.toml" "${selection[@]}"
# The other experiments are parts of a whole run only.
if [[ -n $whole ]]; then
  for name in server startup slices; do
    echo
    TURNS='' measure "$name" "$experiments/$name.toml" # they are about the clock on the wall
  done
fi
