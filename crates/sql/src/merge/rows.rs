//! The rows of VALUES. They can be inserted together only if they have the same expressions, each with parameters of
//! its own.

use super::insert::Insert;
use crate::distribution::DistributionRefusal;
use crate::expr::Expr;
use crate::name::push_distinct;
use crate::type_name::TypeName;

/// The rows of one member.
pub(super) struct Rows {
    /// For each row, its parameters in order of appearance.
    parameters: Vec<Vec<u32>>,
}

impl Rows {
    /// The parameters of `rows`, if the rows differ only in their parameters and these have the same types.
    pub(super) fn of(
        rows: &[Vec<Option<Expr>>],
        types: &[TypeName],
    ) -> Result<Self, DistributionRefusal> {
        let kinds = rows
            .iter()
            .map(|row| kind(row))
            .collect::<Result<Vec<_>, _>>()?;
        let type_of = |number: &u32| TypeName::of(types, *number).map(|name| &name.sql);
        let alike = kinds.windows(2).all(|pair| match pair {
            [one, other] => {
                let typed = |row: &Kind| row.parameters.iter().map(type_of).collect::<Vec<_>>();
                one.values == other.values && typed(one) == typed(other)
            }
            _ => true,
        });
        match alike {
            true => Ok(Self {
                parameters: kinds.into_iter().map(|kind| kind.parameters).collect(),
            }),
            false => Err(DistributionRefusal::Rows),
        }
    }

    /// The expressions of the first row and of RETURNING.
    pub(super) fn exprs<'a>(&self, insert: &'a Insert) -> Vec<&'a Expr> {
        let first = insert.rows.first().into_iter().flatten().flatten();
        first.chain(insert.returned()).collect()
    }

    /// For each row, the parameter in the position that parameter `number` has in the first row.
    pub(super) fn numbers(&self, number: u32) -> Vec<u32> {
        let first = self.parameters.first();
        let place = first.and_then(|row| row.iter().position(|known| *known == number));
        let rows = self.parameters.iter();
        rows.filter_map(|row| row.get(place?).copied()).collect()
    }
}

/// The form of a row: its values with parameters numbered in order of appearance, and these parameters.
struct Kind {
    values: Vec<Option<String>>,
    parameters: Vec<u32>,
}

fn kind(row: &[Option<Expr>]) -> Result<Kind, DistributionRefusal> {
    let mut parameters = Vec::new();
    for number in row.iter().flatten().flat_map(Expr::parameters) {
        push_distinct(&mut parameters, number);
    }
    let place = |number: u32| {
        let place = parameters.iter().position(|known| *known == number);
        format!("${}", place.map_or(0, |place| place + 1))
    };
    let sql = |expr: &Expr| expr.to_sql(&|_| String::new(), &place);
    let value = |expr: &Option<Expr>| expr.as_ref().map(sql).transpose();
    Ok(Kind {
        values: row.iter().map(value).collect::<Result<_, _>>()?,
        parameters,
    })
}
