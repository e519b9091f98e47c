//! Subcommands of the binary.

#[cfg(feature = "bench")]
mod benching;
mod checking;
mod explaining;
mod importing;
