# shellcheck shell=bash disable=SC2154
# What the definitions here have in common; ruby-build sets DEFINITION_PATH and PREFIX_PATH.

# install_ashlar [SERIES]: the clone that the definition is in, with the source that RUBY_SRC names, or that its scripts/sources.txt
# pins for this series. Without a series that is the first one there.
install_ashlar() {
  local version=${1-}
  [[ ! ${RUBY_SRC-} ]] || version= # the source says which one it is
  # Some versions of ruby-build put folders of PREFIX_PATH into these two. The Ruby in the cache, which later installations share, must not
  # name them.
  LDFLAGS=${LDFLAGS/#"-L$PREFIX_PATH/lib"/}
  [[ ${LDFLAGS// } ]] || unset LDFLAGS
  CPPFLAGS=${CPPFLAGS/#"-I$PREFIX_PATH/include"/}
  [[ ${CPPFLAGS// } ]] || unset CPPFLAGS
  make -C "$(cd "$(dirname "$DEFINITION_PATH")/../.." && pwd)" install ${version:+"RUBY_VERSION=$version"} "PREFIX=$PREFIX_PATH" >&2
}
