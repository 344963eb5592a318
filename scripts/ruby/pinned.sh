# shellcheck shell=bash
# Sources that scripts/sources.txt names: fetched, compared with the SHA-256 there, unpacked
# into the cache, and compared again before something is built from them. Needs paths.sh,
# messages.sh, packages.sh and debian-source.sh.
#
# Beside an unpacked tree, in TARBALLS under its name: `.tarball`, what was fetched; `.contents`,
# the SHA-256 of the tarball and then of each of its files; `.seen`, the sizes and times of the
# tree's files when they were last compared with that.

PINS=$CLONE/scripts/sources.txt
TARBALLS=$CACHE/tarballs
SOURCE_LOG=$CACHE/source.log

# pinned_rows NAME: its lines of the table, as VERSION SHA-256 PLACE.
pinned_rows() { awk -v name="$1" '$1 == name {print $2, $3, $4}' "$PINS"; }

# wanted_rows NAME: those of the version that is built, the first one of the table; of Ruby, the
# first that RUBY_VERSION of make's command line names, a version or a series such as 4.0.
wanted_rows() {
  local asked=
  [[ $1 != ruby ]] || asked=${ASHLAR_RUBY_VERSION-}
  pinned_rows "$1" | awk -v asked="$asked" '
    !wanted && (!asked || $1 == asked || index($1, asked ".") == 1) {wanted = $1}
    $1 == wanted'
}

# check_asked_version: fails with one line if RUBY_VERSION names what the table does not have.
check_asked_version() {
  [[ ! $(wanted_rows ruby) ]] || return 0
  local versions
  versions=$(pinned_rows ruby | awk '!seen[$1]++ {printf "%s%s", sep, $1; sep = ", "}')
  fail "RUBY_VERSION=$ASHLAR_RUBY_VERSION is not in scripts/sources.txt, which has $versions. Put a line for it there, or set RUBY_SRC to its source."
}

sha256_of() { sha256sum <"$1" | cut -d' ' -f1; }

# folder_of NAME VERSION SHA256 PLACE: where a line's tree is in the cache.
folder_of() {
  case $1:$4 in
    ruby:debian:*) echo "$SOURCES/debian-$2" ;;
    ruby:*) echo "$SOURCES/tarball-${3:0:8}" ;;
    *) echo "$SOURCES/$1-$2" ;;
  esac
}

# fetch_row SHA256 PLACE FILE: false when the place does not have it. What comes is compared
# before anything else is done with it.
fetch_row() {
  local sha256=$1 place=$2 file=$3 folder=$3.download found
  local APT_STATE=$CACHE/apt
  [[ $place != http* ]] || ensure_fetcher
  rm -rf "$folder"
  mkdir -p "$folder"
  case $place in
    debian:*) (cd "$folder" && fetch_debian_source "${place#debian:}") ;;
    *) fetch_address "$place" "$folder/${place##*/}" ;;
  esac </dev/null >>"$SOURCE_LOG" 2>&1 || {
    rm -rf "$folder"
    return 1
  }
  found=$(find "$folder" -type f -name '*.tar.*' ! -name '*.asc' ! -name '*.debian.tar.*' | head -n 1)
  [[ $found ]] || return 1
  if [[ $(sha256_of "$found") != "$sha256" ]]; then
    found="the SHA-256 of ${found##*/} from $place is $(sha256_of "$found"), not $sha256 as scripts/sources.txt says; it was not used."
    rm -rf "$folder"
    fail "$found"
  fi
  mv "$found" "$file" && rm -rf "$folder"
}

fetch_address() {
  if [[ $1 == file://* ]]; then
    cp "${1#file://}" "$2"
  elif command -v curl >/dev/null; then
    curl -fsSL --retry 2 -o "$2" "$1"
  else
    wget -q -O "$2" "$1"
  fi
}

# ensure_fetcher: curl or wget; `command` is content with one.
ensure_fetcher() {
  ! command -v curl wget >/dev/null || return 0
  is_debian || fail "fetching sources takes curl or wget; install one of them."
  ensure_packages 'fetching sources' curl ca-certificates
}

# can_ask PLACE
can_ask() { [[ $1 != debian:* ]] || { is_debian && [[ $(any_mirror) ]]; }; }

# unpack TARBALL FOLDER: all or nothing, as files of the user who unpacks.
unpack() {
  local partial=$2.partial.$$
  rm -rf "$2" "$partial"
  mkdir -p "$partial"
  if ! tar -xf "$1" -C "$partial" --strip-components=1 --no-same-owner; then
    rm -rf "$partial"
    fail "$1 cannot be unpacked."
  fi
  mv "$partial" "$2"
}

# files_of TREE: sizes, times and kinds of its files and links.
files_of() { find "$1" -mindepth 1 ! -type d -printf '%P\t%y\t%s\t%T@\t%l\n' | LC_ALL=C sort; }

# contents_of TREE: the SHA-256 of each of its files, and where its links lead.
contents_of() {
  (cd "$1" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum -- &&
    find . -mindepth 1 ! -type d ! -type f -printf '%y %l  %p\n' | LC_ALL=C sort)
}

# seal FOLDER SHA256 FRESH: writes down what the tarball of that SHA-256 has, which was just
# unpacked in FRESH.
seal() {
  local notes=$TARBALLS/${1##*/}
  if ! { { echo "$2  tarball" && contents_of "$3"; } >"$notes.contents.new" && mv "$notes.contents.new" "$notes.contents"; }; then
    fail "$notes.contents cannot be written."
  fi
}

# check_files FOLDER SHA256: fails with one line if the tree in the cache is not as it was
# unpacked from the tarball of that SHA-256. By sizes and times; where those differ, or with
# a third argument, by contents.
check_files() {
  local folder=$1 notes=$TARBALLS/${1##*/} from differs
  read -r from _ <"$notes.contents"
  [[ $from == "$2" ]] ||
    fail "$folder was unpacked from a tarball with the SHA-256 $from, not $2; remove the folder and $notes.* to have it made anew."
  [[ $# == 2 && -e $notes.seen ]] && files_of "$folder" | cmp -s - "$notes.seen" && return
  if [[ $# != 2 && -e $notes.tarball && $(sha256_of "$notes.tarball") != "$2" ]]; then
    fail "$notes.tarball is not what was fetched: its SHA-256 is $(sha256_of "$notes.tarball"), not $2; remove it."
  fi
  files_of "$folder" >"$notes.seen.$BASHPID"
  differs=$(diff <(tail -n +2 "$notes.contents") <(contents_of "$folder") | sed -n 's/^[<>] .*  \.\///p' | LC_ALL=C sort -u | head -n 1) || true
  if [[ $differs ]]; then
    rm "$notes.seen.$BASHPID"
    fail "$folder/$differs is not as in its tarball; remove $folder to have it unpacked again (what was built from it is in $RUBIES)."
  fi
  mv "$notes.seen.$BASHPID" "$notes.seen"
}

# make_tree FOLDER SHA256 TARBALL: FOLDER as it is in a tarball that was compared. A folder
# that is there without notes was unpacked before they were taken: it is kept if it is the same.
make_tree() {
  local folder=$1 fresh=$1.partial.fresh.$$
  unpack "$3" "$fresh"
  seal "$folder" "$2" "$fresh"
  if [[ -d $folder ]]; then rm -rf "$fresh"; else mv "$fresh" "$folder"; fi
}

# pinned_tree NAME OTHERWISE: sets TREE, the unpacked source of the version that is built, and
# TREE_SHA256. Fetches it if it is not in the cache; OTHERWISE is what a user can do where that
# is not possible.
pinned_tree() {
  local name=$1 otherwise=$2 version sha256 place notes
  mkdir -p "$SOURCES" "$TARBALLS"
  while read -r version sha256 place; do
    TREE=$(folder_of "$name" "$version" "$sha256" "$place") TREE_SHA256=$sha256
    notes=$TARBALLS/${TREE##*/}
    if [[ -e $notes.contents && (-d $TREE || -e $notes.tarball) ]]; then
      [[ -d $TREE ]] || unpack_again "$notes"
      check_files "$TREE" "$sha256"
      return
    fi
  done < <(wanted_rows "$name")
  fetch_tree "$name"
  [[ $TREE ]] || fail "no place that scripts/sources.txt names has $name $(wanted_rows "$name" | awk 'NR == 1 {print $1}'); $otherwise."
  check_files "$TREE" "$TREE_SHA256"
}

# unpack_again NOTES: the folder was removed, and the tarball was kept.
unpack_again() {
  [[ $(sha256_of "$1.tarball") == "$TREE_SHA256" ]] ||
    fail "$1.tarball is not what was fetched: its SHA-256 is $(sha256_of "$1.tarball"), not $TREE_SHA256; remove it."
  unpack "$1.tarball" "$TREE"
}

# fetch_tree NAME: from the first place that has it; TREE is empty if none has.
fetch_tree() {
  local version sha256 place notes
  ensure_build_packages
  while read -r version sha256 place; do
    can_ask "$place" || continue
    TREE=$(folder_of "$1" "$version" "$sha256" "$place") TREE_SHA256=$sha256
    notes=$TARBALLS/${TREE##*/}
    say "fetching $1 $version from $place"
    if fetch_row "$sha256" "$place" "$notes.tarball"; then
      make_tree "$TREE" "$sha256" "$notes.tarball"
      return
    fi
    say "$place cannot be had"
  done < <(wanted_rows "$1")
  [[ ! -e $SOURCE_LOG ]] || tail -n 15 "$SOURCE_LOG" >&2
  TREE=''
}

# pinned_tarball NAME: sets TARBALL and TARBALL_VERSION, what the first line that can be had
# names. What is in the cache is compared again.
pinned_tarball() {
  local version sha256 place
  mkdir -p "$TARBALLS"
  while read -r version sha256 place; do
    TARBALL=$TARBALLS/$1-$version.tarball TARBALL_VERSION=$version
    [[ -e $TARBALL ]] || continue
    [[ $(sha256_of "$TARBALL") == "$sha256" ]] ||
      fail "$TARBALL is not what was fetched: its SHA-256 is $(sha256_of "$TARBALL"), not $sha256; remove it."
    return 0
  done < <(pinned_rows "$1")
  while read -r version sha256 place; do
    TARBALL=$TARBALLS/$1-$version.tarball TARBALL_VERSION=$version
    if can_ask "$place" && fetch_row "$sha256" "$place" "$TARBALL"; then return 0; fi
  done < <(pinned_rows "$1")
  fail "no place that scripts/sources.txt names has $1; see $SOURCE_LOG."
}
