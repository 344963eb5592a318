# shellcheck shell=bash
# Installs the gems of a Gemfile into a folder of the cache. Sourced with scripts/ruby/messages.sh.

# bundle_install RUBY GEMFILE FOLDER LABEL: the log is FOLDER.log. False when the gems cannot be had.
bundle_install() {
  mkdir -p "$3"
  : >"$3.log"
  (run_logged "$4" 80 "$3.log" env BUNDLE_GEMFILE="$2" BUNDLE_PATH="$3" GEM_HOME="$3" BUNDLE_RETRY=1 BUNDLE_TIMEOUT=15 \
    BUNDLE_SILENCE_ROOT_WARNING=1 "$1" -rbundler -e \
    'require "bundler/cli"; require "bundler/friendly_errors"; Bundler.with_friendly_errors { Bundler::CLI.start(["install", "--jobs", "2"]) }')
}
