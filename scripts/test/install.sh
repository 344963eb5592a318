#!/usr/bin/env bash
# What an installation promises of owners and modes, and of what an earlier one left (scripts/ruby/install-tree.sh): with a tree
# and a place that were made to be awkward. As root also with the tree and the place of others.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/ruby/install-tree.sh
. "$here/../ruby/install-tree.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
from=$work/from to=$work/to
TREE_OWNER=12345:12346
PLACE_OWNER=23456:23457
checks=0

# is CLAIM EXPECTED FOUND
is() {
  [[ $2 == "$3" ]] || {
    printf 'install.sh: %s: not so.\nExpected:\n%s\nFound:\n%s\n' "$1" "$2" "$3" >&2
    exit 1
  }
  checks=$((checks + 1))
}

# awkward_tree: of another user, some of it writable for all, some of it for nobody else to read.
awkward_tree() {
  rm -rf "$from"
  mkdir -p "$from/bin" "$from/lib/ruby/3.4.0" "$from/share"
  echo new >"$from/bin/ruby"
  echo text >"$from/lib/ruby/3.4.0/set.rb"
  echo text >"$from/lib/ruby/name with spaces.rb"
  echo library >"$from/lib/libruby.so.3.4"
  ln -s libruby.so.3.4 "$from/lib/libruby.so"
  touch -d 2003-03-03 "$from/lib/ruby/3.4.0/set.rb"
  ((EUID != 0)) || chown -hR "$TREE_OWNER" "$from"
  chmod 4711 "$from/bin/ruby"
  chmod 600 "$from/lib/ruby/3.4.0/set.rb"
  chmod 666 "$from/lib/ruby/name with spaces.rb"
  chmod 2775 "$from/lib/libruby.so.3.4"
  chmod 2777 "$from/lib/ruby"
  chmod 700 "$from" "$from/lib/ruby/3.4.0"
  chmod 1777 "$from/share"
}

# awkward_place: a folder of another user that others use, too; its lib is elsewhere.
awkward_place() {
  rm -rf "$to"
  mkdir -p "$to/bin" "$to/elsewhere" "$to/share"
  echo old >"$to/bin/ruby"
  echo theirs >"$to/bin/theirs"
  ln -s elsewhere "$to/lib"
  ((EUID != 0)) || chown -hR "$PLACE_OWNER" "$to"
  chmod 600 "$to/bin/theirs"
  chmod 1751 "$to"
  chmod 711 "$to/elsewhere"
  chmod 750 "$to/share"
  touch -h -d 2001-01-01 "$to/bin/theirs" "$to/lib" "$to/bin" "$to/elsewhere" "$to/share" "$to"
}

# modes FOLDER NAME...: mode and owner of each.
modes() { (cd "$1" && shift && stat -c '%a %u:%g %n' "$@"); }

me=$(id -u):$(id -g)
place_owner=$me
((EUID != 0)) || place_owner=$PLACE_OWNER

awkward_tree
awkward_place
exec 3<"$to/bin/ruby"
(umask 077 && install_tree "$from" "$to")
is 'files are of who installs, and readable' "755 $me bin/ruby
644 $me lib/ruby/3.4.0/set.rb
644 $me lib/ruby/name with spaces.rb
755 $me lib/libruby.so.3.4" "$(modes "$to" bin/ruby lib/ruby/3.4.0/set.rb 'lib/ruby/name with spaces.rb' lib/libruby.so.3.4)"
is 'new folders, too' "755 $me lib/ruby
755 $me lib/ruby/3.4.0" "$(modes "$to" lib/ruby lib/ruby/3.4.0)"
is 'folders that exist keep their owners and modes' "1751 $place_owner .
711 $place_owner elsewhere
750 $place_owner share" "$(modes "$to" . elsewhere share)"
is 'and their times, where nothing is new' '2001-01-01 2001-01-01 2001-01-01' \
  "$(stat -c %y "$to" "$to/share" "$to/lib" | cut -d' ' -f1 | paste -sd' ')"
is 'a link to a folder is followed' 'elsewhere libruby.so.3.4' "$(readlink "$to/lib" "$to/elsewhere/libruby.so" | paste -sd' ')"
is "what is not Ruby's stays" "600 $place_owner bin/theirs theirs" "$(modes "$to" bin/theirs) $(<"$to/bin/theirs")"
is 'files are replaced' new "$(<"$to/bin/ruby")"
is 'who has the old one open keeps it' old "$(cat <&3)"
is 'files keep their times' 2003-03-03 "$(stat -c %y "$to/lib/ruby/3.4.0/set.rb" | cut -d' ' -f1)"
is 'nobody else may write, and no program gets rights' '' \
  "$(find "$to/bin/ruby" "$to/lib/" ! -type l ! -path "$to/lib/" -perm /7022)"

rm -rf "$to"
(umask 077 && install_tree "$from" "$to/opt/ruby")
is 'a place that is not there is made' "755 $me opt
755 $me opt/ruby
755 $me opt/ruby/bin
755 $me opt/ruby/share" "$(modes "$to" opt opt/ruby opt/ruby/bin opt/ruby/share)"
(umask 002 && install_tree "$from" "$to/opt/ruby")
is 'again, with another umask' "755 $me opt/ruby/bin/ruby" "$(modes "$to" opt/ruby/bin/ruby)"

# gemspecs FOLDER NAME...: these default gems' specifications.
gemspecs() {
  local name folder=$1/lib/ruby/gems/3.4.0/specifications/default
  shift
  mkdir -p "$folder"
  for name; do echo "$name" >"$folder/$name.gemspec"; done
}

rm -rf "$from" "$to"
gemspecs "$from" uri-1.0.4 net-http-0.6.0 psych-5.2.2
gemspecs "$to" uri-1.0.3 net-http-0.6.0 net-http-persistent-4.0.5 net-protocol-0.2.2 psych-5.2.2.beta1
mkdir -p "$to/lib/ruby/gems/3.4.0/specifications"
touch "$to/lib/ruby/gems/3.4.0/specifications/uri-1.1.0.gemspec"
install_tree "$from" "$to"
remove_older_defaults "$from" "$to"
is 'a default gem has one version, and gems of others stay' 'default
default/net-http-0.6.0.gemspec
default/net-http-persistent-4.0.5.gemspec
default/net-protocol-0.2.2.gemspec
default/psych-5.2.2.gemspec
default/uri-1.0.4.gemspec
uri-1.1.0.gemspec' "$(find "$to/lib/ruby/gems/3.4.0/specifications" -mindepth 1 -printf '%P\n' | LC_ALL=C sort)"

rm -rf "$from" "$to"
mkdir -p "$from/__pycache__" "$to/__pycache__" "$to/gone/__pycache__"
touch "$from/cli.py" "$from/__pycache__/cli.cpython-313.pyc" "$to/cli.py" "$to/__pycache__/cli.cpython-312.pyc" "$to/gone/__pycache__/a b.pyc"
ln -s nowhere "$from/link"
install_tree "$from" "$to"
remove_others "$from" "$to"
is 'of a folder that is ours alone nothing of an earlier version stays' '__pycache__
__pycache__/cli.cpython-313.pyc
cli.py
link' "$(find "$to" -mindepth 1 -printf '%P\n' | LC_ALL=C sort)"

if ((EUID == 0)) && command -v setpriv >/dev/null; then
  awkward_tree
  rm -rf "$to"
  mkdir "$to"
  chown "$TREE_OWNER" "$to"
  setpriv --reuid "${TREE_OWNER%:*}" --regid "${TREE_OWNER#*:}" --clear-groups bash -c \
    ". $(printf %q "$here/../ruby/install-tree.sh"); umask 077; install_tree $(printf '%q %q' "$from" "$to/ruby")"
  is 'of another user who installs, they are that user'\''s' "755 $TREE_OWNER ruby/bin/ruby
755 $TREE_OWNER ruby/lib" "$(modes "$to" ruby/bin/ruby ruby/lib)"
else
  echo 'SKIPPED: trees and places of other users, which only root can make'
fi
echo "$checks checks passed"
