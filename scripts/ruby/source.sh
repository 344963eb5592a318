# shellcheck shell=bash
# Finds Ruby's source. Sets SOURCE (the unpacked tree), SOURCE_VERSION, SOURCE_ID (what a
# cached build of it is filed under) and SOURCE_SHA256 (of its tarball; empty for a folder of
# the user's).

# Reads both files that are called version.h -> 3.4.5
version_in() {
  awk '
    /define RUBY_VERSION_TEENY/{teeny = $3}
    /define RUBY_API_VERSION_MAJOR/{major = $3}
    /define RUBY_API_VERSION_MINOR/{minor = $3}
    END {if (major != "" && teeny != "") print major "." minor "." teeny}
  '
}

# ruby_version_of TREE
ruby_version_of() {
  [[ -e $1/version.h && -e $1/include/ruby/version.h ]] || return 0
  cat "$1/version.h" "$1/include/ruby/version.h" | version_in
}

# ruby_version_in TARBALL: without unpacking it.
ruby_version_in() {
  (tar -xOf "$1" --wildcards --no-wildcards-match-slash '*/version.h' '*/include/ruby/version.h' 2>/dev/null || true) | version_in
}

# accept_source TREE ID [SHA256]
accept_source() {
  SOURCE=$1
  SOURCE_SHA256=${3-}
  SOURCE_VERSION=$(ruby_version_of "$SOURCE")
  [[ $SOURCE_VERSION ]] || fail "$SOURCE is not a Ruby source tree (no include/ruby/version.h)."
  ruby_is_supported "$SOURCE_VERSION" ||
    fail "$SOURCE is Ruby $SOURCE_VERSION; the collector is written for Ruby $(ruby_series)."
  [[ -x $SOURCE/configure ]] ||
    fail "$SOURCE has no configure script; run ./autogen.sh there first."
  SOURCE_ID=ruby-$SOURCE_VERSION-$2
}

# check_source_contents: before something is built, fails if a file of a tree in the cache is
# not as in the tarball that the tree was unpacked from.
check_source_contents() {
  [[ ! ${SOURCE_SHA256-} ]] || check_files "$SOURCE" "$SOURCE_SHA256" contents
}

# check_tarball FILE SHA256: is it the one that the user or the table says? Nobody says
# anything of a version that the table does not have.
check_tarball() {
  local version
  if [[ ${RUBY_SHA256-} ]]; then
    [[ ${RUBY_SHA256,,} == "$2" ]] || fail "the SHA-256 of RUBY_SRC=$1 is $2, not RUBY_SHA256=$RUBY_SHA256; nothing was built from it."
    return
  fi
  [[ ! $(pinned_rows ruby | awk -v sha256="$2" '$2 == sha256') ]] || return 0
  version=$(ruby_version_in "$1")
  if [[ $version && $(pinned_rows ruby | awk -v version="$version" '$1 == version') ]]; then
    fail "RUBY_SRC=$1 is none of the tarballs of Ruby $version that scripts/sources.txt has: its SHA-256 is $2. If it is meant, set RUBY_SHA256=$2."
  fi
  say "RUBY_SRC=$1 is not in scripts/sources.txt; its SHA-256 is $2. RUBY_SHA256=$2 has it compared, a line there as well."
}

source_from_tarball() {
  local tarball sha256 folder
  tarball=$(realpath "$1")
  sha256=$(sha256_of "$tarball")
  folder=$SOURCES/tarball-${sha256:0:8}
  # xz is among them, without which nothing is found in a tarball.
  [[ -d $folder && -e $TARBALLS/${folder##*/}.contents ]] || ensure_build_packages
  check_tarball "$1" "$sha256"
  hold_lock "tarball-${sha256:0:8}"
  mkdir -p "$SOURCES" "$TARBALLS"
  [[ -d $folder && -e $TARBALLS/${folder##*/}.contents ]] || make_tree "$folder" "$sha256" "$tarball"
  check_files "$folder" "$sha256"
  release_lock
  accept_source "$folder" "${sha256:0:8}" "$sha256"
}

source_from_table() {
  local id
  check_asked_version
  hold_lock debian-source
  pinned_tree ruby "set RUBY_SRC to a folder or tarball with the source of Ruby $(ruby_series)"
  release_lock
  # As the folder's name has it: builds are filed under this.
  case ${TREE##*/} in
    debian-*) id=$(basename "$TREE" | digest8) ;;
    *) id=${TREE_SHA256:0:8} ;;
  esac
  accept_source "$TREE" "$id" "$TREE_SHA256"
}

# The order: what the user named; else what the table names.
find_source() {
  if [[ ${RUBY_SRC-} ]]; then
    [[ ! ${ASHLAR_RUBY_VERSION-} ]] ||
      fail "RUBY_SRC=$RUBY_SRC says what is built, and RUBY_VERSION=$ASHLAR_RUBY_VERSION, too; give one of them."
    [[ -e $RUBY_SRC ]] || fail "RUBY_SRC=$RUBY_SRC does not exist."
    if [[ -d $RUBY_SRC ]]; then
      [[ ! ${RUBY_SHA256-} ]] || fail "RUBY_SHA256 is of a tarball, and RUBY_SRC=$RUBY_SRC is a folder; unset one of them."
      accept_source "$(cd "$RUBY_SRC" && pwd -P)" "$(cd "$RUBY_SRC" && pwd -P | digest8)"
    else
      source_from_tarball "$RUBY_SRC"
    fi
  else
    [[ ! ${RUBY_SHA256-} ]] || fail "RUBY_SHA256=$RUBY_SHA256 is of the tarball that RUBY_SRC names, and RUBY_SRC is not set."
    source_from_table
  fi
}
