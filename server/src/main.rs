//! Tidelake.
fn main() {}
