//! The core of Paceline, as it is compiled for production, in one thread: a scheduler with virtual time, a PostgreSQL in memory and
//! clients in memory. Every history follows from its seed, and is compared with a model.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a simulation that cannot go on says so"
)]

mod check;
mod client;
mod history;
mod mutation;
mod postgres;
mod program;
mod random;

use mutation::{Mutation, Mutator};
use postgres::answers::{Answers, RealServer};
use postgres::catalog::Catalog;
use postgres::schema::DDL;
use std::rc::Rc;

const ANSWERS: &str = "crates/simulation/tests/simulation/answers.json";

fn recorded() -> Rc<Catalog> {
    let answers: Answers = serde_json::from_str(include_str!("answers.json")).unwrap();
    Rc::new(Catalog::recorded(answers))
}

/// A server with the tables of the simulation.
fn real_server(folder: &std::path::Path) -> (paceline_postgres::Server, RealServer) {
    let options = paceline_postgres::Options::new(folder);
    let server = paceline_postgres::Server::start(options).unwrap();
    let socket = server.socket_dir().join(format!(".s.PGSQL.{}", server.port()));
    let mut real = RealServer::connect(&socket, "postgres");
    for statement in DDL {
        real.ask(statement);
    }
    (server, real)
}

/// `PACELINE_KEEP=1` records the answers of a real PostgreSQL to the questions in many histories.
#[test]
fn the_questions_are_those_that_were_recorded() {
    if std::env::var_os("PACELINE_KEEP").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (_server, real) = real_server(folder.path());
    let catalog = Rc::new(Catalog::asking(real));
    for seed in 0..300 {
        history::run(seed, &catalog, Mutator::default()).unwrap_or_else(|why| panic!("{seed}: {why}"));
    }
    let text = serde_json::to_string_pretty(&catalog.answers()).unwrap() + "\n";
    paceline_testing::kept(ANSWERS, |_| text.clone());
}

#[test]
fn histories_hold() {
    let seed = paceline_testing::seed();
    let catalog = recorded();
    let mut random = random::Random::new(seed);
    for _ in 0..100 {
        let seed = random.next();
        if let Err(why) = history::run(seed, &catalog, Mutator::default()) {
            panic!("seed {seed:#x}: {why}");
        }
    }
}

/// Maximum number of histories until a fault is found.
const HISTORIES_MAX: u64 = 2_000;

#[test]
fn every_mutation_is_found() {
    let catalog = recorded();
    let mut random = random::Random::new(paceline_testing::seed());
    let mut missed = Vec::new();
    for mutation in Mutation::ALL {
        let found = (1..=HISTORIES_MAX).find_map(|number| {
            let found = history::run(random.next(), &catalog, Mutator::of(mutation)).err()?;
            Some((number, found))
        });
        match found {
            Some((number, found)) => println!("{mutation:?}: after {number} histories: {found}"),
            None => missed.push(mutation),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
