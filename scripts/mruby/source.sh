#!/usr/bin/env bash
# Gets the source of mruby, Debian's package of one version, into the cache, checks it, and prints its folder. With
# MRUBY_SRC, a folder or tarball of that version, nothing is fetched.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/paths.sh
. "$here/../ruby/paths.sh"
# shellcheck source=scripts/ruby/messages.sh
. "$here/../ruby/messages.sh"
# shellcheck source=scripts/ruby/packages.sh
. "$here/../ruby/packages.sh"
# shellcheck source=scripts/ruby/source.sh
. "$here/../ruby/source.sh"
# shellcheck source=scripts/ruby/debian-source.sh
. "$here/../ruby/debian-source.sh"

VERSION=3.3.0
PACKAGE=mruby=3.3.0-1
SUITE=trixie
SHA256=53088367e3d7657eb722ddfacb938f74aed1f8538b3717fe0b6eb8f58402af65
folder=$SOURCES/mruby-$VERSION

# check_tarball FILE
check_tarball() {
  local found
  found=$(sha256sum "$1" | cut -d' ' -f1)
  [[ $found == "$SHA256" ]] ||
    fail "$1 is not the source of mruby $VERSION that this was written for:" \
      "its SHA-256 is $found, not $SHA256."
}

if [[ -n ${MRUBY_SRC-} && -d $MRUBY_SRC ]]; then
  [[ -e $MRUBY_SRC/src/gc.c ]] || fail "MRUBY_SRC=$MRUBY_SRC is not a source tree of mruby (no src/gc.c)."
  cd "$MRUBY_SRC" && pwd -P
  exit
fi
hold_lock mruby-source
if [[ ! -d $folder ]]; then
  download=$SOURCES/mruby-download
  rm -rf "$download"
  mkdir -p "$download"
  tarball=${MRUBY_SRC-}
  if [[ -z $tarball ]]; then
    is_debian || fail "set MRUBY_SRC to a folder or tarball with the source of mruby $VERSION."
    APT_STATE=$CACHE/apt
    log=$CACHE/source.log
    mirror=$(any_mirror)
    [[ $mirror ]] || fail 'no Debian mirror is configured for apt on this system;' \
      "set MRUBY_SRC to a folder or tarball with the source of mruby $VERSION."
    mkdir -p "$APT_STATE"
    say "downloading mruby $VERSION from Debian"
    (
      cd "$download"
      prepare_suite "$SUITE" "$mirror"
      private_apt "$SUITE" apt-get source --download-only --only-source "$PACKAGE"
    ) >>"$log" 2>&1 || {
      tail -n 15 "$log" >&2
      fail "Debian's source package $PACKAGE could not be downloaded." \
        "Set MRUBY_SRC to a folder or tarball with the source of mruby $VERSION."
    }
    tarball=$(compgen -G "$download/mruby_*.orig.tar.*" | grep -v '\.asc$' | head -n 1)
  fi
  check_tarball "$tarball"
  unpack "$tarball" "$folder"
  rm -rf "$download"
fi
release_lock
echo "$folder"
