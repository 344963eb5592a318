# shellcheck shell=bash
# Finds Ruby's source. Sets SOURCE (the unpacked tree), SOURCE_VERSION and SOURCE_ID
# (what a cached build of it is filed under).

# ruby_version_of TREE -> 3.4.5
ruby_version_of() {
  local teeny
  [[ -e $1/version.h && -e $1/include/ruby/version.h ]] || return 0
  teeny=$(awk '/define RUBY_VERSION_TEENY/{print $3}' "$1/version.h")
  awk -v teeny="$teeny" '
    /define RUBY_API_VERSION_MAJOR/{major = $3}
    /define RUBY_API_VERSION_MINOR/{minor = $3}
    END {if (major != "" && teeny != "") print major "." minor "." teeny}
  ' "$1/include/ruby/version.h"
}

# accept_source TREE ID
accept_source() {
  SOURCE=$1
  SOURCE_VERSION=$(ruby_version_of "$SOURCE")
  [[ $SOURCE_VERSION ]] || fail "$SOURCE is not a Ruby source tree (no include/ruby/version.h)."
  [[ $SOURCE_VERSION == "$RUBY_SERIES".* ]] ||
    fail "$SOURCE is Ruby $SOURCE_VERSION; the collector is written for Ruby $RUBY_SERIES."
  [[ -x $SOURCE/configure ]] ||
    fail "$SOURCE has no configure script; run ./autogen.sh there first."
  SOURCE_ID=ruby-$SOURCE_VERSION-$2
}

# unpack TARBALL FOLDER: all or nothing.
unpack() {
  local partial=$2.partial.$$
  rm -rf "$2" "$partial"
  mkdir -p "$partial"
  if ! tar -xf "$1" -C "$partial" --strip-components=1; then
    rm -rf "$partial"
    fail "$1 cannot be unpacked."
  fi
  mv "$partial" "$2"
}

source_from_tarball() {
  local digest folder
  digest=$(digest8 <"$1")
  folder=$SOURCES/tarball-$digest
  hold_lock "tarball-$digest"
  mkdir -p "$SOURCES"
  [[ -d $folder ]] || unpack "$1" "$folder"
  release_lock
  accept_source "$folder" "$digest"
}

source_from_debian() {
  local found download tarball digest
  hold_lock debian-source
  mkdir -p "$SOURCES"
  found=$(find "$SOURCES" -maxdepth 1 -name 'debian-*' ! -name '*.partial.*' | sort -V | tail -n 1)
  if [[ -z $found ]]; then
    ensure_build_packages
    download=$SOURCES/download
    SOURCE_LOG=$CACHE/source.log
    APT_STATE=$CACHE/apt
    rm -rf "$download"
    mkdir -p "$download" "$APT_STATE"
    (download_tarball "$download") || {
      tail -n 15 "$SOURCE_LOG" >&2
      fail "Debian's source package of Ruby $RUBY_SERIES could not be downloaded." \
        "Set RUBY_SRC to a folder or tarball with the source of Ruby $RUBY_SERIES."
    }
    tarball=$(find "$download" -name '*.orig.tar.*' ! -name '*.asc' | head -n 1)
    found=$SOURCES/debian-$(basename "$tarball" | sed 's/.*_\(.*\)\.orig.*/\1/')
    unpack "$tarball" "$found"
    rm -rf "$download"
  fi
  release_lock
  digest=$(basename "$found" | digest8)
  accept_source "$found" "$digest"
}

# The order: what the user named; else Debian's source package.
find_source() {
  if [[ ${RUBY_SRC-} ]]; then
    [[ -e $RUBY_SRC ]] || fail "RUBY_SRC=$RUBY_SRC does not exist."
    if [[ -d $RUBY_SRC ]]; then
      accept_source "$(cd "$RUBY_SRC" && pwd -P)" "$(cd "$RUBY_SRC" && pwd -P | digest8)"
    else
      source_from_tarball "$RUBY_SRC"
    fi
  elif is_debian; then
    source_from_debian
  else
    fail "this is not Debian, so Ruby's source must be given: set RUBY_SRC to a folder or" \
      "tarball of Ruby $RUBY_SERIES, or install Ruby with --with-modular-gc (see README.md)."
  fi
}
