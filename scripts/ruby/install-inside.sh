#!/usr/bin/env bash
# Installs a Ruby with Ashlar inside, as any Ruby is installed.
#   PREFIX=/opt/ruby scripts/ruby/install-inside.sh
# Environment:
#   PREFIX    where it will be: a folder, with its whole path
#   DESTDIR   put in front of PREFIX while files are copied, for those who make packages
#   STRIP     yes: without what only debuggers read; no unless given
#   SHARED    yes: with a libruby.so, as programs that embed Ruby want it; no unless given
#   LAZY      no: all code is loaded with its file, not when it first runs; yes unless given
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/rubies.sh
. "$here/rubies.sh"
# shellcheck source=scripts/ruby/inside.sh
. "$here/inside.sh"
# shellcheck source=scripts/ruby/install-tree.sh
. "$here/install-tree.sh"

check_place() {
  local parent
  [[ ${PREFIX-} ]] || fail 'PREFIX is not set; say where the Ruby is to be: make install PREFIX=/opt/ruby'
  [[ $PREFIX == /* && $PREFIX != / ]] || fail "PREFIX=$PREFIX must be a folder's whole path, such as /opt/ruby."
  [[ $PREFIX =~ ^[A-Za-z0-9_./+~-]+$ ]] ||
    fail "PREFIX=$PREFIX has characters that Ruby's own build cannot have; use letters, digits and . _ + ~ -"
  [[ ${DESTDIR-} == '' || $DESTDIR == /* ]] || fail "DESTDIR=$DESTDIR must be a folder's whole path."
  PREFIX=${PREFIX%/}
  place=${DESTDIR-}$PREFIX
  case ${STRIP-} in
    '' | yes | no) ;;
    *) fail "STRIP=$STRIP is not possible; it is yes or no." ;;
  esac
  parent=$place
  while [[ ! -e $parent ]]; do parent=$(dirname "$parent"); done
  [[ -d $parent && -w $parent ]] || fail "$parent cannot be written to; run as its owner, or choose another PREFIX."
}

strip_ruby() {
  find "$1" -type f \( -name '*.so*' -o -name '*.a' -o -path '*/bin/ruby' \) -exec "${TRIPLE:+$TRIPLE-}strip" --strip-debug {} +
}

check_place
find_inside
ensure_rust
hold_lock "$(basename "$INSIDE")"
mkdir -p "$INSIDE"
: >"$INSIDE/log"
linked=$INSIDE/install
[[ ${ASHLAR_REPRODUCIBLE-} != yes ]] || linked=$INSIDE/package
make_inside "$linked" "$PREFIX"
stage_ruby "$INSIDE/staged" "$PREFIX"
add_program "$linked" "$INSIDE/staged"
add_files "$INSIDE/staged"
add_ashlar "$INSIDE/staged" "$PREFIX"
[[ ${STRIP-} != yes ]] || strip_ruby "$INSIDE/staged"
install_tree "$INSIDE/staged" "$place"
remove_others "$INSIDE/staged/lib/ashlar" "$place/lib/ashlar"
remove_older_defaults "$INSIDE/staged" "$place"
rm -rf "$INSIDE/staged"
[[ ${DESTDIR-} ]] || check_inside "$place/bin/ruby"
say "installed $place/bin/ruby, and $place/bin/ashlar to see into its heap"
