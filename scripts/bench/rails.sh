#!/usr/bin/env bash
# Gets Rails and what workloads/applications/tracker needs beside it into the cache, for the
# Ruby under test, and prints shell exports:
#   eval "$(scripts/bench/rails.sh)"
# RAILS_GEM_PATH   for GEM_PATH: where the gems are
# RAILS_RUBYLIB    for RUBYLIB: files that Debian keeps outside gems; may be empty
# RAILS_GEMFILE    for BUNDLE_GEMFILE: set when the gems are RubyGems', else empty
# RAILS_SERVER     puma where it is among the gems, else webrick
# Environment:
#   RAILS_FROM     debian (the packages of Debian trixie, unpacked and not installed) or
#                  rubygems (the application's Gemfile); debian on Debian, rubygems elsewhere
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/rubies.sh
. "$here/../ruby/rubies.sh"
# shellcheck source=scripts/bench/bundle.sh
. "$here/bundle.sh"

# Raise when what is below makes something else.
RAILS_RECIPE=1
RAILS_SUITE=trixie
WANTED_PACKAGES=(ruby-railties ruby-activerecord ruby-actionmailer ruby-activejob
  ruby-activestorage ruby-kramdown ruby-rouge ruby-webrick ruby-rackup)
# Dependencies that Ruby 3.4 has itself, and packages with parts compiled for Debian's Ruby.
UNWANTED_PACKAGES='^ruby-(rubygems|did-you-mean|ruby2-keywords|net-telnet|xmlrpc|pkg-config|nokogiri|sqlite3|csv)$'
# Gems that come with Ruby's source; the Rubies under test are built without them.
BUNDLED_GEMS=(bigdecimal drb net-imap net-pop net-smtp racc)
NATIVE_PACKAGES=(libsqlite3-dev libxml2-dev libxslt1-dev pkg-config)

# gem_specification NAME VERSION: the least that RubyGems needs to find a gem.
gem_specification() {
  mkdir -p "$gems/specifications"
  cat >"$gems/specifications/$1-$2.gemspec" <<SPECIFICATION
Gem::Specification.new do |gem|
  gem.name = "$1"
  gem.version = "$2"
  gem.require_paths = ["lib"]
  gem.summary = "$1"
  gem.authors = ["see the package"]
end
SPECIFICATION
}

# compile_native GEM EXTENSION OPTION...: its extension's library into its lib folder.
compile_native() {
  local folder=$gems/gems/$1 extension=$2
  shift 2
  cd "$folder/ext/$extension"
  GEM_HOME=$gems GEM_PATH=$gems "$RUBY" extconf.rb "$@"
  make "-j$(nproc)"
  make install "sitearchdir=$folder/lib" "sitelibdir=$folder/lib"
}

download_packages() {
  local mirror names
  mirror=$(any_mirror)
  prepare_suite "$RAILS_SUITE" "$mirror" deb
  names=$(private_apt "$RAILS_SUITE" apt-cache depends --recurse --no-recommends --no-suggests \
    --no-conflicts --no-breaks --no-replaces --no-enhances "${WANTED_PACKAGES[@]}" |
    grep -E '^(ruby-|rake$)' | grep -vE "$UNWANTED_PACKAGES" | sort -u)
  cd "$folder/packages"
  # shellcheck disable=SC2086
  private_apt "$RAILS_SUITE" apt-get download $names
}

# unpack_source PACKAGE GEM: the gem's folder from the tarball that scripts/sources.txt names.
unpack_source() {
  pinned_tarball "$1"
  mkdir -p "$gems/gems/$2-$TARBALL_VERSION"
  tar -xf "$TARBALL" -C "$gems/gems/$2-$TARBALL_VERSION" --strip-components=1 --no-same-owner
  gem_specification "$2" "$TARBALL_VERSION"
}

bundled_gems() {
  local name found
  for name in "${BUNDLED_GEMS[@]}"; do
    found=$(find "$RUBY_SOURCE/.bundle/gems" -maxdepth 1 -name "$name-[0-9]*" | head -n 1)
    [[ $found ]] || {
      echo "Ruby's source has no $name under .bundle/gems" >&2
      return 1
    }
    cp -r "$found" "$gems/gems/"
    gem_specification "$name" "${found##*-}"
  done
}

# step LABEL LINES FUNCTION...: the function in a shell of its own, its output in the log.
step() {
  local label=$1 lines=$2
  shift 2
  run_logged "$label" "$lines" "$folder.log" bash -c "set -euo pipefail; $(declare -p "${lists[@]}")
    \"\$@\"" step "$@"
}
lists=(WANTED_PACKAGES BUNDLED_GEMS)

unpack_packages() {
  local package
  for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder/tree"; done
  mkdir -p "$gems"
  cp -r "$folder/tree/usr/share/rubygems-integration/all/." "$gems"
  cp -r "$folder/tree/usr/lib/ruby/vendor_ruby" "$folder/lib"
}

rails_from_debian() {
  local native
  is_debian || fail 'RAILS_FROM=debian needs Debian; set RAILS_FROM=rubygems to use the Gemfile.'
  folder=$CACHE/applications/rails-debian-$SOURCE_ID-r$RAILS_RECIPE
  gems=$folder/gems
  [[ -e $folder/finished ]] || (
    ensure_build_packages
    ensure_packages 'the Rails application' "${NATIVE_PACKAGES[@]}"
    [[ $(any_mirror) ]] || fail 'no Debian mirror is configured for apt on this system;' \
      'set RAILS_FROM=rubygems to use the Gemfile.'
    hold_lock rails-debian
    [[ ! -e $folder/finished ]] || exit 0
    rm -rf "$folder"
    mkdir -p "$folder/packages" "$gems"
    : >"$folder.log"
    APT_STATE=$CACHE/apt
    export CACHE PINS TARBALLS SOURCE_LOG APT_STATE RAILS_SUITE UNWANTED_PACKAGES folder gems RUBY RUBY_SOURCE
    # shellcheck disable=SC2046
    export -f $(compgen -A function)
    step 'Rails: packages' 60 download_packages
    step 'Rails: unpack' 5 unpack_packages
    step 'Rails: gems of Ruby' 5 bundled_gems
    for native in sqlite3 nokogiri; do
      step "Rails: source of $native" 5 unpack_source "ruby-$native" "$native"
    done
    step 'Rails: bigdecimal' 20 compile_native "$(gem_folder bigdecimal)" bigdecimal
    step 'Rails: racc' 10 compile_native "$(gem_folder racc)" racc/cparse
    step 'Rails: sqlite3' 30 compile_native "$(gem_folder sqlite3)" sqlite3 --enable-system-libraries
    step 'Rails: nokogiri' 70 compile_native "$(gem_folder nokogiri)" nokogiri --use-system-libraries
    rm -rf "$folder/packages" "$folder/tree"
    touch "$folder/finished"
  ) || exit
  RAILS_GEM_PATH=$gems RAILS_RUBYLIB=$folder/lib RAILS_GEMFILE='' RAILS_SERVER=webrick
}

gem_folder() { basename "$(find "$gems/gems" -maxdepth 1 -name "$1-[0-9]*" | head -n 1)"; }

rails_from_rubygems() {
  local application=$CLONE/workloads/applications/tracker identity
  identity=$(cat "$application/Gemfile" <(echo "$SOURCE_ID") | digest8)
  folder=$CACHE/applications/rails-rubygems-$identity-r$RAILS_RECIPE
  [[ -e $folder/finished ]] || (
    hold_lock rails-rubygems
    [[ ! -e $folder/finished ]] || exit 0
    rm -rf "$folder"
    mkdir -p "$folder"
    cp "$application/Gemfile" "$folder/"
    bundle_install "$RUBY" "$folder/Gemfile" "$folder/gems" 'Rails: bundle install' ||
      fail "RubyGems could not give what ${application#"$CLONE"/}/Gemfile names (the log is $folder/gems.log)." \
        'On Debian, RAILS_FROM=debian takes the packages of Debian instead.'
    touch "$folder/finished"
  ) || exit
  RAILS_GEM_PATH=$(echo "$folder"/gems/ruby/*) RAILS_RUBYLIB='' RAILS_GEMFILE=$folder/Gemfile RAILS_SERVER=puma
}

ensure_rubies
from=${RAILS_FROM-}
[[ $from ]] || { is_debian && from=debian || from=rubygems; }
case $from in
  debian | rubygems) "rails_from_$from" ;;
  *) fail "RAILS_FROM='$from' is neither debian nor rubygems." ;;
esac
for name in RAILS_GEM_PATH RAILS_RUBYLIB RAILS_GEMFILE RAILS_SERVER; do
  printf 'export %s=%q\n' "$name" "${!name}"
done
