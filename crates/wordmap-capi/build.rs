//! Gives the library the name that programs linked against libJudy ask for.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libJudy.so.1");
}
