//! Random programs on sharded tables and on one server: the same answers, to the byte. A part of the statements only look as if they
//! had a key.

use super::{ShardedAccounts, on_shards};
use crate::harness::message::{bind_formats, describe, execute, parse, query, sync};
use crate::harness::raw::RawClient;
use crate::harness::reply::transcript;
use crate::harness::{Reply, Rng, assert_same};

const STATEMENTS: usize = 400;

/// INT4, INT8, NUMERIC, TEXT, and none.
const TYPES: [u32; 6] = [0, 0, 20, 23, 1700, 25];

/// A statement whose key is `$1`, and whose other value is `$2`.
const FORMS: [&str; 14] = [
    "SELECT * FROM accounts WHERE id = $1 AND balance >= $2",
    "SELECT owner, at, $2::text AS given FROM accounts a WHERE a.id = $1",
    "SELECT count(*), sum(balance) FROM accounts WHERE $1 = id OR balance = $2",
    "SELECT id FROM accounts WHERE id = $1 AND id = $2 ORDER BY id",
    "SELECT id FROM accounts WHERE id IN ($1) AND balance <> $2 GROUP BY id",
    "SELECT id FROM accounts WHERE id IN ($1, $2) ORDER BY id",
    "UPDATE accounts SET balance = $2 WHERE id = $1 RETURNING *",
    "UPDATE accounts SET balance = balance + $2, tags = tags || 1 WHERE accounts.id = $1",
    "UPDATE accounts SET note = $2 WHERE id = $1 AND owner IS NOT NULL RETURNING note",
    "UPDATE accounts SET owner = $2 WHERE id = $1 OR id = -1",
    "DELETE FROM accounts WHERE id = $1 AND balance < $2 RETURNING id, tags",
    "INSERT INTO accounts (id, balance) VALUES ($1, $2)",
    "INSERT INTO accounts (balance, id) VALUES ($2, $1) ON CONFLICT (id) DO NOTHING RETURNING *",
    "INSERT INTO accounts VALUES ($1, 'o', $2) ON CONFLICT (id) DO UPDATE SET balance = accounts.balance + excluded.balance RETURNING balance",
];

/// A key as SQL.
fn key(rng: &mut Rng) -> String {
    let number = rng.between(1, 50);
    match rng.below(16) {
        0 => format!("'{number}'"),
        1 => format!("{number}::bigint"),
        2 => format!("'{number}'::int"),
        3 => format!("{number}.0"),
        4 => format!("{number} + 0"),
        5 => "NULL".to_owned(),
        6 => format!("-{number}"),
        7 => format!("' {number}'"),
        8 => "9223372036854775808".to_owned(),
        9 => "'x'".to_owned(),
        10 => format!("abs({number})"),
        _ => number.to_string(),
    }
}

fn literal(rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => "NULL".to_owned(),
        1 => "'7'".to_owned(),
        2 => "'ä''x'".to_owned(),
        3 => "-200".to_owned(),
        4 => "1.255".to_owned(),
        _ => rng.between(1, 60).to_string(),
    }
}

/// The messages of a random statement.
fn request(rng: &mut Rng) -> Vec<u8> {
    let form = *rng.pick(&FORMS);
    if rng.chance(50) {
        let sql = form.replace("$1", &key(rng)).replace("$2", &literal(rng));
        return query(&sql);
    }
    let types = [*rng.pick(&TYPES), *rng.pick(&TYPES)];
    let number = rng.between(1, 50);
    let (value, format) = match (rng.below(8), types[0]) {
        (0, _) => (None, 0),
        (1, _) => (Some(b"x".to_vec()), 0),
        (2 | 3, 20) => (Some(number.to_be_bytes().to_vec()), 1),
        (2 | 3, 23) => (Some((number as i32).to_be_bytes().to_vec()), 1),
        _ => (Some(number.to_string().into_bytes()), 0),
    };
    let other = rng.between(1, 60).to_string().into_bytes();
    let values = [value, Some(other).filter(|_| rng.chance(90))];
    let results = [u16::from(rng.chance(30))];
    let mut request = parse("", form, &types);
    request.extend(bind_formats("", "", &[format, 0], &values, &results));
    if rng.chance(60) {
        request.extend(describe(b'P', ""));
    }
    request.extend(execute("", 0));
    request.extend(sync());
    request
}

/// The same answer. What the coordinator executes may fail with other words, and it has no unique keys for ON CONFLICT.
#[track_caller]
fn assert_alike(what: &str, on_shard: bool, there: &Reply, here: &Reply) {
    let fails = here.error().is_some();
    if on_shard || !fails {
        return assert_same(what, &there.0, &here.0);
    }
    let same = here.sqlstate() == there.sqlstate() || here.sqlstate() == "42P10";
    assert!(
        same,
        "{what}: {:?} and {:?}",
        transcript(&there.0),
        transcript(&here.0)
    );
}

fn rows(client: &mut RawClient) -> Reply {
    client.ok("SELECT * FROM accounts ORDER BY id")
}

#[test]
fn a_random_program_has_the_answers_of_one_server() {
    let sharded = ShardedAccounts::serving("hotspot_for_autocommit = true");
    let mut rng = Rng::new(paceline_testing::seed());
    let (mut client, mut whole) = (sharded.client(), sharded.whole());
    let mut shown = sharded.client();
    let mut coordinator = sharded.coordinator.client("postgres");
    let before = on_shards(&mut shown);
    let mut seen = before;
    for number in 0..STATEMENTS {
        let request = request(&mut rng);
        let what = format!("statement {number}: {}", request.escape_ascii());
        println!("{what}");
        let here = client.ask(&request);
        let now = on_shards(&mut shown);
        if here.sqlstate() == "42P10" {
            // The coordinator cannot execute it, and has done nothing.
            continue;
        }
        let there = whole.ask(&request);
        assert_alike(&what, now > seen, &there, &here);
        seen = now;
        if number % 20 == 0 {
            assert_same(&what, &rows(&mut whole).0, &rows(&mut coordinator).0);
        }
    }
    assert_same("all rows", &rows(&mut whole).0, &rows(&mut coordinator).0);
    let share = (seen - before) as usize * 100 / STATEMENTS;
    println!("{share} % of the statements ran on shards");
    assert!(share >= 30, "{share} %");
}
