//! Relays without sockets: a test sends the messages of the client and of the server, and compares what each receives.

mod columns;
mod commits;
mod copy;
mod ddl;
mod errors;
mod forwarding;
mod hints;
mod listening;
mod local_settings;
mod pin;
mod plain;
mod plain_in_transaction;
mod prepared;
mod retry;
mod sequences;
mod settings;
mod statements_by_name;
mod take_over;
mod test_relay;
mod tokenization;
