# shellcheck shell=bash disable=SC2034
# What both kinds of package begin with. Sets `clone`, `packages`, the folder for what is
# made, `staged`, a folder that is removed at the end, and `install_ruby PREFIX`, which
# installs a Ruby there and sets `version`: Ruby's, ours, and whether it has a libruby.so.
set -euo pipefail
umask 022
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
packages=$clone/build/packages
mkdir -p "$packages"
staged=$(mktemp -d "$packages/staged.XXXXXX")
trap 'rm -rf "$staged"' EXIT
chmod 755 "$staged"

install_ruby() {
  local ashlar ruby_version
  make -C "$clone" --no-print-directory install PREFIX="$1" DESTDIR="$staged" STRIP=yes >&2
  # Not where it belongs yet, it has no libraries but its own.
  ruby_version=$(LD_LIBRARY_PATH=$staged$1/lib "$staged$1/bin/ruby" --disable-gems -e 'print RUBY_VERSION')
  ashlar=$(awk -F'"' '/^version = /{print $2; exit}' "$clone/Cargo.toml")
  version=$ruby_version+ashlar$ashlar
  [[ ${SHARED-} != yes ]] || version=$version+shared
}
