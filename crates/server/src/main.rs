//! Placeholder until its content lands.
fn main() {}
