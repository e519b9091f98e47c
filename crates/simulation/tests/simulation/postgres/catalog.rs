//! The meaning of a text: a resolved statement, a command of the session, or a question that a real PostgreSQL has
//! answered.

use super::answers::{Answer, Answers, RealServer, field};
use super::resolve::resolve;
use super::resolve_expr::{inner, string};
use super::schema::Schema;
use super::scope::NotSimulated;
use super::tree::Statement;
use super::value::Type;
use paceline_wire::backend::Field;
use pg_query::NodeEnum;
use pg_query::protobuf::{
    DiscardMode, TransactionStmtKind, VariableSetKind, VariableSetStmt, a_const::Val,
};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::rc::Rc;

/// One statement of a text.
#[derive(Debug)]
pub(crate) enum Command {
    Execute(Box<Statement>),
    Begin,
    Commit,
    Rollback,
    /// `None` resets the setting.
    Set(String, Option<String>, bool),
    /// Its tag, and whether settings and prepared statements are discarded.
    Discard(&'static str, bool, bool),
    Answer(Answer),
}

impl Command {
    /// The columns of its result; `None` if it has none.
    pub(crate) fn fields(&self, catalog: &Catalog) -> Option<Vec<Field>> {
        match self {
            Self::Answer(answer) => Some(answer.fields()),
            Self::Execute(statement)
                if statement.query.columns.is_empty() && statement.query.body.writes() =>
            {
                None
            }
            Self::Execute(statement) => {
                let columns = statement.query.columns.iter();
                let one = columns.map(|column| {
                    let origin = column.origin.map(|(table, place)| {
                        (catalog.table_oids[table], i16::try_from(place + 1).unwrap())
                    });
                    field(&column.name, column.of.oid(), origin)
                });
                Some(one.collect())
            }
            _ => None,
        }
    }

    pub(crate) fn parameters(&self) -> &[Type] {
        match self {
            Self::Execute(statement) => &statement.parameters,
            _ => &[],
        }
    }
}

type Known = FxHashMap<(String, Vec<u32>), Rc<Vec<Command>>>;

/// Meanings of texts. They are kept, as each is needed in many histories.
pub(crate) struct Catalog {
    pub(crate) schema: Rc<Schema>,
    pub(crate) table_oids: Vec<u32>,
    /// The parameters that the server reports at a login.
    pub(crate) reported: Vec<(String, String)>,
    answers: RefCell<Answers>,
    /// Expressions of catalog versions, and their values.
    versions: RefCell<Vec<(String, String)>>,
    known: RefCell<Known>,
    real: Option<RefCell<RealServer>>,
}

const REPORTED: [&str; 12] = [
    "server_version",
    "server_encoding",
    "client_encoding",
    "application_name",
    "is_superuser",
    "session_authorization",
    "DateStyle",
    "IntervalStyle",
    "TimeZone",
    "integer_datetimes",
    "standard_conforming_strings",
    "default_transaction_read_only",
];

impl Catalog {
    /// With recorded answers.
    pub(crate) fn recorded(answers: Answers) -> Self {
        Self::new(answers, None)
    }

    /// With the answers of a server.
    pub(crate) fn asking(real: RealServer) -> Self {
        Self::new(Answers::new(), Some(real))
    }

    fn new(answers: Answers, real: Option<RealServer>) -> Self {
        let mut catalog = Self {
            schema: Rc::new(Schema::new()),
            table_oids: Vec::new(),
            reported: Vec::new(),
            answers: RefCell::new(answers),
            versions: RefCell::default(),
            known: RefCell::default(),
            real: real.map(RefCell::new),
        };
        let recorded: Vec<_> = catalog.answers.borrow().clone().into_iter().collect();
        for (question, answer) in recorded {
            catalog.note_version(&question, &answer);
        }
        let value = |question: String| {
            let answer = catalog
                .answer(&question)
                .unwrap_or_else(|| panic!("no answer to {question}"));
            answer.single().unwrap().to_owned()
        };
        let oid = |name: &str| {
            value(format!(
                "SELECT 'public.{name}'::pg_catalog.regclass::pg_catalog.oid"
            ))
        };
        let oids = catalog
            .schema
            .tables
            .iter()
            .map(|table| oid(table.name).parse().unwrap());
        let oids = oids.collect();
        let reported = REPORTED.map(|name| {
            let setting = value(format!("SELECT pg_catalog.current_setting('{name}')"));
            (name.to_owned(), setting)
        });
        catalog.table_oids = oids;
        catalog.reported = reported.to_vec();
        catalog
    }

    pub(crate) fn answers(&self) -> Answers {
        self.answers.borrow().clone()
    }

    fn answer(&self, question: &str) -> Option<Answer> {
        if let Some(answer) = self.answers.borrow().get(question) {
            return Some(answer.clone());
        }
        let answer = self.real.as_ref()?.borrow_mut().ask(question);
        self.note_version(question, &answer);
        self.answers
            .borrow_mut()
            .insert(question.to_owned(), answer.clone());
        Some(answer)
    }

    fn note_version(&self, question: &str, answer: &Answer) {
        let sql = question
            .strip_prefix("SELECT ")
            .filter(|sql| sql.starts_with("ROW(") || sql.contains("xmin"));
        if let Some((sql, value)) = sql.zip(answer.single()) {
            let mut versions = self.versions.borrow_mut();
            versions.push((sql.to_owned(), value.replace('\'', "''")));
            // One may be a part of another one.
            versions.sort_by_key(|(sql, _)| std::cmp::Reverse(sql.len()));
        }
    }

    /// The statements of a text.
    pub(crate) fn commands(&self, text: &str, types: &[u32]) -> Rc<Vec<Command>> {
        let key = (text.to_owned(), types.to_vec());
        if let Some(known) = self.known.borrow().get(&key) {
            return Rc::clone(known);
        }
        let commands = self.parse(text, types);
        let commands =
            Rc::new(commands.unwrap_or_else(|why| panic!("{why} is not simulated: {text}")));
        self.known.borrow_mut().insert(key, Rc::clone(&commands));
        commands
    }

    fn parse(&self, text: &str, types: &[u32]) -> Result<Vec<Command>, NotSimulated> {
        let parsed = pg_query::parse(text, 0).map_err(|error| error.to_string())?;
        let mut commands = Vec::new();
        for statement in &parsed.protobuf.stmts {
            let start = usize::try_from(statement.stmt_location).unwrap();
            let len = usize::try_from(statement.stmt_len).unwrap();
            let end = if len == 0 { text.len() } else { start + len };
            let one = text[start..end].trim();
            commands.push(self.command(inner(statement.stmt.as_deref())?, one, types)?);
        }
        Ok(commands)
    }

    fn command(&self, node: &NodeEnum, text: &str, types: &[u32]) -> Result<Command, NotSimulated> {
        match node {
            NodeEnum::TransactionStmt(statement) => {
                match TransactionStmtKind::try_from(statement.kind) {
                    Ok(TransactionStmtKind::TransStmtBegin) => Ok(Command::Begin),
                    Ok(TransactionStmtKind::TransStmtCommit) => Ok(Command::Commit),
                    Ok(TransactionStmtKind::TransStmtRollback) => Ok(Command::Rollback),
                    other => Err(format!("{other:?}")),
                }
            }
            NodeEnum::VariableSetStmt(set) => setting(set),
            NodeEnum::DiscardStmt(discard) => match DiscardMode::try_from(discard.target) {
                Ok(DiscardMode::DiscardAll) => Ok(Command::Discard("DISCARD ALL", true, true)),
                Ok(DiscardMode::DiscardSequences) => {
                    Ok(Command::Discard("DISCARD SEQUENCES", false, false))
                }
                other => Err(format!("{other:?}")),
            },
            _ => self.statement(text, types),
        }
    }

    /// Executes a statement if the simulation has all that it needs; else it is a question to a real server.
    fn statement(&self, text: &str, types: &[u32]) -> Result<Command, NotSimulated> {
        if let Some(answer) = self.answers.borrow().get(text) {
            return Ok(Command::Answer(answer.clone()));
        }
        let mut own = without_questions(text);
        for (sql, value) in self.versions.borrow().iter() {
            own = own.replace(sql, &format!("'{value}'"));
        }
        let parsed = pg_query::parse(&own, 0).map_err(|error| error.to_string())?;
        let node = parsed.protobuf.stmts.first().ok_or("an empty text")?;
        let types = types.iter().map(|oid| Type::of_oid(*oid)).collect();
        match resolve(inner(node.stmt.as_deref())?, &self.schema, types) {
            Ok(statement) => Ok(Command::Execute(Box::new(statement))),
            // A question of Paceline has no parameters.
            Err(why) if own.contains("$1") => Err(why),
            Err(why) => self.answer(text).map(Command::Answer).ok_or(why),
        }
    }
}

/// Removes the questions that a statement may ask when it has been analyzed again.
fn without_questions(text: &str) -> String {
    const BEGIN: &str = "pg_catalog.ts_rewrite('changed'::pg_catalog.tsquery, '";
    let mut parts = text.split(BEGIN);
    let mut own = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find("') OPERATOR").expect("the end of a question");
        own.push_str(BEGIN);
        own.push_str(&part[end..]);
    }
    own
}

fn setting(set: &VariableSetStmt) -> Result<Command, NotSimulated> {
    let name = set.name.clone();
    match VariableSetKind::try_from(set.kind) {
        Ok(VariableSetKind::VarSetValue) => {
            let values = set.args.iter().map(|arg| match &arg.node {
                Some(NodeEnum::AConst(value)) => Ok(match &value.val {
                    Some(Val::Sval(text)) => text.sval.clone(),
                    Some(Val::Ival(number)) => number.ival.to_string(),
                    other => return Err(format!("SET to {other:?}")),
                }),
                Some(NodeEnum::String(_)) => Ok(string(arg).to_owned()),
                other => Err(format!("SET to {other:?}")),
            });
            let values: Vec<String> = values.collect::<Result<_, _>>()?;
            Ok(Command::Set(name, Some(values.join(", ")), set.is_local))
        }
        Ok(VariableSetKind::VarSetDefault | VariableSetKind::VarReset) => {
            Ok(Command::Set(name, None, false))
        }
        Ok(VariableSetKind::VarResetAll) => Ok(Command::Discard("RESET", true, false)),
        other => Err(format!("SET {other:?}")),
    }
}
