#!/usr/bin/env bash
# Runs four Ruby programs on stock Ruby, on the same collector loaded as a module and on
# Ashlar, checks that they print the same, and shows one table; the page has the pictures.
#   scripts/bench/demo.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/bench/setup.sh
. "$here/setup.sh"
exec "$ashlar_lab" compare --experiment "$clone/workloads/ruby/demo.toml" \
  --store "$(fresh demo)" --output "$results/demo" --form html
