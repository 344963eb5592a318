# shellcheck shell=bash
# Gems from the packages of a newer Debian, unpacked into a folder of the cache and not installed; their C extensions are
# compiled for the Ruby under test. Sourced after rubies.sh; what it does uses
#   folder     what is made; its log is beside it
#   gems       the folder in it for GEM_PATH
# `step` runs the other functions.

# shellcheck source=scripts/ruby/bundled-gems.sh
. "$(dirname "${BASH_SOURCE[0]}")/../ruby/bundled-gems.sh"

SUITE=trixie
NATIVE_PACKAGES=(libsqlite3-dev libxml2-dev libxslt1-dev pkg-config)

# begin_folder: with the lock held, an empty folder, and what is needed to fill it.
begin_folder() {
  rm -rf "$folder"
  mkdir -p "$folder/packages" "$gems"
  : >"$folder.log"
  APT_STATE=$CACHE/apt
  export CACHE PINS TARBALLS SOURCE_LOG APT_STATE SUITE folder gems RUBY_STOCK RUBY_SOURCE
  # shellcheck disable=SC2046
  export -f $(compgen -A function)
}

# finish_folder: the packages are not needed any more.
finish_folder() {
  rm -rf "$folder/packages" "$folder/tree"
  touch "$folder/finished"
}

# step LABEL LINES FUNCTION...: the function in a shell of its own, its output in the log.
step() {
  local label=$1 lines=$2
  shift 2
  run_logged "$label" "$lines" "$folder.log" bash -c 'set -euo pipefail; "$@"' step "$@"
}

# closure_of UNWANTED PACKAGE...: their names and those of the Ruby packages that they depend on, without those that
# match UNWANTED.
closure_of() {
  local unwanted=$1
  shift
  private_apt "$SUITE" apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces --no-enhances "$@" | grep -E '^(ruby-|rake$)' | grep -vE "$unwanted" | sort -u
}

# download_closure UNWANTED PACKAGE...
download_closure() {
  local names
  prepare_suite "$SUITE" "$(any_mirror)" deb
  names=$(closure_of "$@")
  cd "$folder/packages" || return
  # shellcheck disable=SC2086
  private_apt "$SUITE" apt-get download $names
}

# download_packages PACKAGE...: these alone.
download_packages() {
  prepare_suite "$SUITE" "$(any_mirror)" deb
  cd "$folder/packages" || return
  private_apt "$SUITE" apt-get download "$@"
}

# unpack_packages: gems to where GEM_PATH has them, files outside gems to where RUBYLIB has them.
unpack_packages() {
  local package
  for package in "$folder"/packages/*.deb; do dpkg -x "$package" "$folder/tree"; done
  mkdir -p "$gems"
  cp -r "$folder/tree/usr/share/rubygems-integration/all/." "$gems"
  cp -r "$folder/tree/usr/lib/ruby/vendor_ruby" "$folder/lib"
}

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

# bundled_gems NAME...: copies of them; a Ruby that was built from a checkout lacks them.
bundled_gems() {
  local name found
  for name in "$@"; do
    found=$(bundled_gem "$name")
    [[ $found ]] || {
      echo "$(bundled_gems_folder) has no $name; a checkout of Ruby lacks the gems that a release bundles, and BUNDLED_GEMS may name a folder with them" >&2
      return 1
    }
    mkdir -p "$gems/gems"
    cp -r "$found" "$gems/gems/"
    gem_specification "$name" "${found##*-}"
  done
}

# unpack_source PACKAGE GEM: the gem's folder from the tarball that scripts/sources.txt names.
unpack_source() {
  pinned_tarball "$1"
  mkdir -p "$gems/gems/$2-$TARBALL_VERSION"
  tar -xf "$TARBALL" -C "$gems/gems/$2-$TARBALL_VERSION" --strip-components=1 --no-same-owner
  gem_specification "$2" "$TARBALL_VERSION"
}

gem_folder() { basename "$(find "$gems/gems" -maxdepth 1 -name "$1-[0-9]*" | head -n 1)"; }

# compile_native GEM EXTENSION OPTION...: its extension's library into its lib folder.
compile_native() {
  local home=$gems/gems/$1 extension=$2
  shift 2
  cd "$home/ext/$extension" || return
  GEM_HOME=$gems GEM_PATH=$gems "$RUBY_STOCK" extconf.rb "$@"
  make "-j$(nproc)"
  make install "sitearchdir=$home/lib" "sitelibdir=$home/lib"
}
