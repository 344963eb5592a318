//! Asks the Ruby that the library is built for where its objects keep what.
//!
//! `ASHLAR_RUBY_CFLAGS` names Ruby's include folders; there is no default,
//! because the numbers must be those of the Ruby that loads the library.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// The probe.
const SOURCE: &str = "shim/layout.c";

fn main() {
    for source in [
        SOURCE,
        "shim/ruby_version.h",
        "shim/ruby_3_4.h",
        "shim/inlined.h",
        "shim/ashlar_ruby.h",
    ] {
        println!("cargo:rerun-if-changed={source}");
    }
    println!("cargo:rerun-if-env-changed=ASHLAR_RUBY_CFLAGS");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let flags = env::var("ASHLAR_RUBY_CFLAGS").unwrap_or_else(|_| {
        fail("ASHLAR_RUBY_CFLAGS is not set: build with `make lib`, which knows Ruby's headers")
    });
    let probe = out.join("layout");
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let compiled = Command::new(&compiler)
        .args(["-DBUILDING_MODULAR_GC", "-O1", "-w"])
        .args(flags.split_whitespace())
        .arg(SOURCE)
        .arg("-o")
        .arg(&probe)
        // Headers and sources mention functions of Ruby that the probe never calls.
        .args(["-ffunction-sections", "-Wl,--gc-sections"])
        .arg("-Wl,--unresolved-symbols=ignore-all")
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        fail(&format!("{compiler} cannot compile {SOURCE} with {flags}"));
    }
    match Command::new(&probe).output() {
        Ok(output) if output.status.success() => {
            fs::write(out.join("layout.rs"), output.stdout).expect("OUT_DIR is writable");
        }
        result => fail(&format!("the layout probe did not run: {result:?}")),
    }
}

fn fail(message: &str) -> ! {
    eprintln!("ashlar-ruby: {message}");
    std::process::exit(1)
}
