#!/usr/bin/env bash
# Builds the Ruby with Ashlar inside, with this clone's collector, into the cache.
#   scripts/ruby/build-inside.sh
#   SHARED=yes scripts/ruby/build-inside.sh    with a libruby.so
#   LAZY=no scripts/ruby/build-inside.sh       all code is loaded with its file
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/rubies.sh
. "$here/rubies.sh"
# shellcheck source=scripts/ruby/inside.sh
. "$here/inside.sh"
ensure_inside
say "built $RUBY_INSIDE"
[[ $MACHINE ]] || "$RUBY_INSIDE" -v # another machine's runs only in an emulator
