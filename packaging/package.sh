# shellcheck shell=bash disable=SC2034
# What both kinds of package begin with. Sets `clone`, `packages`, the folder for what is
# made, `work`, a folder that is removed at the end, `staged`, the one in it that is packed, and `install_ruby PREFIX`, which
# installs a Ruby in `staged` and sets `version`: Ruby's, ours, and whether it has a libruby.so; and
# `architecture`, as Debian calls it.
#
# The same commit makes the same bytes, from any clone and by any user, if the cache has the same path
# (Ruby's assertions name its source there): files have the commit's time, and no path of
# the clone or of cargo is in them.
set -euo pipefail
umask 022
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
packages=${PACKAGES:-$clone/build/packages}
mkdir -p "$packages"
work=$(mktemp -d "$packages/staged.XXXXXX")
trap 'rm -rf "$work"' EXIT
staged=$work/root
mkdir "$staged"

# The time that all files have: the commit's, or of a clone without history that of its version.
if [[ ! ${SOURCE_DATE_EPOCH-} ]]; then
  SOURCE_DATE_EPOCH=$(git -C "$clone" log -1 --format=%ct 2>/dev/null) || SOURCE_DATE_EPOCH=$(stat -c %Y "$clone/Cargo.toml")
fi
export SOURCE_DATE_EPOCH
case ${ASHLAR_MACHINE:-$(uname -m)} in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) architecture=$(dpkg --print-architecture 2>/dev/null || uname -m) ;;
esac

# What is compiled for packages lies apart, because its flags would have all else compiled again.
export CARGO_TARGET_DIR=$clone/build/packages-target ASHLAR_REPRODUCIBLE=yes
export RUSTFLAGS="--remap-path-prefix=$clone=ashlar --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo ${RUSTFLAGS-}"

fail() {
  echo "${0##*/}: $*" >&2
  exit 2
}

# Settings stand behind the command, as on make's command line. RUBY_VERSION is taken from nowhere else: in the environment it says which
# Ruby runs, where there is a version manager.
for setting; do
  case $setting in
    RUBY_VERSION=*) export ASHLAR_RUBY_VERSION=${setting#*=} ;;
    RUBY_SRC=* | RUBY_SHA256=* | SHARED=* | LAZY=*) export "${setting?}" ;;
    *) fail "'$setting' is no setting; there are RUBY_VERSION=, RUBY_SRC=, RUBY_SHA256=, SHARED= and LAZY=" ;;
  esac
done

install_ruby() {
  local ashlar ruby_version
  make -C "$clone" --no-print-directory install PREFIX="$1" DESTDIR="$staged" STRIP=yes >&2
  # Read, because a Ruby for another machine does not run here.
  ruby_version=$(awk -F'"' '$2 ~ /^(MAJOR|MINOR|TEENY)$/ {printf "%s%s", point, $4; point = "."}' "$staged$1"/lib/ruby/*/*/rbconfig.rb)
  [[ $ruby_version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] ||
    fail "rbconfig.rb in $staged$1 does not say which version of Ruby it is: '$ruby_version'"
  ashlar=$(awk -F'"' '/^version = /{print $2; exit}' "$clone/Cargo.toml")
  version=$ruby_version+ashlar$ashlar
  [[ ${SHARED-} != yes ]] || version=$version+shared
}
