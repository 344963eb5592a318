#!/usr/bin/env bash
# Gets the source of libJudy that scripts/sources.txt names into the cache, checks it, and prints
# its folder.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/paths.sh
. "$here/../ruby/paths.sh"
# shellcheck source=scripts/ruby/messages.sh
. "$here/../ruby/messages.sh"
# shellcheck source=scripts/ruby/packages.sh
. "$here/../ruby/packages.sh"
# shellcheck source=scripts/ruby/debian-source.sh
. "$here/../ruby/debian-source.sh"
# shellcheck source=scripts/ruby/pinned.sh
. "$here/../ruby/pinned.sh"
hold_lock judy-source
pinned_tree judy 'put a newer place of it there'
release_lock
echo "$TREE"
