#!/usr/bin/env bash
# Runs five Ruby programs on stock Ruby and on Ruby with Ashlar inside, checks that they
# print the same, and shows one table; the page has the pictures.
#   scripts/bench/demo.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/messages.sh
. "$here/../ruby/messages.sh"
trap - ERR # what is run here says itself what was wrong
unset VARIANTS RUBYLIB
# shellcheck disable=SC2034 # for setup.sh
measured="stock inside"
# shellcheck source=scripts/bench/setup.sh
. "$here/setup.sh"
# shellcheck source=scripts/bench/bundled-gems.sh
. "$here/bundled-gems.sh"
use_bundled_gems logger rdoc racc
exec "$ashlar_lab" compare --experiment "$clone/workloads/ruby/demo.toml" \
  --store "$(fresh demo)" --output "$results/demo" --form html
