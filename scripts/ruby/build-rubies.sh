#!/usr/bin/env bash
# Gets and builds the two Rubies: the modular one, which can load a collector, and the
# stock one, which is the yardstick. Does nothing when both are in the cache.
#   scripts/ruby/build-rubies.sh
#   RUBY_SRC=~/src/ruby-3.4.5.tar.xz scripts/ruby/build-rubies.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/rubies.sh
. "$here/rubies.sh"
ensure_rubies
