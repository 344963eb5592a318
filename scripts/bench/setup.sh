# shellcheck shell=bash
# What a measurement needs: the Rubies and the library (their names in the environment) and
# the lab with its stores (stores.sh). The Ruby with Ashlar inside is made when VARIANTS names it
# (inside, inside-yjit and the like), or, if nothing was chosen, when the script that sources this
# measures it anyway (inside=yes). One that measures nothing on the modular Ruby says so (inside=only), and it is not made.
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
with_inside=()
case " ${VARIANTS:-${inside:+inside}} " in *' inside'[\ -]*) with_inside=(--inside) ;; esac
[[ ${inside-} != only ]] || with_inside=(--only-inside)
exports=$("$clone/scripts/ruby/env.sh" "${with_inside[@]}")
eval "$exports"
# shellcheck source=scripts/bench/stores.sh
. "$clone/scripts/bench/stores.sh"
# What the user's shell says about collectors must not reach the baseline.
unset RUBY_GC_LIBRARY RUBYOPT LD_PRELOAD
