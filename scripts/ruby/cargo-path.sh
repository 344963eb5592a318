#!/usr/bin/env bash
# Prints PATH with the folder where rustup puts cargo, for shells that have not been told: behind the other folders, where a
# cargo of the user's choice may be, but in front of them if what they have is too old or no Rust at all. As ensure_rust chooses.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/paths.sh
. "$here/paths.sh"
# shellcheck source=scripts/ruby/packages.sh
. "$here/packages.sh"
folder=$HOME/.cargo/bin
if [[ -x $folder/cargo && $(command -v cargo) != "$folder/cargo" ]] && ! rust_is_new_enough; then
  echo "$folder:$PATH"
else
  echo "$PATH:$folder"
fi
