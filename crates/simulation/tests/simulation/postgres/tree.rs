//! A statement whose names are resolved. Each row of a FROM clause is one list of values; a column is an offset in it.

use super::value::{Type, Value};

/// A statement and its common table expressions, in their order.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) query: Query,
    pub(crate) ctes: Vec<Cte>,
    pub(crate) parameters: Vec<Type>,
}

#[derive(Debug)]
pub(crate) struct Cte {
    pub(crate) query: Query,
    pub(crate) recursive: bool,
}

#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) body: Body,
    pub(crate) columns: Vec<OutColumn>,
}

/// A column of a result or of a FROM item.
#[derive(Debug, Clone)]
pub(crate) struct OutColumn {
    pub(crate) name: String,
    pub(crate) of: Type,
    /// Table and column.
    pub(crate) origin: Option<(usize, usize)>,
    /// A system column, which `*` does not include.
    pub(crate) hidden: bool,
}

#[derive(Debug)]
pub(crate) enum Body {
    Select(Select),
    Values(Vec<Vec<Expr>>),
    /// UNION ALL.
    Union(Box<Query>, Box<Query>),
    Insert(Insert),
    Update(Update),
    Delete(Delete),
}

impl Body {
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Insert(_) | Self::Update(_) | Self::Delete(_))
    }
}

#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) from: Option<From>,
    pub(crate) quals: Vec<Expr>,
    pub(crate) targets: Vec<Expr>,
    /// The targets are aggregates.
    pub(crate) aggregates: bool,
    /// Expression, and whether it is descending.
    pub(crate) order: Vec<(Expr, bool)>,
    pub(crate) limit: Option<Expr>,
    pub(crate) lock: Option<Lock>,
}

#[derive(Debug)]
pub(crate) struct Lock {
    /// The table whose rows are locked.
    pub(crate) of: Place,
    pub(crate) skip_locked: bool,
}

/// The place of a table's columns in a row. Two system columns follow them: `xmin`, and the number of the row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) table: usize,
    pub(crate) offset: usize,
    pub(crate) columns: usize,
}

impl Place {
    pub(crate) fn row(self) -> usize {
        self.offset + self.columns + 1
    }
}

#[derive(Debug)]
pub(crate) enum From {
    /// A single row without columns.
    Nothing,
    Table(usize),
    Cte(usize),
    Functions(Vec<Expr>, bool),
    Sub(Box<Query>),
    Join {
        left: Box<From>,
        right: Box<From>,
        right_width: usize,
        on: Option<Expr>,
        keeps_left: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Insert {
    pub(crate) table: usize,
    /// For each column of the source, the column of the table.
    pub(crate) columns: Vec<usize>,
    pub(crate) source: Box<Query>,
    pub(crate) conflict: Conflict,
    pub(crate) returning: Vec<Expr>,
}

#[derive(Debug)]
pub(crate) enum Conflict {
    Error,
    Nothing,
    /// Assignments and WHERE; the row of the table and then the excluded one are in scope.
    Update(Vec<(usize, Expr)>, Option<Expr>),
}

#[derive(Debug)]
pub(crate) struct Update {
    pub(crate) target: Place,
    /// With the target last.
    pub(crate) from: From,
    pub(crate) quals: Vec<Expr>,
    pub(crate) sets: Vec<(usize, Expr)>,
    pub(crate) returning: Vec<Expr>,
}

#[derive(Debug)]
pub(crate) struct Delete {
    pub(crate) target: Place,
    pub(crate) from: From,
    pub(crate) quals: Vec<Expr>,
    pub(crate) returning: Vec<Expr>,
}

#[derive(Debug)]
pub(crate) enum Expr {
    Const(Value),
    Param(usize),
    /// A column of the row of this query (level 0) or of an outer one.
    Column(usize, usize),
    Cast(Box<Expr>, Type),
    Operator(Operator, Box<Expr>, Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>),
    /// IS TRUE, or IS FALSE.
    Is(bool, Box<Expr>),
    Case(Vec<(Expr, Expr)>, Option<Box<Expr>>),
    Coalesce(Vec<Expr>),
    /// An element of an array.
    Element(Box<Expr>, Box<Expr>),
    Scalar(Box<Query>),
    Exists(Box<Query>),
    ArrayOf(Box<Query>),
    EqualsAny(Box<Expr>, Box<Expr>),
    Call(Function, Vec<Expr>),
    RowNumber,
    /// An aggregate: the number of rows, or of values that are not null.
    Count(Option<Box<Expr>>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Concatenate,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    SetConfig,
    Concat,
    CountNulls,
    CharLength,
    /// Set-returning.
    Unnest,
    /// Set-returning.
    GenerateSeries,
    CurrentTransaction,
    /// Of one argument.
    Identity,
    /// Of any arguments.
    AlwaysTrue,
    /// The start of the transaction.
    Now,
    /// A comparison of facts, which have not changed.
    Rewrite,
}
