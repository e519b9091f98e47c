//! Names in expressions. The catalog and the search path determine the objects they refer to, so that each group
//! compares them.

use super::catalog::{FIRST_USER_DEFINED_OID, NOT_IN_C, text_array};
use crate::expr::Expr;
use crate::name::Name;
use std::collections::BTreeSet;

/// Names in expressions, for the catalog version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    pub(super) functions: BTreeSet<String>,
    pub(super) operators: BTreeSet<String>,
    /// Types of casts, other than those of `pg_catalog`.
    pub(super) types: Vec<Name>,
    /// Sequences and other relations that constants name.
    pub(super) relations: BTreeSet<String>,
}

/// The operator by which a group's statement compares keys and the catalog version.
const EQUALITY: &str = "=";

impl Names {
    /// The names in these expressions.
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

    /// The functions and operators in a statement. (Its types and relations do not affect other members.)
    pub(crate) fn of_statement(functions: &[Name], operators: &[Name]) -> Self {
        let names = |names: &[Name]| names.iter().map(|name| name.name.clone()).collect();
        Self {
            functions: names(functions),
            operators: names(operators),
            types: Vec::new(),
            relations: BTreeSet::new(),
        }
    }

    pub(super) fn function_list(&self) -> String {
        text_array(&self.functions)
    }

    pub(super) fn operator_list(&self) -> String {
        text_array(&self.operators)
    }

    /// Query for one row with one boolean: whether users have added operators of these names only for types of
    /// extensions, written in C, and likewise all casts. Other operators and casts may have any effect, or replace
    /// one of PostgreSQL's. (Enums and domains do not count as types of extensions, because they consist of
    /// PostgreSQL's own.)
    pub fn only_extensions_sql(&self) -> String {
        format!(
            "SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_operator o LEFT JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode::pg_catalog.oid \
               WHERE o.oid >= {FIRST_USER_DEFINED_OID}::pg_catalog.oid AND o.oprname = ANY ({operators}) \
               AND ({plain} OR NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.oid IN (o.oprleft, o.oprright) AND {extension_type}))) \
             AND NOT EXISTS (SELECT FROM pg_catalog.pg_cast o JOIN pg_catalog.pg_proc p ON p.oid = o.castfunc \
               WHERE o.oid >= {FIRST_USER_DEFINED_OID}::pg_catalog.oid AND p.oid >= {FIRST_USER_DEFINED_OID}::pg_catalog.oid \
               AND ({plain} OR NOT EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.oid IN (o.castsource, o.casttarget) AND {extension_type})))",
            operators = self.operator_list(),
            plain = NOT_IN_C,
            extension_type = EXTENSION_TYPE,
        )
    }
}

/// SQL condition: type `t` is neither built-in nor made of a built-in type.
const EXTENSION_TYPE: &str =
    "t.typnamespace <> 'pg_catalog'::pg_catalog.regnamespace AND t.typtype NOT IN ('d', 'e')";
