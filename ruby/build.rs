//! Asks the Ruby that the library is built for where its objects keep their data.
//!
//! `ASHLAR_RUBY_CFLAGS` names Ruby's include folders; there is no default,
//! because the numbers must be those of the Ruby that loads the library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The versions of Ruby that the library is written for.
const SERIES: [&str; 2] = ["3.4", "4.0"];
/// The program that prints the layout.
const SOURCE: &str = "shim/layout.c";

fn main() {
    for source in [
        SOURCE,
        "shim/ruby_version.h",
        "shim/ruby_3_4.h",
        "shim/ruby_4_0.h",
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
    match run(&probe).output() {
        Ok(output) if output.status.success() => {
            choose_version(&String::from_utf8_lossy(&output.stdout));
            fs::write(out.join("layout.rs"), output.stdout).expect("OUT_DIR is writable");
        }
        result => fail(&format!("the layout probe did not run: {result:?}")),
    }
}

/// Selects the files for the version of Ruby that the probe names (`cfg(ruby = "3.4")`).
fn choose_version(layout: &str) {
    let series = SERIES.into_iter().find(|series| {
        let named = format!("RUBY_VERSION: &str = \"{series}.");
        layout.contains(&named)
    });
    let Some(series) = series else {
        fail("the layout probe names no version of Ruby that the library is written for");
    };
    println!(
        "cargo:rustc-check-cfg=cfg(ruby, values(\"{}\"))",
        SERIES.join("\", \"")
    );
    println!("cargo:rustc-cfg=ruby=\"{series}\"");
}

/// The command that runs the probe. The probe is built for the same machine as the library, and
/// may need the same runner there as cargo's tests do.
fn run(probe: &Path) -> Command {
    let target = env::var("TARGET").expect("cargo sets TARGET");
    let name = target.to_uppercase().replace('-', "_");
    println!("cargo:rerun-if-env-changed=CARGO_TARGET_{name}_RUNNER");
    let runner = env::var(format!("CARGO_TARGET_{name}_RUNNER")).unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(program) = words.next() else {
        return Command::new(probe);
    };
    let mut command = Command::new(program);
    command.args(words).arg(probe);
    command
}

fn fail(message: &str) -> ! {
    eprintln!("ashlar-ruby: {message}");
    std::process::exit(1)
}
