# shellcheck shell=bash
# Debian's source packages. Uses a private sources list made from the mirror the system
# already uses, and private state folders: the system's apt configuration and lists stay as
# they are. apt checks the signature and the checksums.

# The archive the system itself installs from (not its security or third-party ones).
debian_mirror() {
  apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(COMPONENT)' 'Created-By: Packages' |
    awk '$2 == "Debian" && $3 == "main" && $1 !~ /security/ {print $1; exit}'
}

# The mirror that apt knows from its lists, else the one its configuration names.
any_mirror() {
  local found
  found=$(debian_mirror)
  [[ $found ]] || found=$(system_list_mirror)
  echo "$found"
}

# private_apt SUITE COMMAND...
private_apt() {
  local suite=$1 state=$APT_STATE/$1
  shift
  "$1" -q \
    -o Dir::Etc::sourcelist="$state/source.list" -o Dir::Etc::sourceparts=- \
    -o Dir::State="$state" -o Dir::State::lists="$state/lists" \
    -o Dir::Cache="$state/cache" -o APT::Sandbox::User=root \
    -o Dir::State::status=/var/lib/dpkg/status "${@:2}"
}

# prepare_suite SUITE MIRROR [TYPE...]: its lists, of sources unless told otherwise.
prepare_suite() {
  name_suite "$@"
  private_apt "$1" apt-get update
}

# name_suite SUITE MIRROR [TYPE...]: where its lists are.
name_suite() {
  local suite=$1 mirror=$2 state=$APT_STATE/$1 signed='' type
  shift 2
  local keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  [[ -e $keyring ]] && signed="[signed-by=$keyring] "
  for type in "${@:-deb-src}"; do
    printf '%s %s%s %s main\n' "$type" "$signed" "$mirror" "$suite"
  done >"$state/source.list"
}

# fetch_debian_source SUITE:PACKAGE=VERSION: its original tarball, into the current folder. By
# lists of its own: others of the suite may be of packages, too.
fetch_debian_source() {
  local suite=${1%%:*} APT_STATE=$APT_STATE/sources
  prepare_suite "$suite" "$(any_mirror)" &&
    private_apt "$suite" apt-get source --download-only --only-source --tar-only "${1#*:}"
}

# Without downloaded lists apt names no targets; then its configuration is read.
system_list_mirror() {
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    awk '/^deb /{for (i = 2; i <= NF; i++) if ($i ~ /^[a-z+]+:\//) {print $i; break}} /^URIs:/{print $2}' |
    grep -v security | grep -m 1 '/debian/*$'
}
