# shellcheck shell=bash
# What a measurement needs: the Rubies and the library (their names in the environment) and
# the lab. Sets ashlar_lab, the lab's command, and results, a folder outside version control.
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
exports=$("$clone/scripts/ruby/env.sh")
eval "$exports"
ashlar_lab=$("$clone/scripts/lab/setup.sh")
results=$clone/build/bench
mkdir -p "$results"
ASHLAR_COMMIT=$(git -C "$clone" describe --always --dirty 2>/dev/null || echo unknown)
export ASHLAR_COMMIT
# What the user's shell says about collectors must not reach the baseline.
unset RUBY_GC_LIBRARY RUBYOPT LD_PRELOAD

# fresh NAME: the path of a store that does not exist yet.
fresh() {
  rm -f "$results/$1.ashlar"
  echo "$results/$1.ashlar"
}
