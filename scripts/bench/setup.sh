# shellcheck shell=bash
# What a measurement needs: the Rubies and the library (their names in the environment) and
# the lab with its stores (stores.sh). The Rubies are those of VARIANTS, or, if nothing was chosen, of the variants that the
# script that sources this says (measured).
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# shellcheck source=scripts/bench/variants.sh
. "$clone/scripts/bench/variants.sh"
exports=$("$clone/scripts/ruby/env.sh" "$(rubies_of "${VARIANTS:-$measured}")")
eval "$exports"
# shellcheck source=scripts/bench/stores.sh
. "$clone/scripts/bench/stores.sh"
# What the user's shell says about collectors must not reach the baseline.
unset RUBY_GC_LIBRARY RUBYOPT LD_PRELOAD
