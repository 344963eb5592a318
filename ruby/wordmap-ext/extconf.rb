# frozen_string_literal: true

# Builds the map (Rust) as a static library, then the extension (C) over it.
require "mkmf"

root = File.expand_path("../..", __dir__)
target = ENV["CARGO_TARGET_DIR"] || File.join(root, "target")
built = system("cargo", "build", "--release", "--quiet", "-p", "ashlar-wordmap-capi", chdir: root)
abort "cargo could not build ashlar-wordmap-capi: is Rust 1.85 or newer installed?" unless built

archive = File.expand_path("release/libashlar_judy.a", File.expand_path(target, root))
$INCFLAGS << " -I#{File.join(root, "crates/wordmap-capi/include")}"
$LOCAL_LIBS << " #{archive} -Wl,--exclude-libs,ALL -lpthread -ldl -lm"
$CFLAGS << " -Wall"
create_makefile("ashlar/wordmap")
