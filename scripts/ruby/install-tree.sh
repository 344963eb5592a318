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

# remove_others FROM TO: what is in a folder that is ours alone and not in the tree: of an earlier version, or compiled by another Python.
remove_others() {
  local name
  while IFS= read -r -d '' name; do
    [[ -e $1/$name || -L $1/$name ]] || rm -df -- "$2/$name"
  done < <(find "$2/" -mindepth 1 -depth -printf '%P\0')
}

# remove_older_defaults FROM TO: a default gem has the version whose files are installed, and no other. Ruby's own installation
# (tool/rbinstall.rb) removes the specifications of an earlier patch release as well.
remove_older_defaults() {
  local new name old
  for new in "$1"/lib/ruby/gems/*/specifications/default/*-*.gemspec; do
    name=${new#"$1/"}
    for old in "$2/${name%-*}"-[0-9]*.gemspec; do
      [[ -e $1/${old#"$2/"} ]] || rm -f -- "$old"
    done
  done
}

# missing_in FROM TO: what is copied, a name and a zero each: all but the folders that exist.
missing_in() {
  local name
  while IFS= read -r -d '' name; do
    [[ -d $1/$name && ! -L $1/$name && -d $2/$name ]] || printf '%s\0' "$name"
  done < <(find "$1" -mindepth 1 -printf '%P\0')
}
