//! Generated reads, many of them the same, asked by many clients while a writer changes the table: each answer is, byte
//! for byte, one that PostgreSQL would have given at some moment between question and answer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use super::template::Template;
use super::unit::Unit;
use super::{cases, question};
use crate::harness::message::query;
use crate::harness::raw::RawClient;
use crate::harness::reply::transcript;
use crate::harness::stage::Target;
use crate::harness::{Reply, Rng, Stage};

const CASES: usize = 5;
const READERS: usize = 16;
/// Questions of each.
const READS: usize = 8;

/// Some reads, and which client sends which of them.
struct Case {
    templates: Vec<Template>,
    questions: Vec<Unit>,
    readers: Vec<Vec<Step>>,
    /// One of this number of writes is sent through Paceline.
    through_paceline: i64,
}

/// A reader sends a read.
struct Step {
    question: usize,
    /// Round trips to PostgreSQL that it makes before.
    dawdles: usize,
}

/// A question, its answer, and the versions that the table may have had in between.
struct Seen {
    question: usize,
    /// The newest that was acknowledged to a writer when the read was sent.
    oldest: i64,
    /// The newest that was sent to PostgreSQL when the answer had arrived.
    newest: i64,
    reply: Reply,
}

/// The progress of the writer.
struct Versions {
    sent: AtomicI64,
    acknowledged: AtomicI64,
    enough: AtomicBool,
}

impl Case {
    fn generate(oracle: &mut RawClient, rng: &mut Rng) -> Case {
        let templates: Vec<Template> = (0..1 + rng.below(2))
            .map(|number| question::generate(number, oracle, rng))
            .collect();
        let questions: Vec<Unit> = (0..1 + rng.below(4))
            .map(|_| {
                let number = rng.below(templates.len());
                let value = vec![question::value(rng)];
                Unit::of(number, &templates[number], value, oracle, rng)
            })
            .collect();
        let mut step = || Step {
            question: rng.below(questions.len()),
            dawdles: rng.below(8),
        };
        let readers = (0..READERS)
            .map(|_| (0..READS).map(|_| step()).collect())
            .collect();
        Case {
            readers,
            templates,
            questions,
            through_paceline: rng.between(3, 40),
        }
    }

    fn bytes(&self, question: usize) -> Vec<u8> {
        let unit = &self.questions[question];
        unit.bytes(&self.templates[unit.template])
    }

    fn describe(&self, question: usize) -> String {
        let unit = &self.questions[question];
        unit.describe(&self.templates[unit.template])
    }

    fn prepare(&self, client: &mut RawClient) {
        for template in &self.templates {
            client.ask(&template.prepare());
        }
    }

    /// All readers at once, and the writer until they have done.
    fn run(&self, stage: &Stage, from: i64) -> Vec<Seen> {
        let versions = Versions {
            sent: AtomicI64::new(from),
            acknowledged: AtomicI64::new(from),
            enough: AtomicBool::new(false),
        };
        thread::scope(|scope| {
            let writer = scope.spawn(|| self.write(stage, &versions));
            let mut readers = Vec::new();
            for steps in &self.readers {
                readers.push(scope.spawn(|| self.read(stage, steps, &versions)));
            }
            let ended: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
            versions.enough.store(true, Ordering::SeqCst);
            writer.join().unwrap();
            ended.into_iter().flat_map(Result::unwrap).collect()
        })
    }

    fn read(&self, stage: &Stage, steps: &[Step], versions: &Versions) -> Vec<Seen> {
        let (mut client, mut direct) = (stage.client(), stage.direct());
        self.prepare(&mut client);
        let ask = |step: &Step| {
            for _ in 0..step.dawdles {
                direct.ok("SELECT 1");
            }
            let oldest = versions.acknowledged.load(Ordering::SeqCst);
            let reply = client.ask(&self.bytes(step.question));
            Seen {
                question: step.question,
                oldest,
                newest: versions.sent.load(Ordering::SeqCst),
                reply,
            }
        };
        steps.iter().map(ask).collect()
    }

    fn write(&self, stage: &Stage, versions: &Versions) {
        let (mut client, mut direct) = (stage.client(), stage.direct());
        direct.ok("SET synchronous_commit = off");
        while !versions.enough.load(Ordering::SeqCst) {
            let version = versions.sent.fetch_add(1, Ordering::SeqCst) + 1;
            let writer = match version % self.through_paceline {
                0 => &mut client,
                _ => &mut direct,
            };
            writer.ok(&question::write(version));
            versions.acknowledged.store(version, Ordering::SeqCst);
        }
    }
}

/// The answers of PostgreSQL by version of the table; each question is asked once.
struct Reference<'a> {
    case: &'a Case,
    bare: RawClient,
    known: BTreeMap<(usize, i64), Vec<String>>,
}

impl<'a> Reference<'a> {
    fn new(case: &'a Case, stage: &Stage) -> Self {
        let mut bare = stage.direct();
        bare.ok("SET synchronous_commit = off");
        case.prepare(&mut bare);
        Reference {
            case,
            bare,
            known: BTreeMap::new(),
        }
    }

    fn at(&mut self, question: usize, version: i64) -> &[String] {
        self.known.entry((question, version)).or_insert_with(|| {
            self.bare.ask(&query(&question::write(version)));
            transcript(&self.bare.ask(&self.case.bytes(question)).0)
        })
    }

    #[track_caller]
    fn check(&mut self, label: &str, seen: &Seen) {
        let lines = transcript(&seen.reply.0);
        let shown = seen.reply.rows().first().and_then(|row| row[0].clone());
        let shown: Option<i64> = shown.map(|version| version.parse().unwrap());
        let range = seen.oldest..=seen.newest;
        let mut possible = range
            .clone()
            .filter(|v| shown.is_none_or(|shown| *v == shown));
        let fits = possible.any(|version| self.at(seen.question, version) == lines);
        assert!(
            fits,
            "{label}: {} was answered as in none of the versions {range:?}; it shows {shown:?}:\n{}",
            self.case.describe(seen.question),
            lines.join("\n")
        );
    }
}

/// Units that were answered by shared reads, and the reads that it took.
pub(in crate::groups) fn shared(stage: &Stage) -> (i64, i64) {
    let reply = stage.client().ok("SHOW GROUPS");
    let columns = reply.0[0].columns();
    let place = |name| columns.iter().position(|column| column == name).unwrap();
    let (strategy, units, groups) = (place("strategy"), place("units"), place("groups"));
    let number = |text: &Option<String>| text.as_ref().map_or(0, |text| text.parse().unwrap());
    let rows = reply.rows().into_iter();
    rows.filter(|row| row[strategy].as_deref() == Some("share"))
        .fold((0, 0), |(u, g), row| {
            (u + number(&row[units]), g + number(&row[groups]))
        })
}

#[test]
fn shares_while_a_writer_writes() {
    let seed = paceline_testing::seed();
    let stage = Stage::on_shared().set("default_pool_size=1").open();
    let mut bare = stage.direct();
    bare.ok(question::SETUP);
    let (mut version, mut reads) = (0, 0);
    for number in 0..cases(CASES) {
        let mut rng = Rng::new(seed.wrapping_add(number as u64 * 7919));
        bare.ok(&question::write(version));
        let case = Case::generate(&mut bare, &mut rng);
        let seen = case.run(&stage, version);
        let mut reference = Reference::new(&case, &stage);
        for seen in &seen {
            reference.check(&format!("shares, case {number}"), seen);
        }
        reads += seen.len() as i64;
        version = seen.iter().map(|seen| seen.newest).max().unwrap() + 1;
    }
    if stage.target() == Target::Paceline {
        let (units, groups) = shared(&stage);
        println!("{reads} reads; {units} of them were answered by {groups} shared ones");
        assert!(units > groups, "no read was shared");
    }
}
