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
#   BUNDLED_GEMS   a folder with the gems that a release of Ruby bundles, for a source without them
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/rubies.sh
. "$here/../ruby/rubies.sh"
# shellcheck source=scripts/bench/bundle.sh
. "$here/bundle.sh"
# shellcheck source=scripts/bench/debian-gems.sh
. "$here/debian-gems.sh"

# Raise when what is below makes something else.
RAILS_RECIPE=1
WANTED_PACKAGES=(ruby-railties ruby-activerecord ruby-actionmailer ruby-activejob
  ruby-activestorage ruby-kramdown ruby-rouge ruby-webrick ruby-rackup)
# Dependencies that Ruby 3.4 has itself, and packages with parts compiled for Debian's Ruby.
UNWANTED_PACKAGES='^ruby-(rubygems|did-you-mean|ruby2-keywords|net-telnet|xmlrpc|pkg-config|nokogiri|sqlite3|csv)$'
GEMS_OF_RUBY=(bigdecimal drb net-imap net-pop net-smtp racc)
# Parts of Ruby 3.4 that are gems in 4.0.
GEMS_OF_RUBY_4=(benchmark irb logger ostruct pstore rdoc reline rexml)

rails_from_debian() {
  local native
  is_debian || fail 'RAILS_FROM=debian needs Debian; set RAILS_FROM=rubygems to use the Gemfile.'
  folder=$CACHE/applications/rails-debian-$SOURCE_ID-r$RAILS_RECIPE
  gems=$folder/gems
  [[ $SOURCE_VERSION == 3.* ]] || GEMS_OF_RUBY+=("${GEMS_OF_RUBY_4[@]}")
  [[ -e $folder/finished ]] || (
    ensure_build_packages
    ensure_packages 'the Rails application' "${NATIVE_PACKAGES[@]}"
    [[ $(any_mirror) ]] || fail 'no Debian mirror is configured for apt on this system;' \
      'set RAILS_FROM=rubygems to use the Gemfile.'
    hold_lock rails-debian
    [[ ! -e $folder/finished ]] || exit 0
    begin_folder
    step 'Rails: packages' 60 download_closure "$UNWANTED_PACKAGES" "${WANTED_PACKAGES[@]}"
    step 'Rails: unpack' 5 unpack_packages
    step 'Rails: gems of Ruby' 5 bundled_gems "${GEMS_OF_RUBY[@]}"
    for native in sqlite3 nokogiri; do
      step "Rails: source of $native" 5 unpack_source "ruby-$native" "$native"
    done
    step 'Rails: bigdecimal' 20 compile_native "$(gem_folder bigdecimal)" bigdecimal
    step 'Rails: racc' 10 compile_native "$(gem_folder racc)" racc/cparse
    step 'Rails: sqlite3' 30 compile_native "$(gem_folder sqlite3)" sqlite3 --enable-system-libraries
    step 'Rails: nokogiri' 70 compile_native "$(gem_folder nokogiri)" nokogiri --use-system-libraries
    finish_folder
  ) || exit
  RAILS_GEM_PATH=$gems RAILS_RUBYLIB=$folder/lib RAILS_GEMFILE='' RAILS_SERVER=webrick
}

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
    bundle_install "$RUBY_STOCK" "$folder/Gemfile" "$folder/gems" 'Rails: bundle install' ||
      fail "RubyGems could not give what ${application#"$CLONE"/}/Gemfile names (the log is $folder/gems.log)." \
        'On Debian, RAILS_FROM=debian takes the packages of Debian instead.'
    touch "$folder/finished"
  ) || exit
  RAILS_GEM_PATH=$(echo "$folder"/gems/ruby/*) RAILS_RUBYLIB='' RAILS_GEMFILE=$folder/Gemfile RAILS_SERVER=puma
}

ensure_stock
from=${RAILS_FROM-}
[[ $from ]] || { is_debian && from=debian || from=rubygems; }
case $from in
  debian | rubygems) "rails_from_$from" ;;
  *) fail "RAILS_FROM='$from' is neither debian nor rubygems." ;;
esac
for name in RAILS_GEM_PATH RAILS_RUBYLIB RAILS_GEMFILE RAILS_SERVER; do
  printf 'export %s=%q\n' "$name" "${!name}"
done
