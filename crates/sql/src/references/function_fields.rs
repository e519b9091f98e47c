//! Names behind the alias of a function in FROM. The alias may be a value of any type, so PostgreSQL may call a function of one argument
//! by such a name: `SELECT u.my_function FROM unnest($1) AS u`.

use crate::name::{Name, Names};
use crate::tree::Record;
use std::collections::{HashMap, HashSet};

/// The aliases of functions in FROM, with the columns that their text names.
#[derive(Default)]
struct Aliases<'a> {
    /// If functions have the same alias, the columns that all of them have.
    columns: HashMap<&'a str, HashSet<&'a str>>,
    /// A function has no alias. PostgreSQL derives one.
    has_derived: bool,
}

impl<'a> Aliases<'a> {
    fn add(&mut self, function: &'a Record) {
        let Some(alias) = function.record("alias") else {
            self.has_derived = true;
            return;
        };
        let name = alias.text("aliasname");
        let own = alias.list("colnames").map(|column| column.text("sval"));
        let defined = function
            .list("coldeflist")
            .map(|column| column.text("colname"));
        // Without names, the only column of a function has that of the alias.
        let columns: HashSet<&str> = own.chain(defined).chain([name]).collect();
        self.columns
            .entry(name)
            .and_modify(|known| known.retain(|column| columns.contains(column)))
            .or_insert(columns);
    }

    /// Whether the last of these names may be a function of the value that the one before it denotes.
    fn may_call(&self, parts: &[String]) -> bool {
        let [.., alias, name] = parts else {
            return false;
        };
        let columns = self.columns.get(alias.as_str());
        match columns {
            Some(columns) => !columns.contains(name.as_str()),
            None => self.has_derived,
        }
    }
}

/// Names that may be functions of the value of a function in FROM, without duplicates.
pub(crate) fn function_fields(tree: &Record) -> Vec<Name> {
    let mut aliases = Aliases::default();
    tree.walk(&mut |node| {
        if node.kind == "RangeFunction" {
            aliases.add(node);
        }
    });
    let mut found = Names::default();
    if aliases.has_derived || !aliases.columns.is_empty() {
        tree.walk(&mut |node| {
            if node.kind == "ColumnRef" {
                let mut parts = node.names("fields");
                if aliases.may_call(&parts) {
                    parts
                        .pop()
                        .into_iter()
                        .for_each(|name| found.push(Name::without_schema(name)));
                }
            }
        });
    }
    found.into_list()
}

#[cfg(test)]
mod tests {
    use crate::statement::parse;

    fn function_fields(sql: &str) -> Vec<String> {
        let fields = parse(sql).unwrap().function_fields;
        fields.into_iter().map(|field| field.name).collect()
    }

    #[test]
    fn a_name_behind_a_function_may_be_a_function() {
        for sql in [
            "SELECT u.become FROM unnest($1::text[]) AS u",
            "SELECT u.become FROM unnest($1::text[]) AS u (a)",
            "SELECT u.become FROM ROWS FROM (unnest($1::text[])) AS u",
            "SELECT u.become FROM current_user AS u",
            "SELECT u.become FROM CAST('a' AS text) AS u",
            "SELECT u.become FROM COALESCE('a', 'b') AS u",
            "SELECT 1 FROM t, LATERAL f(t.a) AS u WHERE u.become = 1",
            "SELECT unnest.become FROM unnest($1::text[])",
            "SELECT 1 FROM f(1) AS u (become) UNION SELECT u.become FROM f(2) AS u (b)",
            "COPY (SELECT u.become FROM current_user AS u) TO STDOUT",
            "SELECT 1; SELECT u.become FROM current_user AS u",
        ] {
            assert_eq!(function_fields(sql), ["become"], "{sql}");
        }
    }

    #[test]
    fn a_column_is_no_function() {
        for sql in [
            "SELECT u.a, u.b FROM unnest($1::int[], $2::int[]) AS u (a, b)",
            "SELECT u.u, u.* FROM unnest($1::int[]) AS u",
            "SELECT r.a FROM json_to_record($1) AS r (a int)",
            "SELECT t.a FROM t, unnest($1::int[]) AS u (b) WHERE t.a = u.b",
            "SELECT a FROM unnest($1::int[])",
            "SELECT t.a FROM t",
            "SELECT s.become FROM (SELECT u FROM unnest($1::int[]) AS u) AS s",
        ] {
            assert!(function_fields(sql).is_empty(), "{sql}");
        }
    }
}
