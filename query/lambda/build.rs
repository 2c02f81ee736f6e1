//! Has the linker keep only one of functions whose code is the same: what is not there need not be read at a start.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Where the toolchain links with its own LLD.
    let target = env::var("TARGET").unwrap_or_default();
    if target == "x86_64-unknown-linux-gnu" {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    }
}
