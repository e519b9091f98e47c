//! Shards: what Paceline knows of them is what PostgreSQL says.

mod check;
mod keys;
