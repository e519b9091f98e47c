//! Questions as texts. What PostgreSQL answers is for tests with a server.

use super::apart_sql;
use crate::{Effect, Name, parse};

#[test]
fn odd_names_of_assigned_columns_are_constants() {
    let name = Name {
        schema: None,
        name: "q".to_owned(),
    };
    for columns in [vec![], vec!["state".to_owned(), "it's".to_owned()]] {
        let sql = apart_sql(&name, &columns);
        let statement = parse(&sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
        assert_eq!((statement.statements, statement.effect), (1, Effect::Read));
        for column in columns {
            assert!(sql.contains(&crate::quote_literal(&column)), "{sql}");
        }
    }
}
