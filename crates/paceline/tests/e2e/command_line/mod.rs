//! Subcommands of the binary.

#[cfg(feature = "bench")]
mod advising;
#[cfg(feature = "bench")]
mod benching;
#[cfg(feature = "bench")]
mod benching_replicas;
mod checking;
mod explaining;
mod importing;
mod top;
