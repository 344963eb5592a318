# shellcheck shell=bash
# A Ruby that is installed already and was configured with --with-modular-gc. Its
# internal headers and its tests are in its source tree, which must have been kept.

# find_installed: sets RUBY, COLLECTORS, RUBY_ARCH_HEADERS, SOURCE and RUBY_BUILD, or fails
# (status 1) when there is no such Ruby. RUBY_VERSION of make's command line means one that
# scripts/sources.txt names, whatever is installed.
find_installed() {
  local answer version
  [[ ! ${ASHLAR_RUBY_VERSION-} ]] || return 1
  command -v ruby >/dev/null || return 1
  answer=$(ruby --disable-gems -rrbconfig -e '
    config = RbConfig::CONFIG
    puts config["modular_gc_dir"], RUBY_VERSION, RbConfig.ruby, config["rubyarchhdrdir"]
  ' 2>/dev/null) || return 1
  {
    read -r COLLECTORS
    read -r version
    read -r RUBY
    read -r RUBY_ARCH_HEADERS
  } <<<"$answer"
  [[ $COLLECTORS && $RUBY != "$RUBIES"/* ]] && ruby_is_supported "$version" || return 1
  COLLECTORS=${COLLECTORS%/}
  find_kept_source "$version"
  say "using the installed $RUBY, which can load collectors"
  RUBY_BUILD=
}

# Where ruby-build (rbenv, mise) keeps sources when told to; else the one that is fetched, if it
# is the same version.
find_kept_source() {
  local folder
  for folder in "${RUBY_BUILD_BUILD_PATH:-/nonexistent}/ruby-$1" \
    "${RBENV_ROOT:-$HOME/.rbenv}/sources/$1/ruby-$1"; do
    if [[ -e $folder/version.h ]]; then
      accept_source "$folder" "$(printf %s "$folder" | digest8)"
      return
    fi
  done
  if [[ $(wanted_rows ruby | awk 'NR == 1 {print $1}') == "$1" ]]; then
    source_from_table
    return
  fi
  fail "Ruby $1 at $RUBY can load collectors, but its source tree, with the headers a collector" \
    'needs, was not found. Install it again with its source kept (rbenv install --keep),' \
    'or set RUBY_SRC to a source tree or tarball to build a Ruby from.'
}
