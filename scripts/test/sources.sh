#!/usr/bin/env bash
# What scripts/ruby/pinned.sh and source.sh promise of sources: none is built from that is not
# the one that the table or the user says, or that was changed in the cache. With a table, a
# cache and tarballs of its own; nothing is fetched from elsewhere.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ASHLAR_CACHE=$work/cache
unset RUBY_SRC RUBY_SHA256 RUBYOPT
checks=0

# A clone with these scripts and another table.
clone=$work/clone
mkdir -p "$clone/scripts"
cp -r "$here/../ruby" "$clone/scripts/"

# make_tarball FILE VERSION TEXT: a source of Ruby as far as the scripts look.
make_tarball() {
  local tree=$work/ruby-$2 major minor teeny
  IFS=. read -r major minor teeny <<<"$2"
  rm -rf "$tree"
  mkdir -p "$tree/include/ruby"
  printf '#define RUBY_VERSION_TEENY %s\n' "$teeny" >"$tree/version.h"
  printf '#define RUBY_API_VERSION_MAJOR %s\n#define RUBY_API_VERSION_MINOR %s\n' "$major" "$minor" >"$tree/include/ruby/version.h"
  printf '%s\n' "$3" >"$tree/gc.c"
  ln -s gc.c "$tree/link.c"
  printf '#!/bin/sh\n' >"$tree/configure"
  chmod +x "$tree/configure"
  tar -C "$work" -czf "$1" "ruby-$2"
  rm -r "$tree"
}

sha256_of() { sha256sum <"$1" | cut -d' ' -f1; }

# find_source [contents]: what the scripts find, in `answer` and `status`.
find_source() {
  status=0
  # shellcheck disable=SC2016
  answer=$(bash -c 'set -euo pipefail; . "$1/scripts/ruby/rubies.sh"; find_source
    [[ $2 != contents ]] || check_source_contents; echo "found $SOURCE_ID $SOURCE"' - "$clone" "${1-}" 2>&1) || status=$?
}

not_so() {
  printf 'sources.sh: %s: not so. The scripts said (status %s):\n%s\n' "$1" "$status" "$answer" >&2
  exit 1
}

# finds CLAIM VERSION [contents]
finds() {
  find_source "${3-}"
  [[ $status == 0 && $answer == *"found ruby-$2-"* ]] || not_so "$1"
  checks=$((checks + 1))
}

# refuses CLAIM WORDS [contents]: one line that has the words, and nothing but it.
refuses() {
  find_source "${3-}"
  [[ $status == 2 && $answer == *"$2"* && $answer != *'found ruby'* ]] || not_so "$1"
  [[ $(grep -vc '^ashlar: fetching ' <<<"$answer") == 1 ]] || not_so "$1, in one line"
  checks=$((checks + 1))
}

again() { rm -rf "$ASHLAR_CACHE"; }

first=$work/ruby-3.4.5.tar.gz
make_tarball "$first" 3.4.5 'int collect;'
table() { printf 'ruby 3.4.5 %s file://%s\n' "$1" "$first" >"$clone/scripts/sources.txt"; }
table "$(sha256_of "$first")"
tree=$ASHLAR_CACHE/sources/tarball-$(sha256_of "$first" | cut -c1-8)
notes=$ASHLAR_CACHE/tarballs/${tree##*/}

finds 'what the table names is fetched' 3.4.5
mv "$first" "$first.away"
finds 'what is in the cache is not fetched again' 3.4.5 contents
rm -r "$tree"
finds 'a tree that was removed is unpacked again' 3.4.5
times=$(stat -c %Y "$tree/gc.c")

echo 'int collected;' >"$tree/gc.c"
refuses 'a changed file is noticed' 'gc.c is not as in its tarball'
echo 'int collect;' >"$tree/gc.c"
finds 'a file that was written again with what it had is the same' 3.4.5
echo 'int callect;' >"$tree/gc.c"
touch -d "@$times" "$tree/gc.c"
refuses 'a file that was changed in secret is noticed before it is compiled' 'gc.c is not as in its tarball' contents
rm -r "$tree"
finds 'a changed tree that was removed is unpacked again' 3.4.5 contents
rm "$tree/gc.c"
refuses 'a missing file is noticed' 'gc.c is not as in its tarball'
echo 'int collect;' >"$tree/gc.c"
echo '#error' >"$tree/include/ruby/ruby.h"
refuses 'a file too many is noticed' 'include/ruby/ruby.h is not as in its tarball'
rm "$tree/include/ruby/ruby.h"
ln -sf version.h "$tree/link.c"
refuses 'a link that leads elsewhere is noticed' 'link.c is not as in its tarball'
ln -sf gc.c "$tree/link.c"
finds 'all as it was' 3.4.5 contents

echo more >>"$notes.tarball"
refuses 'a changed tarball is noticed before something is built' 'is not what was fetched' contents
rm -r "$tree"
refuses 'nothing is unpacked from a changed tarball' 'is not what was fetched'
[[ ! -e $tree ]] || not_so 'nothing is unpacked'

mv "$first.away" "$first"
again
table "$(printf other | sha256sum | cut -d' ' -f1)"
refuses 'what is fetched and is another tarball is not used' 'as scripts/sources.txt says'
[[ ! $(find "$ASHLAR_CACHE/sources" "$ASHLAR_CACHE/tarballs" -type f) ]] || not_so 'nothing of it is in the cache'
table "$(sha256_of "$first")"

# A cache that was filled before tarballs and notes were kept.
again
finds 'fetched once more' 3.4.5
rm -r "$ASHLAR_CACHE/tarballs"
before=$(stat -c '%i %Y' "$tree/gc.c")
finds 'a tree without notes is kept if it is the same' 3.4.5
[[ $(stat -c '%i %Y' "$tree/gc.c") == "$before" ]] || not_so 'it is kept, not unpacked again'
rm -r "$ASHLAR_CACHE/tarballs"
echo 'int collected;' >"$tree/gc.c"
refuses 'a tree without notes that was changed is noticed' 'gc.c is not as in its tarball'

# What the user names.
again
export RUBY_SRC=$first
finds 'a tarball that the table has' 3.4.5
again
status=0
# shellcheck disable=SC2016
answer=$(bash -c 'set -euo pipefail; . "$1/scripts/ruby/rubies.sh"; tar() { fail "unpacked without xz"; }
  ensure_build_packages() { unset -f tar; }; find_source; echo "found $SOURCE_ID"' - "$clone" 2>&1) || status=$?
[[ $status == 0 && $answer == *'found ruby-3.4.5-'* ]] || not_so 'what unpacks a tarball is installed first'
checks=$((checks + 1))
other=$work/other.tar.gz
make_tarball "$other" 3.4.5 'int other;'
RUBY_SRC=$other
refuses 'another tarball of a version that the table has is refused' "is none of the tarballs of Ruby 3.4.5 that scripts/sources.txt has: its SHA-256 is $(sha256_of "$other")"
RUBY_SHA256=$(sha256_of "$other")
export RUBY_SHA256
finds 'it is taken from a user who says its SHA-256' 3.4.5
RUBY_SRC=$first
refuses 'another tarball than that is refused' "not RUBY_SHA256=$RUBY_SHA256"
newer=$work/ruby-3.4.99.tar.gz
make_tarball "$newer" 3.4.99 'int newer;'
RUBY_SRC=$newer
refuses 'a version that the table lacks is refused if its SHA-256 is not the one given' "not RUBY_SHA256=$RUBY_SHA256"
[[ ! -e $ASHLAR_CACHE/sources/tarball-$(sha256_of "$newer" | cut -c1-8) ]] || not_so 'it is not unpacked'
unset RUBY_SHA256
finds 'a version that the table lacks is taken' 3.4.99
[[ $answer == *"its SHA-256 is $(sha256_of "$newer")"* ]] || not_so 'its SHA-256 is said'
RUBY_SHA256=$(sha256_of "$newer" | tr a-f A-F)
export RUBY_SHA256
finds 'digits of the SHA-256 may be capital' 3.4.99
[[ $answer != *'not in scripts/sources.txt'* ]] || not_so 'nothing is said then'
printf 'ruby 3.4.99 %s file://%s\n' "${RUBY_SHA256,,}" "$newer" >"$clone/scripts/sources.txt"
unset RUBY_SHA256 RUBY_SRC
finds 'a line in the table makes it the version that is built' 3.4.99

# Places of a version are asked in turn, and other versions are never taken.
again
digest=$(sha256_of "$newer")
printf 'ruby 3.4.99 %s file:///nonexistent/a.tar.gz\nruby 3.4.99 %s file://%s\n' "$digest" "$digest" "$newer" >"$clone/scripts/sources.txt"
finds 'the second place is asked' 3.4.99
[[ $answer == *'file:///nonexistent/a.tar.gz cannot be had'* ]] || not_so 'it is said that the first has nothing'
again
printf 'ruby 3.4.99 %s file:///nonexistent/a.tar.gz\nruby 3.4.5 %s file://%s\n' "$digest" "$(sha256_of "$first")" "$first" >"$clone/scripts/sources.txt"
find_source
[[ $status == 2 && $answer == *'names has ruby 3.4.99; set RUBY_SRC to'* && $answer != *'found ruby'* ]] || not_so 'no older version is taken instead'
checks=$((checks + 1))

# RUBY_VERSION of make's command line.
again
four=$work/ruby-4.0.9.tar.gz
make_tarball "$four" 4.0.9 'int four;'
{
  printf 'ruby 3.4.5 %s file://%s\n' "$(sha256_of "$first")" "$first"
  printf 'ruby 4.0.9 %s file://%s\n' "$(sha256_of "$four")" "$four"
} >"$clone/scripts/sources.txt"
finds 'the first version is built' 3.4.5
export ASHLAR_RUBY_VERSION=4.0.9
finds 'or the one that is asked for' 4.0.9
ASHLAR_RUBY_VERSION=4.0
finds 'a series is enough' 4.0.9
ASHLAR_RUBY_VERSION=4
finds 'and its first number' 4.0.9
ASHLAR_RUBY_VERSION=4.0.90
refuses 'a version that the table lacks' 'RUBY_VERSION=4.0.90 is not in scripts/sources.txt, which has 3.4.5, 4.0.9'
ASHLAR_RUBY_VERSION=4.0.9 RUBY_SRC=$first
export RUBY_SRC
refuses 'a version and a source' 'give one of them'
unset ASHLAR_RUBY_VERSION RUBY_SRC

# A Ruby on the PATH that can load collectors, and whose source was kept.
mkdir -p "$work/installed" "$work/rbenv/sources/3.4.5"
tar -C "$work/rbenv/sources/3.4.5" -xzf "$first"
printf '#!/bin/sh\nprintf "%%s\\n" /its/collectors 3.4.5 /its/ruby /its/headers\n' >"$work/installed/ruby"
chmod +x "$work/installed/ruby"

# builds CLAIM WORDS: the first that is built where that Ruby is.
builds() {
  status=0
  # shellcheck disable=SC2016
  answer=$(PATH=$work/installed:$PATH RBENV_ROOT=$work/rbenv bash -c 'set -euo pipefail; . "$1/scripts/ruby/rubies.sh"
    build_ruby() { echo "builds $1 of $SOURCE_VERSION for ${RUBY-none}"; exit; }
    ensure_rubies' - "$clone" 2>&1) || status=$?
  [[ $answer == *"$2"* ]] || not_so "$1"
  checks=$((checks + 1))
}
builds 'it is taken, and the stock Ruby is built' 'builds stock of 3.4.5 for /its/ruby'
export ASHLAR_RUBY_VERSION=4.0
builds 'not where another version is asked for' 'builds modular of 4.0.9 for none'
ASHLAR_RUBY_VERSION=4.2
builds 'nor where the version is one that the table lacks' 'RUBY_VERSION=4.2 is not in scripts/sources.txt'
unset ASHLAR_RUBY_VERSION

# Paths with blanks are refused before anything is fetched.
cp -r "$clone" "$work/a clone"
status=0
# shellcheck disable=SC2016
answer=$(ASHLAR_CACHE=$work/empty bash -c 'set -euo pipefail; . "$1/scripts/ruby/rubies.sh"; ensure_rubies' - "$work/a clone" 2>&1) || status=$?
[[ $status == 2 && $answer == *"'$work/a clone' has a blank"* && $answer != *$'\n'* && ! -e $work/empty ]] || not_so 'a clone in a path with a blank'
checks=$((checks + 1))

# What ruby-build runs, as it runs it: packaging/ruby-build, with an installation that only says what it would install.
mkdir "$clone/packaging"
cp -r "$here/../../packaging/ruby-build" "$clone/packaging/"
cp "$here/../../Makefile" "$clone/"
cat >"$clone/scripts/ruby/install-inside.sh" <<'SAYS'
#!/usr/bin/env bash
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/rubies.sh"
find_source
echo "found $SOURCE_ID for $PREFIX, linked with '${LDFLAGS-}', compiled with '${CPPFLAGS-}'"
SAYS

# definition_installs CLAIM DEFINITION VERSION FLAGS: with flags of the user's, in front of which ruby-build puts its own.
definition_installs() {
  status=0
  # shellcheck disable=SC2016
  answer=$(LDFLAGS="-L/opt/its/lib $4" CPPFLAGS="-I/opt/its/include $4" PREFIX_PATH=/opt/its DEFINITION_PATH=$clone/packaging/ruby-build/$2 \
    bash -c 'set -E; trap "exit 1" ERR; source "$DEFINITION_PATH"' 2>&1) || status=$?
  [[ $status == 0 && $answer == *"found ruby-$3-"*" for /opt/its, linked with '${4:+ $4}', compiled with '${4:+ $4}'"* ]] || not_so "$1"
  checks=$((checks + 1))
}
definition_installs 'its definition for 3.4 takes the first version' 3.4-ashlar 3.4.5 ''
definition_installs 'its definition for 4.0 takes one of 4.0' 4.0-ashlar 4.0.9 ''
export RUBY_SRC=$four
definition_installs 'its definition for 4.0 takes a source of the user' 4.0-ashlar 4.0.9 ''
RUBY_SRC=$first
definition_installs 'its definition for 3.4, too; and flags of the user, without those that ruby-build adds' 3.4-ashlar 3.4.5 -Wextra
unset RUBY_SRC

# cargo_of CLAIM EXPECTED VERSION: the cargo that the makefile's parts find, where another one of that version is on the PATH.
cargo_of() {
  mkdir -p "$work/home/.cargo/bin" "$work/rust"
  printf '#!/bin/sh\necho "rustc 1.90.0 (here)"\n' | tee "$work/home/.cargo/bin/cargo" >"$work/home/.cargo/bin/rustc"
  printf '#!/bin/sh\necho "rustc %s (here)"\n' "$3" | tee "$work/rust/cargo" >"$work/rust/rustc"
  chmod +x "$work"/home/.cargo/bin/* "$work"/rust/*
  status=0
  # shellcheck disable=SC2016
  answer=$(HOME=$work/home PATH=$work/rust:$PATH make -C "$clone" --no-print-directory --eval 'which:; @command -v cargo' which 2>&1) || status=$?
  [[ $answer == "$work/$2" ]] || not_so "$1"
  checks=$((checks + 1))
}
cargo_of 'a cargo of the user is taken' rust/cargo 1.85.0
cargo_of 'but for one that is too old, where rustup has one' home/.cargo/bin/cargo 1.63.0

# What packages are made of, by an installation that installs nothing: settings stand behind the command.
cp "$here"/../../packaging/*.sh "$here/../../Cargo.toml" "$clone/packaging/"
mv "$clone/packaging/Cargo.toml" "$clone/"

# package_has CLAIM WORDS SETTING...
package_has() {
  status=0
  answer=$("$clone/packaging/tarball.sh" "${@:3}" 2>&1) || status=$?
  [[ $answer == *"$2"* ]] || not_so "$1"
  checks=$((checks + 1))
}
RUBY_VERSION=4.0.9 package_has "RUBY_VERSION in the environment is a version manager's" 'found ruby-3.4.5-'
package_has 'behind the command it says what is packed' 'found ruby-4.0.9-' RUBY_VERSION=4.0
package_has 'and a source does, too' 'found ruby-4.0.9-' "RUBY_SRC=$four"
# Without dpkg-dev.
mkdir "$work/programs"
for folder in /bin /usr/bin; do ln -sf "$folder"/* "$work/programs/"; done
rm -f "$work/programs/dpkg-shlibdeps"
printf '#!/bin/sh\n' >"$work/dpkg-deb"
chmod +x "$work/dpkg-deb"
ln -sf "$work/dpkg-deb" "$work/programs/dpkg-deb"
status=0
answer=$(PATH=$work/programs "$clone/packaging/debian-package.sh" 2>&1) || status=$?
[[ $status == 2 && $answer == *'apt-get install dpkg-dev'* && $answer != *'found ruby'* ]] || not_so 'a Debian package without dpkg-shlibdeps is refused before anything is built'
checks=$((checks + 1))
package_has 'a setting that is none is refused' "'STRIP=no' is no setting" STRIP=no

# Who builds from a folder, or builds nothing, has taken no lock.
status=0
bash -c 'set -euo pipefail; . "$1/scripts/ruby/rubies.sh"; release_lock' _ "$clone" || status=$?
((status == 0)) || not_so 'there may be no lock to release'
checks=$((checks + 1))

mkdir "$work/folder"
export RUBY_SRC=$work/folder RUBY_SHA256=0
refuses 'a folder has no SHA-256' 'is a folder'
unset RUBY_SRC
refuses 'a SHA-256 of nothing' 'RUBY_SRC is not set'
echo "$checks checks passed"
