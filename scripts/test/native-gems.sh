#!/usr/bin/env bash
# Compiles gems written in C with the Ruby with Ashlar inside, and runs their own tests on it
# and on stock Ruby. What fails on stock too is listed and not counted.
#   scripts/test/native-gems.sh                  all of them
#   scripts/test/native-gems.sh bcrypt ffi       these
# Their sources are Ruby's own and those that scripts/sources.txt names, Debian's; so it needs Debian.
# A checkout of Ruby's repository lacks the gems that a release bundles. BUNDLED_GEMS names a folder with those that
# are needed (bigdecimal, fiddle, minitest, racc), each in a folder such as racc-1.8.1. They are compiled for each Ruby.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/rubies.sh
. "$here/../ruby/rubies.sh"
# shellcheck source=scripts/ruby/inside.sh
. "$here/../ruby/inside.sh"
# shellcheck source=scripts/ruby/bundled-gems.sh
. "$here/../ruby/bundled-gems.sh"

all=(bigdecimal strscan sqlite3 nokogiri bcrypt ffi)
HELPER_SUITE=trixie
# What the gems' extconf.rb and tests want of other gems, as Debian packages it.
HELPERS=(ruby-mini-portile2 ruby-rspec ruby-rspec-core ruby-rspec-expectations ruby-rspec-mocks ruby-rspec-support ruby-diff-lcs)
NATIVE_PACKAGES=(libsqlite3-dev libxml2-dev libxslt1-dev libffi-dev libcrypt-dev pkg-config g++)

is_debian || fail 'this needs Debian, whose source packages have the gems and their tests.'
wanted=("${@:-${all[@]}}")
for gem in "${wanted[@]}"; do
  [[ " ${all[*]} " == *" $gem "* ]] || fail "there is no gem '$gem' here; there are: ${all[*]}"
done
ensure_packages 'compiling the gems' "${NATIVE_PACKAGES[@]}"
ensure_inside
release_lock
build_ruby stock
RUBY_STOCK=$(ruby_folder stock)/prefix/bin/ruby
APT_STATE=$CACHE/apt
sources=$CACHE/native-gems
work=$CLONE/build/native-gems
# shellcheck disable=SC2034 # bundled-gems.sh
RUBY_SOURCE=$SOURCE
mkdir -p "$sources" "$work"

# The helpers, unpacked and not installed: sets `rspec`, options for a Ruby, and GEM_PATH.
find_helpers() {
  local package folder=$sources/helpers
  if [[ ! -e $folder/finished ]]; then
    mkdir -p "$folder/packages"
    (cd "$folder/packages" && prepare_suite "$HELPER_SUITE" "$(any_mirror)" deb &&
      private_apt "$HELPER_SUITE" apt-get download "${HELPERS[@]}") >>"$work/log" 2>&1 ||
      fail "Debian's packages ${HELPERS[*]} could not be downloaded; see $work/log."
    for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder"; done
    touch "$folder/finished"
  fi
  export GEM_PATH=$folder/usr/share/rubygems-integration/all
  rspec=(-I "$folder/usr/lib/ruby/vendor_ruby" -e 'require "rspec/autorun"')
  local library
  for library in "$GEM_PATH"/gems/*/lib; do
    [[ ! -d $library ]] || rspec=(-I "$library" "${rspec[@]}")
  done
}

# missing_for GEM: a gem that Ruby bundles, that this one's tests need, and that is not there; or nothing.
missing_for() {
  local needed=() name
  case $1 in
    bigdecimal) needed=(bigdecimal) ;;
    sqlite3) needed=(minitest) ;;
    nokogiri) needed=(minitest racc) ;;
    ffi)
      needed=(bigdecimal)
      # A default gem of 3.4, whose source has it.
      [[ -d $SOURCE/ext/fiddle ]] || needed+=(fiddle)
      ;;
  esac
  for name in "${needed[@]}"; do
    [[ $(bundled_gem "$name") ]] || { echo "$name" && return; }
  done
}

# use_bundled_gems KIND RUBY: puts those of BUNDLED_GEMS into RUBYLIB, compiled.
use_bundled_gems() {
  local ruby=$2 folder=$work/bundled-$1 gem extension
  if [[ ! -e $folder/finished ]]; then
    rm -rf "$folder"
    mkdir -p "$folder/lib"
    for gem in "$BUNDLED_GEMS"/*/; do
      cp -r "$gem" "$folder"
      gem=$folder/$(basename "$gem")
      cp -r "$gem/lib/." "$folder/lib"
      while read -r extension; do
        (cd "$(dirname "$extension")" && "$ruby" extconf.rb && make "-j$(nproc)" &&
          make install "sitearchdir=$folder/lib" "sitelibdir=$folder/lib") >>"$folder/log" 2>&1 </dev/null ||
          fail "$extension could not be compiled; see $folder/log."
      done < <(find "$gem" -name extconf.rb -not -path '*/ext/-test-/*')
    done
    touch "$folder/finished"
  fi
  export RUBYLIB=$folder/lib
}

# unpack_gem GEM FOLDER: a fresh copy of its source.
unpack_gem() {
  local gem=$1 folder=$2
  rm -rf "$folder"
  mkdir -p "$folder"
  case $gem in
    bigdecimal) cp -r "$(bundled_gem bigdecimal)/." "$folder" ;;
    strscan) cp -r "$SOURCE/ext/strscan" "$folder/ext" ;;
    *)
      pinned_tarball "ruby-$gem"
      tar -xf "$TARBALL" -C "$folder" --strip-components=1 --no-same-owner
      ;;
  esac
  mkdir -p "$folder/lib"
}

# compile_gem RUBY GEM: in the current folder, its extension into lib.
compile_gem() {
  local ruby=$1 extension options=()
  case $2 in
    bigdecimal) extension=ext/bigdecimal ;;
    strscan) extension=ext ;;
    sqlite3) extension=ext/sqlite3 options=(--enable-system-libraries) ;;
    nokogiri) extension=ext/nokogiri options=(--use-system-libraries) ;;
    bcrypt) extension=ext/mri ;;
    ffi) extension=ext/ffi_c options=(--enable-system-libffi) ;;
  esac
  (cd "$extension" && "$ruby" extconf.rb "${options[@]}" && make "-j$(nproc)" &&
    make install "sitearchdir=$PWD_GEM/lib" "sitelibdir=$PWD_GEM/lib")
}

# test_gem RUBY GEM: its own tests, in the current folder.
test_gem() {
  local ruby=$1
  case $2 in
    bigdecimal)
      "$ruby" -Ilib -rrbconfig "$SOURCE/spec/mspec/bin/mspec-run" -B "$SOURCE/spec/ruby/default.mspec" \
        "$SOURCE/spec/ruby/library/bigdecimal"
      ;;
    strscan) "$ruby" -Ilib "$SOURCE/test/runner.rb" --ruby="$ruby -I$PWD/lib" -q --tty=no "$SOURCE/test/strscan" ;;
    sqlite3 | nokogiri)
      "$ruby" -Ilib -Itest -I. -e 'require "minitest/autorun"
        Dir["test/**/test_*.rb"].sort.each { |file| require File.expand_path(file) }' -- --seed 1
      ;;
    bcrypt) "$ruby" -Ilib "${rspec[@]}" -- --seed 1 spec ;;
    ffi) "$ruby" -Ilib "${rspec[@]}" -- --seed 1 spec/ffi ;;
  esac
}

# What a log says failed, a line each, without addresses and times.
failures_in() {
  grep -E '^(Minitest::|[A-Za-z:]+#test_|  [0-9]+\) (Failure|Error)|rspec \./|[0-9]+\)$|.* (FAILED|ERROR)$)' "$1" |
    sed -E 's/^ *[0-9]+\) *//; s/0x[0-9a-f]+//g; s/ \[.*//' | sort -u
}

# How many tests a log says were run. Nothing if none was, or if a file of tests could not be loaded.
summary_of() { grep -E '^[1-9][0-9]* (runs|examples?|tests|files)[ ,]' "$1" | tail -n 1 | grep -v 'outside of examples'; }

# try_gem GEM KIND RUBY: compiles and tests; the log is GEM-KIND.log. 1: it does not compile.
try_gem() {
  local gem=$1 kind=$2 ruby=$3
  PWD_GEM=$work/$gem-$kind
  unpack_gem "$gem" "$PWD_GEM"
  cd "$PWD_GEM" || return
  [[ ! ${BUNDLED_GEMS-} ]] || use_bundled_gems "$kind" "$ruby"
  compile_gem "$ruby" "$gem" >"$work/$gem-$kind-compile.log" 2>&1 || return 1
  test_gem "$ruby" "$gem" >"$work/$gem-$kind.log" 2>&1 </dev/null || true
}

unset RUBY_GC_LIBRARY RUBYOPT RUBYLIB GEM_HOME GEM_PATH LD_PRELOAD
find_helpers
rm -rf "$work"/bundled-*
passed=0 failed=0 skipped=0
for gem in "${wanted[@]}"; do
  absent=$(missing_for "$gem")
  if [[ $absent ]]; then
    skipped=$((skipped + 1))
    echo "skipped $gem: $(bundled_gems_folder) has no $absent; BUNDLED_GEMS may name another folder"
    continue
  fi
  say "$gem: compiling it and running its tests"
  if ! (try_gem "$gem" inside "$RUBY_INSIDE"); then
    failed=$((failed + 1))
    echo "FAILED $gem does not compile: $work/$gem-inside-compile.log"
    continue
  fi
  summary=$(summary_of "$work/$gem-inside.log" || true)
  only_inside=$(failures_in "$work/$gem-inside.log" || true)
  if [[ $only_inside || ! $summary ]]; then
    (try_gem "$gem" stock "$RUBY_STOCK") || true
    only_inside=$(comm -23 <(echo "$only_inside") <(failures_in "$work/$gem-stock.log" || true))
  fi
  if [[ ! $summary || $only_inside ]]; then
    failed=$((failed + 1))
    echo "FAILED $gem: ${summary:-no summary}; see $work/$gem-inside.log"
    [[ ! $only_inside ]] || printf '%s\n' "$only_inside"
  else
    passed=$((passed + 1))
    echo "$gem: $summary"
  fi
done
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
