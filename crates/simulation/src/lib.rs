//! The simulation is a test (`tests/simulation`), so that no program contains it.
