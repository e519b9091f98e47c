//! Generated reads of a table whose rows all show one version, and the versions that a writer gives it.

use super::template::Template;
use super::values::Role;
use crate::harness::Rng;
use crate::harness::raw::RawClient;

/// The questions read `v`; `n` makes an answer take longer. Nothing may change the plan between two runs of a
/// question: which rows come before an error depends on it.
pub(super) const SETUP: &str = "
    CREATE TABLE v (id int PRIMARY KEY, version int NOT NULL, rest int, body text)
        WITH (autovacuum_enabled = off);
    INSERT INTO v SELECT i, 0 FROM generate_series(1, 20) i;
    CREATE TABLE n (i int PRIMARY KEY) WITH (autovacuum_enabled = off);
    INSERT INTO n SELECT generate_series(1, 4000)";

/// Brings all rows from one version to another, at once. What they hold follows from the version alone.
pub(super) fn write(version: i64) -> String {
    format!(
        "UPDATE v SET version = {version}, rest = NULLIF({version} % 4, 0), \
         body = repeat(chr(97 + {version} % 26), 10 + {version} % 30)"
    )
}

/// The possible questions; `{number}` is a small number. A row begins with the version.
const QUESTIONS: [&str; 8] = [
    "id, rest, body FROM v WHERE id <= {number}",
    // Longer than any buffer on the way.
    "id, repeat(body, 100 * {number}) FROM v",
    // Nothing, in most versions.
    "id FROM v WHERE version % 3 = {number}",
    // An error, in some versions.
    "id, 100 / (version % 4 - {number}) FROM v",
    "id, 100 / (rest - {number}) FROM v WHERE rest IS NOT NULL",
    // An error in a row, in every version.
    "id, 100 / (id - {number}) FROM v",
    "id, (rest, body)::text, rest * {number} FROM v",
    "id, rest > {number}, ARRAY[version, rest] FROM v",
];
/// Makes a question take several milliseconds.
const SLOWLY: &str = ", (SELECT count(*) FROM n WHERE i % 7 < id)";

/// A read, slow or not.
pub(super) fn generate(number: usize, oracle: &mut RawClient, rng: &mut Rng) -> Template {
    let question = *rng.pick(&QUESTIONS);
    let question = match rng.chance(80) {
        true => question.replacen(" FROM v", &format!("{SLOWLY} FROM v"), 1),
        false => question.to_owned(),
    };
    let pattern = format!(
        "SELECT version::text, {question} ORDER BY id /* read {} */",
        rng.next()
    );
    Template::of_pattern(format!("read{number}"), &pattern, vec![Role::Int], oracle)
}

/// A value for its hole.
pub(super) fn value(rng: &mut Rng) -> Option<String> {
    match rng.chance(5) {
        true => None,
        false => Some(rng.below(6).to_string()),
    }
}
