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
mod compare;
mod history;
mod mutation;
mod panics;
mod postgres;
mod program;
mod random;

use mutation::{Groups, Mutation, Mutator};
use postgres::answers::{Answers, RealServer};
use postgres::catalog::Catalog;
use postgres::schema::DDL;
use random::Random;
use std::path::PathBuf;
use std::rc::Rc;

const ANSWERS: &str = "crates/simulation/tests/simulation/answers.json";

fn recorded() -> Rc<Catalog> {
    let answers: Answers = serde_json::from_str(include_str!("answers.json")).unwrap();
    Rc::new(Catalog::recorded(answers))
}

fn socket(server: &paceline_postgres::Server) -> PathBuf {
    server
        .socket_dir()
        .join(format!(".s.PGSQL.{}", server.port()))
}

/// A server with the tables of the simulation.
fn real_server(folder: &std::path::Path) -> (paceline_postgres::Server, RealServer) {
    let options = paceline_postgres::Options::new(folder);
    let server = paceline_postgres::Server::start(options).unwrap();
    let mut real = RealServer::connect(&socket(&server), "postgres");
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
    for seed in 0..100 {
        history::run_unchecked(seed, &catalog, Mutator::default()).unwrap();
    }
    let text = serde_json::to_string_pretty(&catalog.answers()).unwrap() + "\n";
    paceline_testing::kept(ANSWERS, |_| text.clone());
}

/// Steps of an ordinary run.
const STEPS: u64 = 20_000;

/// The first history has the seed of the run.
#[test]
fn histories_hold() {
    let mut seed = paceline_testing::seed();
    let steps_min = std::env::var("PACELINE_STEPS").map_or(STEPS, |steps| steps.parse().unwrap());
    let catalog = recorded();
    let mut random = Random::new(seed);
    let (mut histories, mut steps, mut crashes) = (0_u64, 0, 0);
    let mut groups = Groups::default();
    while steps < steps_min {
        let history = history::run(seed, &catalog, Mutator::default());
        let history = history.unwrap_or_else(|why| panic!("PACELINE_SEED={seed:#x}: {why}"));
        histories += 1;
        steps += history.steps;
        crashes += history.crashes;
        groups.add(history.groups);
        seed = random.next();
    }
    println!("{groups:?}, {crashes} crashes");
    println!("{histories} histories hold, {steps} steps");
}

/// A history that is run again is the same, message by message.
#[test]
fn a_seed_repeats_its_history() {
    let catalog = recorded();
    let mut random = Random::new(paceline_testing::seed());
    for _ in 0..5 {
        let seed = random.next();
        let [one, other] =
            [(); 2].map(|()| history::run_unchecked(seed, &catalog, Mutator::default()).unwrap());
        assert!(one == other, "seed {seed:#x}");
    }
}

/// Maximum number of histories until a fault is found.
const HISTORIES_MAX: u64 = 2_000;

#[test]
fn every_mutation_is_found() {
    let catalog = recorded();
    let mut random = Random::new(paceline_testing::seed());
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
