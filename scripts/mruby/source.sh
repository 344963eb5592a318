#!/usr/bin/env bash
# Gets the source of mruby that scripts/sources.txt names into the cache, checks it, and prints its folder. With
# MRUBY_SRC, a folder or that tarball, nothing is fetched.
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

read -r version sha256 place < <(wanted_rows mruby)

if [[ -n ${MRUBY_SRC-} && -d $MRUBY_SRC ]]; then
  [[ -e $MRUBY_SRC/src/gc.c ]] || fail "MRUBY_SRC=$MRUBY_SRC is not a source tree of mruby (no src/gc.c)."
  cd "$MRUBY_SRC" && pwd -P
  exit
fi
hold_lock mruby-source
if [[ ${MRUBY_SRC-} ]]; then
  [[ -e $MRUBY_SRC ]] || fail "MRUBY_SRC=$MRUBY_SRC does not exist."
  found=$(sha256_of "$MRUBY_SRC")
  [[ $found == "$sha256" ]] ||
    fail "MRUBY_SRC=$MRUBY_SRC is not the source of mruby $version that scripts/sources.txt names: its SHA-256 is $found, not $sha256."
  folder=$(folder_of mruby "$version" "$sha256" "$place")
  mkdir -p "$SOURCES" "$TARBALLS"
  [[ -d $folder && -e $TARBALLS/${folder##*/}.contents ]] || make_tree "$folder" "$sha256" "$MRUBY_SRC"
fi
pinned_tree mruby "set MRUBY_SRC to a folder or tarball with it"
release_lock
echo "$TREE"
