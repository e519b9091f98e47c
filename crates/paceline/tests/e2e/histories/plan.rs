//! Generated transactions over lists, to which values are appended, and registers, which count their versions.

use crate::harness::Rng;
use crate::harness::message::{query, run, sync, unit};
use paceline_testing::histories::{Key, Level, Value};

pub(super) const SETUP: &str = "
    CREATE TABLE lists (k int PRIMARY KEY, l int[] NOT NULL);
    CREATE TABLE registers (k int PRIMARY KEY, n int NOT NULL, v int NOT NULL)";

/// Transactions until the next keys are used: lists that grow longer take long to compare.
const PER_KEYS: u32 = 150;
/// Keys in use at a time; every third one is a register.
const KEYS: u32 = 6;

/// A table with its statements. `$1` is the key, `$2` the value.
struct Table {
    upsert: &'static str,
    update: &'static str,
    returning: &'static str,
    read: &'static str,
}

const LISTS: Table = Table {
    upsert: "INSERT INTO lists VALUES ($1, ARRAY[$2::int]) ON CONFLICT (k) DO UPDATE SET l = lists.l || EXCLUDED.l",
    update: "UPDATE lists SET l = l || $2::int WHERE k = $1",
    returning: "RETURNING k, array_length(l, 1), l",
    read: "SELECT k, array_length(l, 1), l FROM lists",
};

const REGISTERS: Table = Table {
    upsert: "INSERT INTO registers VALUES ($1, 1, $2) ON CONFLICT (k) DO UPDATE SET n = registers.n + 1, v = EXCLUDED.v",
    update: "UPDATE registers SET n = n + 1, v = $2 WHERE k = $1",
    returning: "RETURNING k, n, v",
    read: "SELECT k, n, v FROM registers",
};

/// Whether the key is that of a register.
pub(super) fn is_register(key: Key) -> bool {
    key.is_multiple_of(3)
}

fn table(key: Key) -> &'static Table {
    if is_register(key) { &REGISTERS } else { &LISTS }
}

/// A statement with its parameters.
#[derive(Debug, Clone)]
pub(super) struct Statement {
    pub(super) does: Does,
    sql: String,
    parameters: Vec<String>,
}

/// The effect of a statement, if it succeeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Does {
    Begin,
    Write(Key, Value),
    Read(Vec<Key>),
    Commit,
    Rollback,
}

/// Statements that are sent together, and answered up to one ReadyForQuery.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
    pub(super) statements: Vec<Does>,
}

/// A transaction as a client sends it.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) level: Level,
    pub(super) requests: Vec<Request>,
    /// All requests are sent before the first answer.
    pub(super) pipelined: bool,
}

/// Generates plans; each client has its own planner.
pub(super) struct Planner {
    pub(super) rng: Rng,
    /// The client's `default_transaction_isolation`.
    pub(super) default: Level,
}

impl Statement {
    fn control(does: Does, sql: &str) -> Self {
        Self {
            does,
            sql: sql.to_owned(),
            parameters: Vec::new(),
        }
    }

    /// With the parameters in the text.
    fn text(&self) -> String {
        let numbered = (1..).zip(&self.parameters);
        numbered.fold(self.sql.clone(), |sql, (number, value)| {
            sql.replace(&format!("${number}"), value)
        })
    }

    fn run(&self) -> Vec<u8> {
        let parameters: Vec<_> = self
            .parameters
            .iter()
            .map(|value| Some(value.as_str()))
            .collect();
        run(&self.sql, &parameters)
    }

    fn simple(self) -> Request {
        Request {
            bytes: query(&self.text()),
            statements: vec![self.does],
        }
    }

    fn extended(self) -> Request {
        Request {
            bytes: [self.run(), sync()].concat(),
            statements: vec![self.does],
        }
    }
}

pub(super) fn sql_name(level: Level) -> &'static str {
    match level {
        Level::ReadCommitted => "READ COMMITTED",
        Level::RepeatableRead => "REPEATABLE READ",
        Level::Serializable => "SERIALIZABLE",
    }
}

pub(super) fn any_level(rng: &mut Rng) -> Level {
    *rng.pick(&[
        Level::ReadCommitted,
        Level::RepeatableRead,
        Level::Serializable,
    ])
}

impl Plan {
    /// Reads a list, then appends to another one.
    pub(super) fn skew(level: Level, read: Key, write: Key) -> Self {
        let append = Statement {
            does: Does::Write(write, write),
            sql: LISTS.upsert.to_owned(),
            parameters: vec![write.to_string(), write.to_string()],
        };
        let read = Statement {
            does: Does::Read(vec![read]),
            sql: format!("{} WHERE k = $1", LISTS.read),
            parameters: vec![read.to_string()],
        };
        let all = [begin(level), read, append, commit()];
        Self {
            level,
            requests: all.map(Statement::simple).into(),
            pipelined: false,
        }
    }
}

fn begin(level: Level) -> Statement {
    let sql = format!("BEGIN ISOLATION LEVEL {}", sql_name(level));
    Statement::control(Does::Begin, &sql)
}

fn commit() -> Statement {
    Statement::control(Does::Commit, "COMMIT")
}

impl Planner {
    /// The `number`th transaction of all; its writes take their values from `value`.
    pub(super) fn plan(&mut self, number: u32, mut value: impl FnMut() -> Value) -> Plan {
        let base = number / PER_KEYS * KEYS;
        let mut work = |planner: &mut Self| planner.statement(base, &mut value);
        if self.rng.chance(75) {
            let statement = work(self);
            return self.alone(statement);
        }
        let statements: Vec<_> = (0..self.rng.between(1, 4)).map(|_| work(self)).collect();
        match self.rng.below(4) {
            0 => self.one_unit(&statements),
            kind => self.block(statements, kind == 1),
        }
    }

    /// A transaction of one statement.
    fn alone(&mut self, mut statement: Statement) -> Plan {
        if statement.sql.starts_with("UPDATE") && self.rng.chance(30) {
            statement.sql =
                statement
                    .sql
                    .replacen("UPDATE ", "UPDATE /*+ COMMIT_ON_SUCCESS */ ", 1);
        }
        Plan {
            level: self.default,
            requests: vec![self.request(statement)],
            pipelined: false,
        }
    }

    /// A transaction without BEGIN: up to one Sync, or one simple query.
    fn one_unit(&mut self, statements: &[Statement]) -> Plan {
        let bytes = if self.rng.chance(50) {
            let parts = statements.iter().map(Statement::run);
            parts.chain([sync()]).collect::<Vec<_>>().concat()
        } else {
            let texts: Vec<_> = statements.iter().map(Statement::text).collect();
            query(&texts.join("; "))
        };
        let statements = statements.iter().map(|statement| statement.does.clone());
        Plan {
            level: self.default,
            requests: vec![Request {
                bytes,
                statements: statements.collect(),
            }],
            pipelined: false,
        }
    }

    /// A transaction with BEGIN and an end.
    fn block(&mut self, statements: Vec<Statement>, pipelined: bool) -> Plan {
        let level = any_level(&mut self.rng);
        let end = if self.rng.chance(10) {
            Statement::control(Does::Rollback, "ROLLBACK")
        } else {
            commit()
        };
        let all = [begin(level)].into_iter().chain(statements).chain([end]);
        Plan {
            level,
            requests: all.map(|statement| self.request(statement)).collect(),
            pipelined,
        }
    }

    fn request(&mut self, statement: Statement) -> Request {
        if self.rng.chance(50) {
            statement.simple()
        } else {
            statement.extended()
        }
    }

    /// Most statements are the same for all clients until the keys change, so that they form groups.
    fn statement(&mut self, base: u32, value: &mut impl FnMut() -> Value) -> Statement {
        if self.rng.chance(40) {
            return self.any_statement(base, value);
        }
        let same = Rng::new(u64::from(base));
        let own = std::mem::replace(&mut self.rng, same);
        let statement = self.any_statement(base, value);
        self.rng = own;
        statement
    }

    fn any_statement(&mut self, base: u32, value: &mut impl FnMut() -> Value) -> Statement {
        // Most statements use one key.
        let key = if self.rng.chance(50) {
            base + 1
        } else {
            base + self.rng.below(KEYS as usize) as u32
        };
        if self.rng.chance(55) {
            self.write(key, value())
        } else {
            self.read(key, base)
        }
    }

    fn write(&mut self, key: Key, value: Value) -> Statement {
        let table = table(key);
        let sql = *self.rng.pick(&[table.upsert, table.update]);
        let sql = match self.rng.chance(60) {
            true => format!("{sql} {}", table.returning),
            false => sql.to_owned(),
        };
        Statement {
            does: Does::Write(key, value),
            sql,
            parameters: vec![key.to_string(), value.to_string()],
        }
    }

    fn read(&mut self, key: Key, base: u32) -> Statement {
        let read = table(key).read;
        let one = format!("{read} WHERE k = $1");
        let (keys, sql) = match self.rng.below(6) {
            0 => (vec![key], format!("{one} FOR UPDATE")),
            1 => (vec![key], format!("{one} FOR SHARE")),
            2 | 3 => {
                let same =
                    (base..base + KEYS).filter(|other| is_register(*other) == is_register(key));
                let keys: Vec<_> = same.take(2).collect();
                (keys, format!("{read} WHERE k IN ($1, $2)"))
            }
            _ => (vec![key], one),
        };
        Statement {
            parameters: keys.iter().map(Key::to_string).collect(),
            does: Does::Read(keys),
            sql,
        }
    }
}

/// Reads all of a table, as the last transaction of a history.
pub(super) fn read_all(registers: bool) -> Vec<u8> {
    let table = if registers { &REGISTERS } else { &LISTS };
    unit(table.read, &[])
}
