//! Subcommands of the binary.

#[cfg(feature = "bench")]
mod benching;
mod explaining;
mod importing;
