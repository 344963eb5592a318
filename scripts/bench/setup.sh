# shellcheck shell=bash
# What a measurement needs: the Rubies and the library (their names in the environment) and
# the lab with its stores (stores.sh).
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
exports=$("$clone/scripts/ruby/env.sh")
eval "$exports"
# shellcheck source=scripts/bench/stores.sh
. "$clone/scripts/bench/stores.sh"
# What the user's shell says about collectors must not reach the baseline.
unset RUBY_GC_LIBRARY RUBYOPT LD_PRELOAD
