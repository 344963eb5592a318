#!/usr/bin/env bash
# Makes a release: for each Ruby and machine a tarball and a Debian package, SHA256SUMS of them, and
# CONTENTS, which lists what is inside each.
#   packaging/release.sh                                        all, in build/release
#   RUBIES=3.4 MACHINES=x86_64 packaging/release.sh             some of them
#   RUBIES="3.4 4.0" RUBY_SRC_4_0=ruby-4.0.5.tar.xz packaging/release.sh    a source of your own, as RUBY_SRC
# Environment:
#   RUBIES      versions or series of scripts/sources.txt; 3.4 and 4.0 unless given
#   MACHINES    x86_64 and aarch64 unless given; aarch64 is cross-compiled
#   PACKAGES    where it is made; build/release unless given
# What the SHA256SUMS of an earlier release names there is removed first. The exit status is 0 when all that was asked for was made.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
clone=$(dirname "$here")
export PACKAGES=${PACKAGES:-$clone/build/release}
read -ra rubies <<<"${RUBIES:-3.4 4.0}"
read -ra machines <<<"${MACHINES:-x86_64 aarch64}"

fail() {
  echo "release.sh: $*" >&2
  exit 2
}

for machine in "${machines[@]}"; do
  [[ $machine == x86_64 || $machine == aarch64 ]] || fail "MACHINES: '$machine' is not possible; there are x86_64 and aarch64."
done
[[ $(uname -m) == x86_64 ]] || fail "a release is made on x86_64, and this machine is $(uname -m)."
[[ ! $(git -C "$clone" status --porcelain --untracked-files=no 2>/dev/null) ]] ||
  echo "release.sh: files differ from the commit; nobody else can make the same packages" >&2

# with_ruby RUBY MACHINE COMMAND...: in the environment that builds this one. The table's version, or what RUBY_SRC_3_4 or RUBY_SRC_4_0 names.
with_ruby() {
  local source=RUBY_SRC_${1//./_} machine=$2
  local environment=(-u RUBY_SRC -u ASHLAR_RUBY_VERSION)
  if [[ ${!source-} ]]; then environment+=("RUBY_SRC=${!source}"); else environment+=("ASHLAR_RUBY_VERSION=$1"); fi
  [[ $machine == "$(uname -m)" ]] || environment+=("ASHLAR_MACHINE=$machine")
  env "${environment[@]}" "${@:3}"
}

# list_contents FILE: mode, size and name of each file in a package, and where links lead.
list_contents() {
  case $1 in
    *.deb) dpkg-deb --fsys-tarfile "$1" ;;
    *) xz -dc "$1" ;;
  esac | tar -tvf - | awk '{mode = $1; size = $3; $1 = $2 = $3 = $4 = $5 = ""; sub(/^ +/, ""); printf "%s %10d  %s\n", mode, size, $0}'
}

# add_to_lists FILE: to SHA256SUMS and CONTENTS, at once, so that what is made is listed even if the rest is not made.
add_to_lists() {
  (cd "$PACKAGES" && sha256sum -- "$1") >>"$PACKAGES/SHA256SUMS"
  { printf '%s\n' "$1" && list_contents "$PACKAGES/$1" && echo; } >>"$PACKAGES/CONTENTS"
}

# remove_earlier: the packages that an earlier release lists here, and its lists.
remove_earlier() (
  cd "$PACKAGES"
  [[ ! -e SHA256SUMS ]] || sed -En 's|^[0-9a-f]{64}  ([^/]+)$|\1|p' SHA256SUMS | tr '\n' '\0' | xargs -0 rm -f --
  rm -f SHA256SUMS CONTENTS
)

mkdir -p "$PACKAGES"
PACKAGES=$(cd "$PACKAGES" && pwd)
remove_earlier
missing=()
for ruby in "${rubies[@]}"; do
  for machine in "${machines[@]}"; do
    for kind in tarball debian-package; do
      if file=$(with_ruby "$ruby" "$machine" "$here/$kind.sh"); then
        add_to_lists "${file##*/}"
        echo "$file"
      else
        missing+=("Ruby $ruby for $machine: $kind")
      fi
    done
  done
done
[[ -e $PACKAGES/SHA256SUMS ]] || fail 'nothing was made.'
echo "$PACKAGES/SHA256SUMS"
((!${#missing[@]})) || {
  printf 'release.sh: not made: %s\n' "${missing[@]}" >&2
  exit 1
}
