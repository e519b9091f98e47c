//! Whole relays without a socket: what the client and the server say goes in, what reaches them is read out.

mod columns;
mod copy;
mod errors;
mod forwarding;
mod hints;
mod listening;
mod pin;
mod prepared;
mod retry;
mod sequences;
mod settings;
mod statements_by_name;
mod take_over;
mod test_relay;
mod tokenization;
