//! Expressions at a later time.

use super::children::children;
use super::{Expr, for_each_leaf, unsupported};
use crate::parser::NotParsed;
use crate::time_read;
use crate::tree::Record;
use pg_query::NodeEnum;

impl Expr {
    /// The same expression a microsecond later: `+ '1 microsecond'` follows each function and keyword that returns the time at
    /// which the statement or the transaction began.
    ///
    /// # Errors
    /// [`NotParsed`], if the expression cannot be built.
    pub(crate) fn later(&self) -> Result<Expr, NotParsed> {
        // COALESCE in place of parentheses, which the parser's tree does not have.
        let sum =
            Expr::parse("COALESCE(a OPERATOR(pg_catalog.+) '1 microsecond'::pg_catalog.interval)")?;
        let mut node = self.node.as_ref().clone();
        delay(&mut node, &sum.node)?;
        Ok(Expr {
            node: Box::new(node),
            ..self.clone()
        })
    }
}

/// Replaces each such function and keyword by `sum`, in which it replaces the column.
fn delay(node: &mut NodeEnum, sum: &NodeEnum) -> Result<(), NotParsed> {
    if time_read::is_moment(&Record::of_node(node)) {
        let moment = std::mem::replace(node, sum.clone());
        return for_each_leaf(node, &mut |column| {
            *column = moment.clone();
            Ok(())
        });
    }
    for child in children(node).ok_or_else(unsupported)? {
        delay(child.node.as_mut().ok_or_else(unsupported)?, sum)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Expr;

    #[test]
    fn each_time_is_later() {
        let later = |sql: &str| {
            let later = Expr::parse(sql).unwrap().later().unwrap();
            let column = |name: &str| name.to_owned();
            later.to_sql(&column, &|n| format!("${n}")).unwrap()
        };
        let microsecond = "OPERATOR(pg_catalog.+) '1 microsecond'::interval)";
        for (sql, expected) in [
            (
                "at < now()",
                format!("((at) < COALESCE(now() {microsecond})"),
            ),
            (
                "at < CURRENT_TIMESTAMP - $1 * b",
                format!("((at) < COALESCE(current_timestamp {microsecond} - ($1) * (b))"),
            ),
            ("at < CURRENT_DATE", "((at) < current_date)".to_owned()),
        ] {
            assert_eq!(later(sql), expected, "{sql}");
        }
    }
}
