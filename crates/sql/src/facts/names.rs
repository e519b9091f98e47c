//! Names in expressions: what they mean the catalog and the search path say, so each must be looked up, and again in each
//! group.

use super::fingerprint::FIRST_OWN_OID;
use crate::{Expr, Name, Statement, quote_literal};
use std::collections::BTreeSet;

/// Names in expressions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    pub(super) functions: BTreeSet<String>,
    pub(super) operators: BTreeSet<String>,
    /// Types of casts, but those of `pg_catalog`.
    pub(super) types: Vec<Name>,
    /// Sequences and other relations that constants name.
    pub(super) relations: BTreeSet<String>,
}

/// Groups compare keys and facts themselves.
const EQUALITY: &str = "=";

impl Names {
    /// Those in these expressions.
    pub fn of<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> Self {
        let mut names = Self {
            functions: BTreeSet::new(),
            operators: BTreeSet::from([EQUALITY.to_owned()]),
            types: Vec::new(),
            relations: BTreeSet::new(),
        };
        for expr in exprs {
            let functions = expr.functions().into_iter().map(|name| name.name);
            names.functions.extend(functions);
            let operators = expr.operators().into_iter().map(|name| name.name);
            names.operators.extend(operators);
            names.relations.extend(expr.named_relations());
            for name in expr.casts_to() {
                let own = name.schema.as_deref() != Some("pg_catalog");
                if own && !names.types.contains(&name) {
                    names.types.push(name);
                }
            }
        }
        names
    }

    /// Functions and operators in a whole statement. (What types and relations it names matters to itself only.)
    pub(crate) fn of_statement(statement: &Statement) -> Self {
        let names = |names: &[Name]| names.iter().map(|name| name.name.clone()).collect();
        Self {
            functions: names(&statement.functions),
            operators: names(&statement.operators),
            types: Vec::new(),
            relations: BTreeSet::new(),
        }
    }

    pub(super) fn function_list(&self) -> String {
        list(self.functions.iter())
    }

    pub(super) fn operator_list(&self) -> String {
        list(self.operators.iter())
    }

    /// Asks for one row with one boolean: are all operators of these names that users have added for types of their own only
    /// (enums and domains are made of PostgreSQL's), and all casts that they have added, written in C, as those of extensions
    /// are? Others may do anything, or mean something else than PostgreSQL's.
    pub fn only_extensions_sql(&self) -> String {
        format!(
            "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_operator o LEFT JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode::pg_catalog.oid \
               WHERE o.oid >= {FIRST_OWN_OID}::pg_catalog.oid AND o.oprname = ANY ({operators}) \
               AND ({plain} OR NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.oid IN (o.oprleft, o.oprright) AND {foreign}))) \
             AND NOT EXISTS (SELECT FROM pg_catalog.pg_cast o JOIN pg_catalog.pg_proc p ON p.oid = o.castfunc \
               WHERE o.oid >= {FIRST_OWN_OID}::pg_catalog.oid AND p.oid >= {FIRST_OWN_OID}::pg_catalog.oid \
               AND ({plain} OR NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.oid IN (o.castsource, o.casttarget) AND {foreign})))",
            operators = self.operator_list(),
            plain = NOT_IN_C,
            foreign = FOREIGN_TYPE,
        )
    }
}

/// A function `p` that is not written in C, or volatile.
pub(crate) const NOT_IN_C: &str = "(p.provolatile = 'v' OR p.prolang NOT IN (SELECT l.oid FROM pg_catalog.pg_language l WHERE l.lanname IN ('internal', 'c')))";

/// A type `t` that is neither PostgreSQL's own nor made of such a one.
const FOREIGN_TYPE: &str =
    "t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace AND t.typtype NOT IN ('d', 'e')";

/// Names as an array.
fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.map(|name| quote_literal(name)).collect();
    format!("ARRAY[{}]::pg_catalog.name[]", names.join(","))
}
