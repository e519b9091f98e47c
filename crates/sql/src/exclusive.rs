//! Statements that PostgreSQL rejects while another session uses a database (`CountOtherDBBackends`).

use crate::parser;
use pg_query::protobuf::{DefElem, ObjectType};
use pg_query::{Node, NodeEnum};

#[cfg(test)]
mod tests;

/// The template database if CREATE DATABASE names none.
const DEFAULT_TEMPLATE: &str = "template1";

/// The database that no other session may use: otherwise PostgreSQL rejects the statement with 55006. Such a
/// statement is the only one of its text, because PostgreSQL rejects it in a transaction block.
pub(crate) fn of_statements(statements: &[NodeEnum]) -> Option<String> {
    match statements {
        [NodeEnum::DropdbStmt(drop)] => Some(drop.dbname.clone()),
        [NodeEnum::RenameStmt(rename)] if rename.rename_type() == ObjectType::ObjectDatabase => {
            Some(rename.subname.clone())
        }
        [NodeEnum::AlterDatabaseStmt(alter)] => {
            let moves = option(&alter.options, "tablespace").is_some();
            moves.then(|| alter.dbname.clone())
        }
        [NodeEnum::CreatedbStmt(create)] => {
            let template = option(&create.options, "template").and_then(text);
            Some(template.unwrap_or(DEFAULT_TEMPLATE).to_owned())
        }
        _ => None,
    }
}

fn option<'a>(options: &'a [Node], name: &str) -> Option<&'a DefElem> {
    let mut options = options.iter().filter_map(|option| match &option.node {
        Some(NodeEnum::DefElem(option)) => Some(&**option),
        _ => None,
    });
    options.find(|option| option.defname == name)
}

fn text(option: &DefElem) -> Option<&str> {
    parser::string(option.arg.as_ref()?)
}
