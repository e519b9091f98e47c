//! Resolves the names in statements.

use super::resolve_expr::{convert, inner, string};
use super::schema::Schema;
use super::scope::{NotSimulated, Resolver, Scope};
use super::tree::{Body, Cte, Expr, From, Lock, OutColumn, Query, Select, Statement};
use super::value::Type;
use pg_query::protobuf::{
    JoinType, LockWaitPolicy, RangeFunction, RangeVar, SelectStmt, SortByDir, WithClause,
};
use pg_query::{Node, NodeEnum};

/// Resolves a statement whose parameters have these types, as far as they are known.
pub(crate) fn resolve(
    node: &NodeEnum,
    schema: &Schema,
    parameters: Vec<Type>,
) -> Result<Statement, NotSimulated> {
    let mut resolver = Resolver {
        schema,
        scopes: Vec::new(),
        names: Vec::new(),
        ctes: Vec::new(),
        parameters,
    };
    let query = resolver.query(node, &[])?;
    let ctes = resolver.ctes.into_iter().collect::<Option<_>>();
    Ok(Statement {
        query,
        ctes: ctes.ok_or("an unfinished common table expression")?,
        parameters: resolver.parameters,
    })
}

/// A target list.
pub(crate) struct Targets {
    pub(crate) exprs: Vec<Expr>,
    pub(crate) columns: Vec<OutColumn>,
}

fn column(name: &str, of: Type) -> OutColumn {
    OutColumn {
        name: name.to_owned(),
        of,
        origin: None,
        hidden: false,
    }
}

impl Resolver<'_> {
    /// `expected` are the types of the columns, as far as they are known.
    pub(crate) fn query(
        &mut self,
        node: &NodeEnum,
        expected: &[Type],
    ) -> Result<Query, NotSimulated> {
        match node {
            NodeEnum::SelectStmt(select) => self.query_of_select(select, expected),
            NodeEnum::InsertStmt(insert) => self.insert(insert),
            NodeEnum::UpdateStmt(update) => self.update(update),
            NodeEnum::DeleteStmt(delete) => self.delete(delete),
            other => Err(format!("statement {other:?}")),
        }
    }

    pub(crate) fn with(&mut self, with: Option<&WithClause>) -> Result<(), NotSimulated> {
        let Some(with) = with else { return Ok(()) };
        for cte in &with.ctes {
            let NodeEnum::CommonTableExpr(cte) = inner(Some(cte))? else {
                return Err("WITH".to_owned());
            };
            let slot = self.ctes.len();
            self.ctes.push(None);
            let names: Vec<&str> = cte.aliascolnames.iter().map(string).collect();
            let query = inner(cte.ctequery.as_deref())?;
            // Its columns are those of the part that is not recursive.
            let recursive = match query {
                NodeEnum::SelectStmt(select) if with.recursive => select.larg.as_deref(),
                _ => None,
            };
            if let Some(base) = recursive {
                let mut base = self.query_of_select(base, &[])?.columns;
                rename(&mut base, &names);
                self.names.push((cte.ctename.clone(), slot, base));
            }
            let mut query = self.query(query, &[])?;
            rename(&mut query.columns, &names);
            if recursive.is_none() {
                self.names
                    .push((cte.ctename.clone(), slot, query.columns.clone()));
            }
            self.ctes[slot] = Some(Cte {
                query,
                recursive: recursive.is_some(),
            });
        }
        Ok(())
    }

    pub(crate) fn query_of_select(
        &mut self,
        select: &SelectStmt,
        expected: &[Type],
    ) -> Result<Query, NotSimulated> {
        self.with(select.with_clause.as_ref())?;
        if let (Some(left), Some(right)) = (&select.larg, &select.rarg) {
            let left = self.query_of_select(left, expected)?;
            let right = self.query_of_select(right, expected)?;
            let columns = left.columns.clone();
            let body = Body::Union(Box::new(left), Box::new(right));
            return Ok(Query { body, columns });
        }
        self.scopes.push(Scope::default());
        let resolved = match select.values_lists.is_empty() {
            true => self.select(select, expected),
            false => self.values(select, expected),
        };
        self.scopes.pop();
        resolved
    }

    fn values(&mut self, select: &SelectStmt, expected: &[Type]) -> Result<Query, NotSimulated> {
        let (mut rows, mut columns) = (Vec::new(), Vec::new());
        for list in &select.values_lists {
            let NodeEnum::List(list) = inner(Some(list))? else {
                return Err("VALUES".to_owned());
            };
            let mut row = Vec::new();
            columns.clear();
            for (place, item) in list.items.iter().enumerate() {
                let to = expected.get(place).copied().unwrap_or(Type::Unknown);
                let typed = self.expr(Some(item), to)?;
                columns.push(column("column", typed.1));
                row.push(convert(typed, to));
            }
            rows.push(row);
        }
        let body = Body::Values(rows);
        Ok(Query { body, columns })
    }

    fn select(&mut self, select: &SelectStmt, expected: &[Type]) -> Result<Query, NotSimulated> {
        let from = match select.from_clause.is_empty() {
            true => None,
            false => Some(self.from(&select.from_clause)?),
        };
        let mut quals = Vec::new();
        if let Some(condition) = select.where_clause.as_deref() {
            quals.push(convert(self.expr(Some(condition), Type::Bool)?, Type::Bool));
        }
        let targets = self.targets(&select.target_list, expected)?;
        let mut order = Vec::new();
        for by in &select.sort_clause {
            let NodeEnum::SortBy(by) = inner(Some(by))? else {
                return Err("ORDER BY".to_owned());
            };
            let (expr, _) = self.expr(by.node.as_deref(), Type::Unknown)?;
            order.push((expr, by.sortby_dir == SortByDir::SortbyDesc as i32));
        }
        let limit = match select.limit_count.as_deref() {
            Some(limit) => Some(convert(self.expr(Some(limit), Type::Int8)?, Type::Int8)),
            None => None,
        };
        let lock = self.locking(&select.locking_clause)?;
        let body = Body::Select(Select {
            from,
            quals,
            aggregates: targets.exprs.iter().any(is_aggregate),
            targets: targets.exprs,
            order,
            limit,
            lock,
        });
        Ok(Query {
            body,
            columns: targets.columns,
        })
    }

    fn locking(&mut self, clauses: &[Node]) -> Result<Option<Lock>, NotSimulated> {
        let Some(clause) = clauses.first() else {
            return Ok(None);
        };
        let NodeEnum::LockingClause(clause) = inner(Some(clause))? else {
            return Err("a locking clause".to_owned());
        };
        let alias = match clause.locked_rels.first() {
            Some(of) => match inner(Some(of))? {
                NodeEnum::RangeVar(of) => Some(of.relname.clone()),
                other => return Err(format!("a lock of {other:?}")),
            },
            None => None,
        };
        let scope = self.scope()?;
        let entry = match &alias {
            Some(alias) => scope.entry(alias),
            None => scope.entries.iter().find(|entry| entry.table.is_some()),
        };
        let of = entry
            .and_then(|entry| entry.place())
            .ok_or("a lock of no table")?;
        let skip_locked = clause.wait_policy == LockWaitPolicy::LockWaitSkip as i32;
        Ok(Some(Lock { of, skip_locked }))
    }

    pub(crate) fn targets(
        &mut self,
        nodes: &[Node],
        expected: &[Type],
    ) -> Result<Targets, NotSimulated> {
        let mut targets = Targets {
            exprs: Vec::new(),
            columns: Vec::new(),
        };
        for node in nodes {
            let NodeEnum::ResTarget(target) = inner(Some(node))? else {
                return Err("a target".to_owned());
            };
            let value = inner(target.val.as_deref())?;
            if let NodeEnum::ColumnRef(all) = value
                && matches!(
                    all.fields.last().map(|field| inner(Some(field))),
                    Some(Ok(NodeEnum::AStar(_)))
                )
            {
                self.all_columns(all.fields.first().map(string), &mut targets)?;
                continue;
            }
            let to = expected
                .get(targets.exprs.len())
                .copied()
                .unwrap_or(Type::Unknown);
            let typed = self.expr(target.val.as_deref(), to)?;
            let own = match (value, target.name.as_str()) {
                (NodeEnum::ColumnRef(column), "") => column.fields.last().map(string),
                (NodeEnum::FuncCall(call), "") => call.funcname.last().map(string),
                (_, "") => Some("?column?"),
                (_, name) => Some(name),
            };
            let mut out = column(own.unwrap_or_default(), typed.1);
            out.origin = self.origin(&typed.0);
            if to != Type::Unknown {
                out.of = to;
            } else if out.of == Type::Unknown {
                out.of = Type::Text;
            }
            targets.columns.push(out);
            targets.exprs.push(convert(typed, to));
        }
        Ok(targets)
    }

    fn origin(&self, expr: &Expr) -> Option<(usize, usize)> {
        let Expr::Column(0, offset) = expr else {
            return None;
        };
        let mut columns = self
            .scopes
            .last()?
            .entries
            .iter()
            .flat_map(|entry| &entry.columns);
        columns.nth(*offset)?.origin
    }

    fn all_columns(
        &mut self,
        alias: Option<&str>,
        targets: &mut Targets,
    ) -> Result<(), NotSimulated> {
        let alias = alias.filter(|alias| !alias.is_empty()).map(str::to_owned);
        let scope = self.scope()?;
        for entry in &scope.entries {
            if alias.as_ref().is_some_and(|alias| entry.alias != *alias) {
                continue;
            }
            for (place, column) in entry
                .columns
                .iter()
                .enumerate()
                .filter(|(_, column)| !column.hidden)
            {
                targets.exprs.push(Expr::Column(0, entry.offset + place));
                targets.columns.push(column.clone());
            }
        }
        Ok(())
    }

    /// The items of a FROM clause, which are added to the innermost scope.
    pub(crate) fn from(&mut self, items: &[Node]) -> Result<From, NotSimulated> {
        let mut all: Option<From> = None;
        for item in items {
            let (item, right_width) = self.item(item)?;
            all = Some(match all {
                None => item,
                Some(left) => From::Join {
                    left: Box::new(left),
                    right: Box::new(item),
                    right_width,
                    on: None,
                    keeps_left: false,
                },
            });
        }
        all.ok_or_else(|| "an empty FROM clause".to_owned())
    }

    fn item(&mut self, node: &Node) -> Result<(From, usize), NotSimulated> {
        Ok(match inner(Some(node))? {
            NodeEnum::RangeVar(table) => self.relation(table)?,
            NodeEnum::RangeFunction(functions) => self.functions(functions)?,
            NodeEnum::RangeSubselect(sub) => {
                let query = self.query(inner(sub.subquery.as_deref())?, &[])?;
                let alias = sub.alias.as_ref().map_or("", |alias| &alias.aliasname);
                let columns = query.columns.clone();
                let width = self.scope()?.add(alias, columns, None);
                (From::Sub(Box::new(query)), width)
            }
            NodeEnum::JoinExpr(join) => {
                let (left, left_width) = self.item(join.larg.as_deref().ok_or("JOIN")?)?;
                let (right, right_width) = self.item(join.rarg.as_deref().ok_or("JOIN")?)?;
                let on = match join.quals.as_deref() {
                    Some(on) => Some(convert(self.expr(Some(on), Type::Bool)?, Type::Bool)),
                    None => None,
                };
                let keeps_left = join.jointype == JoinType::JoinLeft as i32;
                let join = From::Join {
                    left: Box::new(left),
                    right: Box::new(right),
                    right_width,
                    on,
                    keeps_left,
                };
                (join, left_width + right_width)
            }
            other => return Err(format!("FROM {other:?}")),
        })
    }

    pub(crate) fn relation(&mut self, table: &RangeVar) -> Result<(From, usize), NotSimulated> {
        let alias = table
            .alias
            .as_ref()
            .map_or(&table.relname, |alias| &alias.aliasname);
        let known = self
            .names
            .iter()
            .rev()
            .find(|(name, ..)| *name == table.relname);
        if let Some((_, slot, columns)) = known.filter(|_| table.schemaname.is_empty()) {
            let (slot, columns) = (*slot, columns.clone());
            let width = self.scope()?.add(alias, columns, None);
            return Ok((From::Cte(slot), width));
        }
        let number = self.table(table)?;
        let columns = self.schema.columns(number);
        let width = self.scope()?.add(alias, columns, Some(number));
        Ok((From::Table(number), width))
    }

    pub(crate) fn table(&self, table: &RangeVar) -> Result<usize, NotSimulated> {
        let number = self.schema.table(&table.relname);
        number.ok_or_else(|| format!("table {}", table.relname))
    }

    fn functions(&mut self, item: &RangeFunction) -> Result<(From, usize), NotSimulated> {
        let mut calls = Vec::new();
        let mut columns = Vec::new();
        for function in &item.functions {
            let NodeEnum::List(list) = inner(Some(function))? else {
                return Err("ROWS FROM".to_owned());
            };
            let (call, of) = self.expr(list.items.first(), Type::Unknown)?;
            columns.push(column("", of));
            calls.push(call);
        }
        if item.ordinality {
            columns.push(column("ordinality", Type::Int8));
        }
        let alias = item.alias.as_ref().ok_or("functions without alias")?;
        let names: Vec<&str> = alias.colnames.iter().map(string).collect();
        rename(&mut columns, &names);
        let name = alias.aliasname.clone();
        let width = self.scope()?.add(&name, columns, None);
        Ok((From::Functions(calls, item.ordinality), width))
    }
}

fn rename(columns: &mut [OutColumn], names: &[&str]) {
    for (column, name) in columns.iter_mut().zip(names) {
        (*name).clone_into(&mut column.name);
    }
}

fn is_aggregate(expr: &Expr) -> bool {
    match expr {
        Expr::Count(_) => true,
        Expr::Cast(arg, _) | Expr::Not(arg) => is_aggregate(arg),
        Expr::Operator(_, left, right) => is_aggregate(left) || is_aggregate(right),
        _ => false,
    }
}
