//! Generated templates of updates, inserts and upserts: text with holes for parameters, and the types that PostgreSQL gives the holes.

use super::table::{Column, Table};
use super::values::{Kind, Role};
use crate::harness::Rng;
use crate::harness::message;
use crate::harness::raw::RawClient;

/// A statement with holes.
#[derive(Debug, Clone)]
pub(super) struct Template {
    /// The text around the holes: one more than there are holes.
    pub(super) text: Vec<String>,
    pub(super) holes: Vec<Role>,
    /// The holes' types on PostgreSQL, by name; empty when it cannot be prepared.
    pub(super) types: Vec<String>,
    /// Key columns that are numbers.
    pub(super) number_keys: Vec<bool>,
    /// It is an upsert.
    pub(super) inserts: bool,
    name: String,
}

impl Template {
    pub(super) fn generate(
        number: usize,
        table: &Table,
        oracle: &mut RawClient,
        rng: &mut Rng,
    ) -> Template {
        let mut build = Build {
            text: vec![String::new()],
            holes: Vec::new(),
            proposed: Vec::new(),
        };
        let hint = if rng.chance(35) {
            "/*+ COMMIT_ON_SUCCESS */ "
        } else {
            ""
        };
        let inserts = rng.chance(40);
        if inserts {
            build.push(&format!("INSERT {hint}INTO t "));
            build.upsert(table, rng);
        } else {
            build.push(&format!("UPDATE {hint}t SET "));
            build.assignments(table, rng);
            build.condition(table, rng);
        }
        build.returning(table, rng);
        // Every table has texts of its own: statements are known by their text.
        build.push(&format!(" /* table {} */", rng.next()));
        let mut template = Template {
            text: build.text,
            holes: build.holes,
            types: Vec::new(),
            number_keys: table.keys.iter().map(|key| key.kind.is_number()).collect(),
            inserts,
            name: format!("template{number}"),
        };
        template.types = types(oracle, &template.parametrised()).unwrap_or_default();
        template
    }

    /// A statement whose holes are written `{name}` in `pattern`; `roles` are theirs, in order.
    pub(super) fn of_pattern(
        name: String,
        pattern: &str,
        roles: Vec<Role>,
        oracle: &mut RawClient,
    ) -> Template {
        let text = pattern.split('{').enumerate().map(|(number, part)| {
            let text = part.split_once('}').map(|(_, text)| text);
            text.filter(|_| number > 0).unwrap_or(part).to_owned()
        });
        let mut template = Template {
            text: text.collect(),
            holes: roles,
            types: Vec::new(),
            number_keys: Vec::new(),
            inserts: false,
            name,
        };
        template.types = types(oracle, &template.parametrised()).unwrap_or_default();
        template
    }

    /// The same with a part of its text exchanged.
    pub(super) fn replaced(&self, part: &str, by: &str) -> Template {
        let mut template = self.clone();
        for text in &mut template.text {
            *text = text.replace(part, by);
        }
        template
    }

    /// With `$1`, `$2`, … in the holes.
    pub(super) fn parametrised(&self) -> String {
        let values: Vec<String> = (1..=self.holes.len())
            .map(|number| format!("${number}"))
            .collect();
        self.filled(&values)
    }

    /// With these texts in the holes.
    pub(super) fn filled(&self, values: &[String]) -> String {
        let mut sql = self.text[0].clone();
        for (value, text) in values.iter().zip(&self.text[1..]) {
            sql.push_str(value);
            sql.push_str(text);
        }
        sql
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Parse, under its name.
    pub(super) fn prepare(&self) -> Vec<u8> {
        [
            message::parse(&self.name, &self.parametrised(), &[]),
            message::sync(),
        ]
        .concat()
    }
}

struct Build {
    text: Vec<String>,
    holes: Vec<Role>,
    /// Columns that an upsert gives values to.
    proposed: Vec<String>,
}

impl Build {
    fn push(&mut self, text: &str) {
        self.text.last_mut().unwrap().push_str(text);
    }

    fn hole(&mut self, role: Role) {
        self.holes.push(role);
        self.text.push(String::new());
    }

    fn assignments(&mut self, table: &Table, rng: &mut Rng) {
        let first = rng.below(table.columns.len());
        let count = 1 + rng.below(2);
        for at in 0..count {
            let column = &table.columns[(first + at) % table.columns.len()];
            self.push(if at > 0 { ", " } else { "" });
            self.push(&format!("{} = ", column.name));
            self.pattern((*rng.pick(assignments(column.kind))).to_owned(), column);
        }
    }

    fn upsert(&mut self, table: &Table, rng: &mut Rng) {
        let chosen: Vec<&Column> = table.columns.iter().filter(|_| rng.chance(80)).collect();
        let keys: Vec<&str> = table.keys.iter().map(|key| key.name.as_str()).collect();
        let mut names = keys.clone();
        names.extend(chosen.iter().map(|column| column.name.as_str()));
        self.push(&format!("({}) VALUES (", names.join(", ")));
        let roles: Vec<Role> = chosen.iter().map(|column| proposed(column, rng)).collect();
        self.row(keys.len(), &roles);
        for _ in 0..*rng.pick(&[0, 0, 1, 1, 2]) {
            self.push("), (");
            match rng.chance(10) {
                true => {
                    let others = chosen.iter().map(|column| proposed(column, rng));
                    self.row(keys.len(), &others.collect::<Vec<_>>());
                }
                false => self.row(keys.len(), &roles),
            }
        }
        if rng.chance(25) {
            return self.push(")");
        }
        self.push(") ON CONFLICT ");
        if rng.chance(15) {
            return self.push("DO NOTHING");
        }
        self.push(&format!("({}) ", keys.join(", ")));
        if rng.chance(20) {
            return self.push("DO NOTHING");
        }
        self.push("DO UPDATE SET ");
        self.proposed = chosen.iter().map(|column| column.name.clone()).collect();
        self.assignments(table, rng);
        if rng.chance(40) {
            let column = rng.pick(&table.columns);
            self.push(" WHERE ");
            self.pattern((*rng.pick(guards(column.kind))).to_owned(), column);
        }
    }

    /// A row of VALUES.
    fn row(&mut self, keys: usize, roles: &[Role]) {
        for number in 0..keys {
            self.push(if number > 0 { ", " } else { "" });
            self.hole(Role::Key(number));
        }
        for role in roles {
            self.push(", ");
            self.hole(*role);
            self.push(if *role == Role::Int { " + 1" } else { "" });
        }
    }

    fn condition(&mut self, table: &Table, rng: &mut Rng) {
        for (number, key) in table.keys.iter().enumerate() {
            self.push(if number > 0 { " AND " } else { " WHERE " });
            self.push(&format!("{} = ", key.name));
            self.hole(Role::Key(number));
        }
        if rng.chance(45) {
            let column = rng.pick(&table.columns);
            self.push(" AND ");
            self.pattern((*rng.pick(guards(column.kind))).to_owned(), column);
        }
    }

    fn returning(&mut self, table: &Table, rng: &mut Rng) {
        let column = rng.pick(&table.columns);
        let pattern = match rng.below(10) {
            0..3 => return,
            3 => "*".to_owned(),
            4 => "{c}".to_owned(),
            5 => format!("{{c}} AS renamed, {}", table.keys[0].name),
            6 => "{c}::text, {c} IS NULL".to_owned(),
            7 => "tableoid::regclass, {c}".to_owned(),
            8 if column.kind.is_integer() => "1000 / {c} AS quotient".to_owned(),
            _ => "t.*, 1 AS one, 'constant' AS text".to_owned(),
        };
        self.push(" RETURNING ");
        self.pattern(pattern, column);
    }

    /// Adds `pattern` with `{c}` for the column and `{role}` for holes.
    fn pattern(&mut self, pattern: String, column: &Column) {
        let mut rest = pattern.as_str();
        while let Some((before, behind)) = rest.split_once('{') {
            let (word, after) = behind.split_once('}').unwrap();
            self.push(before);
            match word {
                "c" => self.push(&format!("t.{}", column.name)),
                "own" | "int" | "text" if self.proposed.contains(&column.name) => {
                    self.push(&format!("EXCLUDED.{}", column.name));
                }
                "int" => self.hole(Role::Int),
                "dec" => self.hole(Role::Decimal),
                "text" => self.hole(Role::Text),
                "interval" => self.hole(Role::Interval),
                "json" => self.hole(Role::Json),
                "bool" => self.hole(Role::Bool),
                "own" => self.hole(Role::Own(column.kind)),
                other => panic!("no role {other}"),
            }
            rest = after;
        }
        self.push(rest);
    }
}

/// The value for a column in a row of VALUES.
fn proposed(column: &Column, rng: &mut Rng) -> Role {
    match column.kind {
        kind if kind.is_integer() && rng.chance(30) => Role::Int,
        kind => Role::Own(kind),
    }
}

fn assignments(kind: Kind) -> &'static [&'static str] {
    match kind {
        kind if kind.is_integer() => &[
            "{c} + {int}",
            "{c} + {int}",
            "{c} - {int}",
            "{c} - {int}",
            "{c} * {int}",
            "{c} / {int}",
            "{own}",
            "coalesce({c}, 0) + {int}",
            "greatest({c}, {int})",
            "CASE WHEN {c} > {int} THEN {c} - {int} ELSE {c} + 1 END",
            "NULL",
            "{c} + 1",
            "-{c}",
            "{c} + {dec}",
            "({c} + {int}) % 7",
            "{c} + {int} * 2",
            "{c} + 60 / ({int} - 4)",
        ],
        kind if kind.is_number() => &[
            "{c} + {dec}",
            "{c} - {dec}",
            "{c} * {dec}",
            "{c} / {dec}",
            "{own}",
            "round({c} * {dec})",
            "{c} - {int}",
            "sqrt({c})",
            "NULL",
        ],
        kind if kind.is_text() => &[
            "{c} || {text}",
            "{c} || {text}",
            "upper({c})",
            "{own}",
            "left({c}, {int})",
            "{c} || 'x'",
            "NULL",
        ],
        Kind::Timestamptz => &[
            "{own}",
            "{c} + {interval}",
            "{c} - {interval}::interval",
            "date_trunc('hour', {c})",
        ],
        Kind::Bool => &["NOT {c}", "{own}", "{c} AND {bool}", "{c} IS NULL"],
        Kind::Jsonb => &[
            "{own}",
            "{c} || {json}",
            "{c} - {text}::text",
            "jsonb_set({c}, array['a'], {json})",
        ],
        Kind::IntArray => &["array_append({c}, {int})", "{own}", "{c}[1:2]"],
        Kind::TextArray => &["array_append({c}, {text})", "{own}"],
        _ => &["{own}", "NULL"],
    }
}

fn guards(kind: Kind) -> &'static [&'static str] {
    match kind {
        kind if kind.is_number() => &[
            "{c} >= {int}",
            "{c} <> {int}",
            "{c} IS NOT NULL",
            "{c} < 1000 / ({c} - {int})",
            "{c} > {int} - 3",
            "{c} < 30 / {int} * 2",
        ],
        kind if kind.is_text() => &["{c} <> {text}", "{c} LIKE {text}", "length({c}) < {int}"],
        Kind::Bool => &["{c}", "NOT {c}", "{c} IS NOT TRUE"],
        _ => &[
            "{c} IS NOT NULL",
            "{c} IS DISTINCT FROM {own}",
            "{c} IS NULL",
        ],
    }
}

/// The types that PostgreSQL gives the parameters.
fn types(oracle: &mut RawClient, sql: &str) -> Option<Vec<String>> {
    let reply = oracle.ask(
        &[
            message::parse("", sql, &[]),
            message::describe(b'S', ""),
            message::sync(),
        ]
        .concat(),
    );
    let description = reply.0.iter().find(|message| message.tag == b't')?;
    let oids = description.body[2..].chunks_exact(4);
    Some(
        oids.map(|oid| {
            let oid = u32::from_be_bytes(oid.try_into().unwrap());
            oracle.value(&format!("SELECT format_type({oid}, NULL)"))
        })
        .collect(),
    )
}
