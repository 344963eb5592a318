#!/usr/bin/env bash
# Fetches the Debian source package of libJudy, from whatever mirror this
# system's own package lists name, into the cache; prints the folder.
# apt's state is kept in the cache: the system's own is not touched.
set -euo pipefail
cache="${ASHLAR_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ashlar}/judy"
if ! compgen -G "$cache/judy-*/test/Judy1LHCheck.c" >/dev/null; then
    mkdir -p "$cache/apt/lists/partial" "$cache/apt/archives/partial"
    # The same lists with sources switched on, in both of apt's formats.
    mkdir -p "$cache/apt/sources.d"
    for list in /etc/apt/sources.list.d/*.sources; do
        [ -e "$list" ] && sed 's/^Types:.*/Types: deb-src/' "$list" >"$cache/apt/sources.d/${list##*/}"
    done
    if [ -e /etc/apt/sources.list ]; then
        sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$cache/apt/sources.d/system.list"
    fi
    options=(
        -o "Dir::Etc::sourcelist=/dev/null"
        -o "Dir::Etc::sourceparts=$cache/apt/sources.d"
        -o "Dir::State::lists=$cache/apt/lists"
        -o "Dir::Cache=$cache/apt"
        -o "APT::Sandbox::User=root"
    )
    apt-get "${options[@]}" update -qq >&2
    (cd "$cache" && apt-get "${options[@]}" source -qq judy >&2)
fi
dirname "$(compgen -G "$cache/judy-*/test" | head -1)"
