# shellcheck shell=bash
# Copies a tree to where it is installed. Whoever owns the tree, and whatever its modes are:
# what is new belongs to who installs, and everybody may read it and nobody else write it.
# Folders that exist stay as they are but for their new entries.

# install_tree FROM TO: a file that is replaced is removed first, so that what runs keeps the one
# it has open. A group is given by the folder where the system does so (the set-group-ID bit).
install_tree() (
  set -euo pipefail
  umask 022
  mkdir -p "$2"
  missing_in "$1" "$2" |
    tar -C "$1" --null --no-recursion --files-from=- --mode='ug-s,-t,u=rwX,go=rX' -cf - |
    tar -C "$2" --no-same-owner --no-overwrite-dir -xf -
)

# missing_in FROM TO: what is copied, a name and a zero each: all but the folders that exist.
missing_in() {
  local name
  while IFS= read -r -d '' name; do
    [[ -d $1/$name && ! -L $1/$name && -d $2/$name ]] || printf '%s\0' "$name"
  done < <(find "$1" -mindepth 1 -printf '%P\0')
}
