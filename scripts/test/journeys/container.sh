#!/usr/bin/env bash
# Somebody runs a Rails application in containers on Ashlar, from nothing: the image is made with packaging/Dockerfile, the application's with
# the Dockerfile in docs/guide/containers.md, which compiles its gems. The container has a limit of memory. It is asked for pages, looked into and
# stopped.
#   scripts/test/journeys/container.sh
#   ENGINE_OPTIONS="--volume $HOME/own-ca:/usr/local/share/ca-certificates:ro" scripts/test/journeys/container.sh
# What it leaves to be looked at is in build/journeys/container: Dockerfile, build.log, shared.txt.
# Environment: ENGINE          docker, or podman with its options; docker where its daemon answers, else podman
#              ENGINE_OPTIONS  for each build and run: what this machine's network needs
# It needs Debian, for the gems, and root. Where no registry gives Debian's image, mmdebstrap makes it. It takes some 15 minutes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/test/journeys/installed.sh
. "$here/installed.sh"
# shellcheck source=scripts/test/journeys/rails_application.sh
. "$here/rails_application.sh"

MEMORY_MIB=700
IMAGE=localhost/ruby-ashlar
APPLICATION=localhost/tracker-ashlar
CONTAINER=ashlar-journey-$$

choose_engine() {
  local found=${ENGINE-} name
  [[ $found ]] || { docker info >/dev/null 2>&1 && found=docker; } || found=podman
  read -ra engine <<<"$found"
  read -ra options <<<"${ENGINE_OPTIONS-}"
  options+=(--network host)
  for name in "${engine[0]}" curl; do
    command -v "$name" >/dev/null || fail "this needs $name."
  done
  "${engine[@]}" info >/dev/null 2>&1 || fail "$found does not answer: $("${engine[@]}" info 2>&1 | tail -n 1)"
}

# the_base NAME: Debian's image, from where the engine gets images or made here.
the_base() {
  "${engine[@]}" image inspect "docker.io/library/$1" >/dev/null 2>&1 && return
  timeout 60 "${engine[@]}" pull "docker.io/library/$1" >>"$left/build.log" 2>&1 && return
  command -v mmdebstrap >/dev/null || fail "no registry gives $1, and there is no mmdebstrap that could make it"
  # Debian's image has apt without the addresses of this machine; this one has them.
  mmdebstrap --quiet --variant=apt trixie - 2>>"$left/build.log" | "${engine[@]}" import - "docker.io/library/$1" >>"$left/build.log" 2>&1 ||
    fail "$1 was not made; see $left/build.log"
  echo "$1: made by mmdebstrap, as no registry gave it"
}

# build IMAGE FOLDER ARGUMENT...
build() {
  "${engine[@]}" build "${options[@]}" -t "$1" "${@:3}" "$2" >>"$left/build.log" 2>&1 || fail "$1 was not built; see $left/build.log"
}

# vendor_gems FOLDER: what `bundle cache` does: each gem as a file, with its extension to be compiled. Ruby's bundled gems are among
# them, because Bundler looks for none outside its own path.
vendor_gems() {
  mkdir -p "$1"
  "$RUBY_STOCK" -rrubygems/package -e '
    homes, to = [ARGV.first, Gem.default_dir], ARGV.last
    homes.flat_map { |home| Dir[File.join(home, "specifications/*.gemspec")] }.each do |file|
      specification = Gem::Specification.load(file) or abort "#{file} cannot be read"
      Dir.chdir(File.join(File.dirname(file, 2), "gems", specification.full_name))
      made = %w[.o .so .log .time]
      specification.files = Dir["**/*"].select { File.file?(_1) && !made.include?(File.extname(_1)) && File.basename(_1) != "Makefile" }
      specification.extensions = Dir["ext/**/extconf.rb"]
      # Debian has the programs of some gems elsewhere.
      specification.executables = specification.executables.select { File.exist?(File.join(specification.bindir, _1)) }
      specification.extra_rdoc_files = []
      Gem::Package.build(specification, true, false, File.join(to, specification.file_name))
    end' "$gems" "$1" >>"$left/build.log" 2>&1 || fail "the gems were not packed; see $left/build.log"
}

# the_dockerfile FOLDER: the one of the guide, for the libraries of these gems. Their gems are beside it and from no registry, and
# python3 is for ashlar.
the_dockerfile() {
  awk '/^```dockerfile$/ {in_it = 1; next} /^```$/ {in_it = 0} in_it' "$CLONE/docs/guide/containers.md" |
    sed -e 's/libpq-dev/libsqlite3-dev libxml2-dev libxslt1-dev zlib1g-dev pkg-config/' -e 's/libpq5/libsqlite3-0 libxml2 libxslt1.1 python3/' \
      -e 's|^COPY Gemfile.*|&\nCOPY vendor/cache vendor/cache|' -e 's/bundle install/bundle install --local --no-cache/' \
      -e "s|^FROM ruby-ashlar|FROM $IMAGE|" \
      -e '/^WORKDIR/a ENV BUNDLE_BUILD__NOKOGIRI=--use-system-libraries BUNDLE_BUILD__SQLITE3=--enable-system-libraries NIO4R_PURE=true' >"$1/Dockerfile"
  cp "$1/Dockerfile" "$left/Dockerfile"
  grep -q 'bundle install --local' "$1/Dockerfile" || fail 'docs/guide/containers.md has no Dockerfile any more that runs `bundle install`'
}

stop_container() {
  "${engine[@]}" rm -f "$CONTAINER" >/dev/null 2>&1 || true
}

# wait_for PAGE
wait_for() {
  local i
  for ((i = 0; i < 120; i++)); do
    curl -fs -o "$work/page" "http://127.0.0.1:$PORT$1" && return
    sleep 0.5
  done
  "${engine[@]}" logs "$CONTAINER" >"$left/container.log" 2>&1
  fail "the container did not answer within a minute; see $left/container.log"
}

inside() { "${engine[@]}" exec "$CONTAINER" "$@"; }

((EUID == 0)) || fail 'this needs root, for the images.'
choose_engine
prepare_application
begin_journey container
trap 'stop_container; rm -rf "$work"' EXIT
[[ ! $(ss -Hltn "sport = :$PORT") ]] || fail "something listens at port $PORT; PORT=9393 takes another one"

the_base debian:trixie
the_base debian:trixie-slim
build "$IMAGE" "$CLONE" -f "$CLONE/packaging/Dockerfile"
the_application "$work/app"
vendor_gems "$work/app/vendor/cache"
the_dockerfile "$work/app"
(cd "$work/app" && GEM_HOME=$gems BUNDLE_SILENCE_ROOT_WARNING=1 "$(dirname "$RUBY_STOCK")/bundle" install --local --no-cache >>"$left/build.log" 2>&1) ||
  fail "no Gemfile.lock was made; see $left/build.log"
build "$APPLICATION" "$work/app"

"${engine[@]}" run -d --name "$CONTAINER" "${options[@]}" --memory "${MEMORY_MIB}m" --cap-add SYS_PTRACE \
  -e ASHLAR_MEMORY_LIMIT=auto -e PORT="$PORT" -e TRACKER_DATABASE=/app/tracker.sqlite3 "$APPLICATION" >/dev/null
wait_for /
for ((round = 0; round < 20; round++)); do
  for page in "${PAGES[@]}"; do
    curl -fsS -o "$work/page" "http://127.0.0.1:$PORT$page" || fail "$page was not answered in round $round"
  done
done
grep -q '"title"' "$work/page" || fail "${PAGES[-1]} is no list of issues: $(head -c 200 "$work/page")"
[[ $(inside ruby -v) == *'+GC[ashlar]'* ]] || fail 'the Ruby in the container has no Ashlar'
limit=$(inside ruby -e 'print GC.config[:memory_limit] / 1024 / 1024')
((limit == MEMORY_MIB)) || fail "ASHLAR_MEMORY_LIMIT=auto is $limit MiB in a container of $MEMORY_MIB MiB"
inside ashlar shared 1 >"$left/shared.txt" || fail 'ashlar shared 1 failed in the container'
grep -q 'and 2 other processes' "$left/shared.txt" || fail "$left/shared.txt does not show the workers"
[[ $(inside ashlar --help) ]] || fail 'ashlar does not run in the container'
timeout 30 "${engine[@]}" stop -t 20 "$CONTAINER" >/dev/null || fail 'the container did not stop within 20 seconds'
echo "a Rails application ran in a container of $MEMORY_MIB MiB, was looked into and was stopped; $left/shared.txt says what it kept"
