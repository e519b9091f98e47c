//! Whole relays without a socket: what the client and the server say goes in, what reaches them is read out.

mod copy;
mod errors;
mod hints;
mod keeping;
mod listening;
mod named;
mod passing;
mod prepared;
mod reading;
mod repeat;
mod sequences;
mod settings;
mod shape;
mod stage;
mod underway;
