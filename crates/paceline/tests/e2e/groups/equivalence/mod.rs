//! Equivalence as a property: generated tables, templates of updates, inserts and upserts, and requests, forced to run as groups
//! in a known order, are answered message by message as if they had run one at a time in that order on bare PostgreSQL, and leave
//! the same table behind. Consumers of a queue are tried in [`takes`], identical reads in [`shares`]. `PACELINE_SEED` repeats a
//! run, `PACELINE_E2E_CASES` makes it longer.

mod consumer;
mod question;
mod queue;
mod search;
pub(super) mod shares;
mod table;
mod takes;
mod template;
mod unit;
mod values;

use crate::harness::raw::RawClient;
use crate::harness::{Gate, Message, Rng, Stage, assert_same};
use table::Table;
use template::Template;
use unit::Unit;

const CASES: usize = 24;

/// A generated table with generated work on it.
struct Case {
    table: Table,
    templates: Vec<Template>,
    units: Vec<Unit>,
}

impl Case {
    fn generate(rng: &mut Rng, oracle: &mut RawClient) -> Case {
        let table = Table::generate(rng);
        table.create(oracle);
        let templates: Vec<Template> = (0..1 + rng.below(3))
            .map(|number| Template::generate(number, &table, oracle, rng))
            .collect();
        let count = 10 + rng.below(31);
        let units = (0..count)
            .map(|_| {
                let template = rng.below(templates.len());
                Unit::generate(template, &templates[template], &table, oracle, rng)
            })
            .collect();
        Case {
            table,
            templates,
            units,
        }
    }

    fn bytes(&self, unit: &Unit) -> Vec<u8> {
        unit.bytes(&self.templates[unit.template])
    }

    fn describe(&self) -> String {
        let units: Vec<String> = self
            .units
            .iter()
            .enumerate()
            .map(|(number, unit)| {
                format!(
                    "{number}: {}",
                    unit.describe(&self.templates[unit.template])
                )
            })
            .collect();
        format!("{}\n{}", self.table.sql(), units.join("\n"))
    }

    /// The reference: one at a time, in order.
    fn one_at_a_time(&self, bare: &mut RawClient) -> Vec<Vec<Message>> {
        self.prepare(bare);
        let replies = self.units.iter().map(|unit| bare.ask(&self.bytes(unit)).0);
        replies.collect()
    }

    /// All requests are in the line, in order, before the first leaves.
    fn together(&self, stage: &Stage, servers: usize) -> Vec<Vec<Message>> {
        let mut clients = stage.clients(self.units.len());
        for (client, unit) in clients.iter_mut().zip(&self.units) {
            if unit.is_named() {
                self.prepare(client);
            }
        }
        self.warm_up(&mut stage.client());
        // Upserts have inserted the missing row.
        self.table.reset(&mut stage.direct());
        let mut gate = Gate::close_all(stage, servers);
        for (client, unit) in clients.iter_mut().zip(&self.units) {
            gate.submit(client, &self.bytes(unit));
        }
        gate.open();
        clients.iter_mut().map(|client| client.reply().0).collect()
    }

    /// Gives every template its name; some have mistakes in them, so errors are as good as successes.
    fn prepare(&self, client: &mut RawClient) {
        for template in &self.templates {
            client.ask(&template.prepare());
        }
    }

    /// Lets Paceline see each kind of unit once, on a row that does not exist.
    fn warm_up(&self, client: &mut RawClient) {
        self.prepare(client);
        let mut seen = Vec::new();
        for unit in &self.units {
            let template = &self.templates[unit.template];
            let unit = unit.on_missing_row(&self.table, template);
            let kind = unit.kind(template);
            if !seen.contains(&kind) {
                client.ask(&unit.bytes(template));
                seen.push(kind);
            }
        }
    }

    #[track_caller]
    fn check(&self, label: &str, stage: &Stage, servers: usize, bare: &mut RawClient) {
        let paceline = self.together(stage, servers);
        let left_by_paceline = self.table.content(bare);
        self.table.refill(bare);
        let reference = self.one_at_a_time(bare);
        let story = self.describe();
        for (number, (reference, paceline)) in reference.iter().zip(&paceline).enumerate() {
            assert_same(
                &format!("{label}, unit {number} of\n{story}\n"),
                reference,
                paceline,
            );
        }
        let left_by_postgresql = self.table.content(bare);
        assert_eq!(
            left_by_postgresql, left_by_paceline,
            "{label}: the table after\n{story}"
        );
        bare.ok("DEALLOCATE ALL");
    }

    fn succeeded(&self, replies: &[Vec<Message>]) -> usize {
        let failed = |reply: &&Vec<Message>| reply.iter().any(|message| message.tag == b'E');
        replies.len() - replies.iter().filter(failed).count()
    }
}

/// The number of cases of a property: that of the environment, or `default`.
fn cases(default: usize) -> usize {
    std::env::var("PACELINE_E2E_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// A plan for given values may raise at Bind the error of a part that a generic plan, after five executions, never
/// evaluates.
fn force_custom_plans(stage: &Stage) {
    let database = &stage.database;
    stage.direct().ok(&format!(
        "ALTER DATABASE \"{database}\" SET plan_cache_mode = force_custom_plan"
    ));
}

/// Runs generated cases on `stage`, all of whose `servers` server connections wait while the requests arrive. Returns the number of
/// requests.
#[track_caller]
fn check_cases(name: &str, stage: &Stage, servers: usize) -> usize {
    let seed = paceline_testing::seed() ^ name.bytes().map(u64::from).sum::<u64>();
    force_custom_plans(stage);
    let mut bare = stage.direct();
    bare.ok(table::DOMAINS);
    let mut units = 0;
    for number in 0..cases(CASES) {
        let mut rng = Rng::new(seed.wrapping_add(number as u64 * 7919));
        let case = Case::generate(&mut rng, &mut bare);
        units += case.units.len();
        case.check(&format!("{name}, case {number}"), stage, servers, &mut bare);
        bare.ok(table::DROP);
    }
    units
}

#[test]
fn folded_on_one_server() {
    let stage = Stage::for_groups();
    let units = check_cases("one server", &stage, 1);
    stage.assert_grouped((units * 8 / 100) as i64, 3);
}

/// The number of requests that are short enough for a chain depends on the machine, so the test does not check it.
#[test]
fn chained_only() {
    let stage = Stage::on_shared()
        .set("default_pool_size=1")
        .set("hotspot_for_autocommit=true")
        .set("hotspot_lock_type=false")
        .open();
    check_cases("chains", &stage, 1);
}

/// The generator is useful only if most of its units succeed and some fail.
#[test]
fn the_generator_makes_successes_and_failures() {
    let stage = Stage::on_shared().open();
    let mut bare = stage.direct();
    bare.ok(table::DOMAINS);
    let (mut units, mut succeeded) = (0, 0);
    for number in 0..CASES {
        let case = Case::generate(&mut Rng::new(number as u64), &mut bare);
        let replies = case.one_at_a_time(&mut bare);
        units += replies.len();
        succeeded += case.succeeded(&replies);
        bare.ok(table::DROP);
        bare.ok("DEALLOCATE ALL");
    }
    println!("{succeeded} of {units} units succeeded");
    assert!(succeeded * 2 > units && succeeded * 20 < units * 19);
}
