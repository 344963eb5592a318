#!/usr/bin/env bash
# Builds this clone's collector library and installs it for the modular Ruby.
#   scripts/ruby/build-library.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/rubies.sh
. "$here/rubies.sh"
# shellcheck source=scripts/ruby/library.sh
. "$here/library.sh"
ensure_rubies
ensure_library
say "installed $ASHLAR_LIB"
