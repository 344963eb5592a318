# shellcheck shell=bash disable=SC2034
# What both kinds of package begin with. Sets `clone`, `packages`, the folder for what is
# made, `staged`, a folder that is removed at the end, and `install_ruby PREFIX`, which
# installs a Ruby there and sets `version`, Ruby's and ours.
set -euo pipefail
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
packages=$clone/build/packages
mkdir -p "$packages"
staged=$(mktemp -d "$packages/staged.XXXXXX")
trap 'rm -rf "$staged"' EXIT
chmod 755 "$staged"

install_ruby() {
  local ashlar ruby_version
  make -C "$clone" --no-print-directory install PREFIX="$1" DESTDIR="$staged" STRIP=yes SHARED="${SHARED-}" >&2
  ruby_version=$(find "$staged$1" -name rbconfig.rb -exec sed -n 's/.*"RUBY_PROGRAM_VERSION"\] = "\(.*\)"/\1/p' {} +)
  ashlar=$(awk -F'"' '/^version = /{print $2; exit}' "$clone/Cargo.toml")
  version=$ruby_version+ashlar$ashlar
}
