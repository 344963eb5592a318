#!/usr/bin/env bash
# Measures the native programs (bench/native) on Ashlar and its peers, side by side in one run: points with goals, then
# curves. Records a whole run under bench/results/. measure.sh says what PROGRAMS, VARIANTS, BLOCKS, CURVES and RECORD do.
# --policies compares policies for placing large payloads instead; --instructions counts instructions, which a busy machine
# does not change. The shortest run that tries the curves:
#   make bench-native CURVES=only PROGRAMS=trees BLOCKS=1
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
clone=$(cd "$here/../.." && pwd -P)
# shellcheck source=scripts/ruby/paths.sh
. "$clone/scripts/ruby/paths.sh"
# shellcheck source=scripts/ruby/messages.sh
. "$clone/scripts/ruby/messages.sh"
# shellcheck source=scripts/ruby/packages.sh
. "$clone/scripts/ruby/packages.sh"

peers=(libgc-dev libmimalloc2.0 libjemalloc2)
if is_debian; then
  ensure_packages 'measuring native programs' "${peers[@]}"
elif ! printf '#include <gc/gc.h>\n' | cc -E - >/dev/null 2>&1; then
  fail 'measuring native programs needs bdwgc, mimalloc and jemalloc; install their libraries and gc/gc.h.'
fi
"$clone/bench/native/build.sh"
unset LD_PRELOAD ASHLAR_OPTIONS

if [[ ${1-} == --instructions ]]; then
  exec "$here/native-instructions.sh"
fi
policies=${1-}
# shellcheck source=scripts/bench/stores.sh
. "$clone/scripts/bench/stores.sh"
# shellcheck source=scripts/bench/measure.sh
. "$here/measure.sh"
if [[ $policies == --policies ]]; then
  # shellcheck disable=SC2154 # selection: measure.sh
  measure native-policies "$clone/workloads/native-policies.toml" "${selection[@]}"
  exit
fi
# shellcheck disable=SC2154 # points, curves: measure.sh
[[ -z $points ]] || measure native "$clone/workloads/native.toml" "${selection[@]}"
[[ -z $curves ]] || measure native-curves "$clone/workloads/native-curves.toml" "${selection[@]}"
