# shellcheck shell=bash
# The door to both Rubies: sourcing it gives `ensure_rubies`, which sets RUBY, RUBY_STOCK,
# RUBY_SOURCE, RUBY_BUILD (empty for an installed Ruby), RUBY_ARCH_HEADERS (the folder with
# ruby/config.h) and COLLECTORS (the folder Ruby loads collectors from); and `ensure_stock`, which sets RUBY_STOCK and
# RUBY_SOURCE.

here_rubies=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/paths.sh
. "$here_rubies/paths.sh"
# shellcheck source=scripts/ruby/messages.sh
. "$here_rubies/messages.sh"
# shellcheck source=scripts/ruby/packages.sh
. "$here_rubies/packages.sh"
# shellcheck source=scripts/ruby/debian-source.sh
. "$here_rubies/debian-source.sh"
# shellcheck source=scripts/ruby/pinned.sh
. "$here_rubies/pinned.sh"
# shellcheck source=scripts/ruby/source.sh
. "$here_rubies/source.sh"
# shellcheck source=scripts/ruby/installed.sh
. "$here_rubies/installed.sh"
# shellcheck source=scripts/ruby/build.sh
. "$here_rubies/build.sh"
# shellcheck source=scripts/ruby/cross.sh
. "$here_rubies/cross.sh"

# check_places: Ruby's makefiles, and ours for the Ruby with Ashlar inside, take a blank in a path for its end.
check_places() {
  local place
  for place in "$CLONE" "$CACHE"; do
    [[ $place != *[[:space:]]* ]] || fail "The path '$place' has a blank, which the makefiles of Ruby cannot have in it; move it elsewhere."
  done
}

# The order: the source or the version that the user named, an installed Ruby, the source that scripts/sources.txt names.
# shellcheck disable=SC2034
ensure_rubies() {
  check_places
  prepare_cross
  if [[ ${RUBY_SRC-} || $MACHINE ]] || ! find_installed; then
    find_source
    build_ruby modular
    RUBY=$(ruby_folder modular)/prefix/bin/ruby
    RUBY_BUILD=$(ruby_folder modular)/build
    RUBY_ARCH_HEADERS=$(dirname "$(dirname "$(find "$RUBY_BUILD/.ext/include" -path '*/ruby/config.h')")")
    COLLECTORS=$(ruby_folder modular)/prefix/lib/ruby-gc
  fi
  ensure_stock
}

# ensure_kind KIND: that Ruby, of the source that was found before, if one was.
ensure_kind() {
  check_places
  prepare_cross
  [[ ${SOURCE-} ]] || find_source
  build_ruby "$1"
}

# shellcheck disable=SC2034
ensure_stock() {
  ensure_kind stock
  RUBY_STOCK=$(ruby_folder stock)/prefix/bin/ruby
  RUBY_SOURCE=$SOURCE
}

# The headers of the Ruby that the collector is made for, internal ones included. Those that Ruby makes
# itself, such as id.h, are in a tarball; of a checkout they are where it was built.
ruby_include_flags() {
  printf -- '-I%s -I%s -I%s' "$RUBY_ARCH_HEADERS" "$RUBY_SOURCE/include" "$RUBY_SOURCE"
  [[ -e $RUBY_SOURCE/id.h || ! ${RUBY_BUILD-} ]] || printf -- ' -I%s' "$RUBY_BUILD"
}
