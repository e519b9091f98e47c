//! Generated units: a template with values, sent in one of the ways that drivers do.

use super::table::Table;
use super::template::Template;
use super::values::{Role, Value, literal, quoted};
use crate::harness::Rng;
use crate::harness::message;
use crate::harness::raw::RawClient;

/// A unit of one client.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) template: usize,
    values: Vec<Value>,
    way: Way,
}

/// The protocol of a unit.
#[derive(Debug, Clone)]
enum Way {
    /// One Query; a literal and its kind for every hole.
    Simple(Vec<(String, &'static str)>),
    /// Extended; with Parse of the unnamed statement or by the name given before.
    Extended {
        named: bool,
        describe: bool,
        binary_results: bool,
        /// The binary form of parameters that are sent so.
        binary: Vec<Option<Vec<u8>>>,
        /// The row limit of Execute; 0 is none.
        row_limit: u32,
    },
}

impl Unit {
    pub(super) fn generate(
        number: usize,
        template: &Template,
        table: &Table,
        oracle: &mut RawClient,
        rng: &mut Rng,
    ) -> Unit {
        // A statement that can insert uses the missing row more often than the others.
        let row = match template.inserts && rng.chance(40) {
            true => Table::KEYS - 1,
            false => rng.below(Table::KEYS),
        };
        // The distance between the rows of one unit; 0 if they are one row.
        let stride = if rng.chance(12) { 0 } else { 1 + rng.below(2) };
        let mut keys = Keys::new(table, row, stride);
        let values: Vec<Value> = template
            .holes
            .iter()
            .map(|role| match role {
                Role::Key(column) => {
                    let key = keys.next(*column);
                    (!rng.chance(3)).then_some(key)
                }
                role => role.sample(rng),
            })
            .collect();
        Unit::of(number, template, values, oracle, rng)
    }

    /// These values, sent in a way that `rng` decides.
    pub(super) fn of(
        number: usize,
        template: &Template,
        values: Vec<Value>,
        oracle: &mut RawClient,
        rng: &mut Rng,
    ) -> Unit {
        let way = if rng.chance(45) {
            Way::Simple(literals(template, &values, rng))
        } else {
            Way::Extended {
                named: rng.chance(60),
                describe: rng.chance(60),
                binary_results: rng.chance(40),
                binary: match rng.chance(50) {
                    true => binaries(template, &values, oracle),
                    false => vec![None; values.len()],
                },
                row_limit: match rng.chance(40) {
                    true => 1 + rng.below(3) as u32,
                    false => 0,
                },
            }
        };
        Unit {
            template: number,
            values,
            way,
        }
    }

    /// With a row limit, if any, that is higher than the number of rows.
    pub(super) fn with_all_rows(mut self) -> Unit {
        if let Way::Extended { row_limit, .. } = &mut self.way {
            *row_limit *= 1_000;
        }
        self
    }

    pub(super) fn is_named(&self) -> bool {
        matches!(self.way, Way::Extended { named: true, .. })
    }

    pub(super) fn bytes(&self, template: &Template) -> Vec<u8> {
        let Way::Extended {
            named,
            describe,
            binary_results,
            binary,
            row_limit,
        } = &self.way
        else {
            return message::query(&self.sql(template));
        };
        let name = if *named { template.name() } else { "" };
        let mut bytes = Vec::new();
        if !named {
            bytes.extend(message::parse("", &template.parametrised(), &[]));
        }
        let formats: Vec<u16> = binary
            .iter()
            .map(|value| u16::from(value.is_some()))
            .collect();
        let values: Vec<Option<Vec<u8>>> = self
            .values
            .iter()
            .zip(binary)
            .map(|(text, binary)| {
                binary
                    .clone()
                    .or_else(|| text.clone().map(String::into_bytes))
            })
            .collect();
        let results = [u16::from(*binary_results)];
        bytes.extend(message::bind_formats("", name, &formats, &values, &results));
        if *describe {
            bytes.extend(message::describe(b'P', ""));
        }
        bytes.extend(message::execute("", *row_limit));
        bytes.extend(message::sync());
        bytes
    }

    /// Units of one kind are the same statement to Paceline.
    pub(super) fn kind(&self, template: &Template) -> String {
        match &self.way {
            Way::Simple(literals) => {
                let kinds: Vec<&str> = literals.iter().map(|(_, kind)| *kind).collect();
                format!("{} {}", template.name(), kinds.join(" "))
            }
            Way::Extended {
                named,
                describe,
                binary_results,
                binary,
                row_limit: _,
            } => {
                let formats: String = binary
                    .iter()
                    .map(|value| if value.is_some() { 'b' } else { 't' })
                    .collect();
                format!(
                    "{} {named} {describe} {binary_results} {formats}",
                    template.name()
                )
            }
        }
    }

    /// The same on a row that does not exist, and those behind it.
    pub(super) fn on_missing_row(&self, table: &Table, template: &Template) -> Unit {
        let mut unit = self.clone();
        let mut keys = Keys::new(table, Table::KEYS - 1, 1);
        for (at, role) in template.holes.iter().enumerate() {
            let Role::Key(column) = role else {
                continue;
            };
            let text = keys.next(*column);
            if self.values[at].is_none() {
                continue;
            }
            match &mut unit.way {
                Way::Simple(literals) => {
                    let bare = literals[at].1 == "int4";
                    literals[at].0 = if bare {
                        text.clone()
                    } else {
                        quoted(Some(&text))
                    };
                }
                Way::Extended { binary, .. } => binary[at] = None,
            }
            unit.values[at] = Some(text);
        }
        unit
    }

    pub(super) fn describe(&self, template: &Template) -> String {
        match &self.way {
            Way::Simple(_) => self.sql(template),
            way => format!(
                "{} with {:?}, {way:?}",
                template.parametrised(),
                self.values
            ),
        }
    }

    fn sql(&self, template: &Template) -> String {
        match &self.way {
            Way::Simple(literals) => {
                let texts: Vec<String> = literals.iter().map(|(text, _)| text.clone()).collect();
                template.filled(&texts)
            }
            Way::Extended { .. } => template.parametrised(),
        }
    }
}

/// The keys of a unit's rows, column by column.
struct Keys<'a> {
    table: &'a Table,
    row: usize,
    stride: usize,
    given: usize,
}

impl<'a> Keys<'a> {
    fn new(table: &'a Table, row: usize, stride: usize) -> Self {
        Self {
            table,
            row,
            stride,
            given: 0,
        }
    }

    fn next(&mut self, column: usize) -> String {
        let number = self.given / self.table.keys.len();
        self.given += 1;
        let row = (self.row + number * self.stride) % Table::KEYS;
        self.table.key_text(row, column)
    }
}

fn literals(template: &Template, values: &[Value], rng: &mut Rng) -> Vec<(String, &'static str)> {
    template
        .holes
        .iter()
        .zip(values)
        .map(|(role, value)| {
            let number = matches!(role, Role::Key(column) if template.number_keys[*column]);
            literal(*role, number, value, rng)
        })
        .collect()
}

/// The values in PostgreSQL's binary form, as PostgreSQL itself writes them; `None` where a value cannot be of the type.
fn binaries(template: &Template, values: &[Value], oracle: &mut RawClient) -> Vec<Option<Vec<u8>>> {
    if template.types.is_empty() {
        return vec![None; values.len()];
    }
    let mut binary = |kind: &String, value: &Value| {
        let sql = format!("SELECT {}::{kind}", quoted(Some(value.as_deref()?)));
        let unit = [
            message::parse("", &sql, &[]),
            message::bind_formats("", "", &[], &[], &[1]),
            message::execute("", 0),
            message::sync(),
        ];
        let reply = oracle.ask(&unit.concat());
        let row = reply.0.iter().find(|message| message.tag == b'D')?;
        row.raw_values().remove(0)
    };
    template
        .types
        .iter()
        .zip(values)
        .map(|(kind, value)| binary(kind, value))
        .collect()
}
