//! Makes Cargo build the program again when a file of the web console is added or removed.

fn main() {
    println!("cargo:rerun-if-changed=console/dist");
}
