//! Resolves the names in INSERT, UPDATE and DELETE.

use super::resolve::Targets;
use super::resolve_expr::{convert, inner};
use super::scope::{NotSimulated, Resolver, Scope};
use super::tree::{Body, Conflict, Delete, Expr, From, Insert, Query, Update};
use super::value::Type;
use pg_query::protobuf::{DeleteStmt, InsertStmt, RangeVar, ReturningClause, UpdateStmt};
use pg_query::{Node, NodeEnum};

impl Resolver<'_> {
    fn returning(&mut self, clause: Option<&ReturningClause>) -> Result<Targets, NotSimulated> {
        let nodes = clause.map_or(&[][..], |clause| &clause.exprs);
        self.targets(nodes, &[])
    }

    fn sets(&mut self, table: usize, nodes: &[Node]) -> Result<Vec<(usize, Expr)>, NotSimulated> {
        let mut sets = Vec::new();
        for node in nodes {
            let NodeEnum::ResTarget(target) = inner(Some(node))? else {
                return Err("SET".to_owned());
            };
            let (place, of) = self.column_of(table, &target.name)?;
            let value = self.expr(target.val.as_deref(), of)?;
            sets.push((place, convert(value, of)));
        }
        Ok(sets)
    }

    fn column_of(&self, table: usize, name: &str) -> Result<(usize, Type), NotSimulated> {
        let columns = &self.schema.tables[table].columns;
        let place = columns.iter().position(|(column, _)| *column == name);
        let place = place.ok_or_else(|| format!("column {name}"))?;
        Ok((place, columns[place].1))
    }

    pub(crate) fn insert(&mut self, insert: &InsertStmt) -> Result<Query, NotSimulated> {
        self.with(insert.with_clause.as_ref())?;
        let relation = insert.relation.as_ref().ok_or("INSERT")?;
        let table = self.table(relation)?;
        let mut columns = Vec::new();
        for target in &insert.cols {
            let NodeEnum::ResTarget(target) = inner(Some(target))? else {
                return Err("INSERT".to_owned());
            };
            columns.push(self.column_of(table, &target.name)?);
        }
        if columns.is_empty() {
            let all = self.schema.tables[table].columns.iter().enumerate();
            columns = all.map(|(place, (_, of))| (place, *of)).collect();
        }
        let expected: Vec<Type> = columns.iter().map(|(_, of)| *of).collect();
        let source = self.query(inner(insert.select_stmt.as_deref())?, &expected)?;
        let mut scope = Scope::default();
        let alias = relation
            .alias
            .as_ref()
            .map_or(&relation.relname, |alias| &alias.aliasname);
        scope.add(alias, self.schema.columns(table), Some(table));
        self.scopes.push(scope);
        let returning = self.returning(insert.returning_clause.as_ref())?;
        let proposed = self.schema.columns(table);
        self.scope()?.add("excluded", proposed, None);
        let conflict = match insert.on_conflict_clause.as_deref() {
            None => Conflict::Error,
            Some(clause) if clause.action == 2 => Conflict::Nothing,
            Some(clause) => {
                let sets = self.sets(table, &clause.target_list)?;
                let condition = match clause.where_clause.as_deref() {
                    Some(condition) => {
                        Some(convert(self.expr(Some(condition), Type::Bool)?, Type::Bool))
                    }
                    None => None,
                };
                Conflict::Update(sets, condition)
            }
        };
        self.scopes.pop();
        let body = Body::Insert(Insert {
            table,
            columns: columns.into_iter().map(|(place, _)| place).collect(),
            source: Box::new(source),
            conflict,
            returning: returning.exprs,
        });
        Ok(Query {
            body,
            columns: returning.columns,
        })
    }

    /// The FROM clause of a statement that changes a table, which is the last item.
    fn changed(&mut self, relation: &RangeVar, others: &[Node]) -> Result<From, NotSimulated> {
        let others = match others.is_empty() {
            true => From::Nothing,
            false => self.from(others)?,
        };
        let (table, right_width) = self.relation(relation)?;
        Ok(From::Join {
            left: Box::new(others),
            right: Box::new(table),
            right_width,
            on: None,
            keeps_left: false,
        })
    }

    pub(crate) fn update(&mut self, update: &UpdateStmt) -> Result<Query, NotSimulated> {
        self.with(update.with_clause.as_ref())?;
        let relation = update.relation.as_ref().ok_or("UPDATE")?;
        self.scopes.push(Scope::default());
        let from = self.changed(relation, &update.from_clause)?;
        let mut quals = Vec::new();
        if let Some(condition) = update.where_clause.as_deref() {
            quals.push(convert(self.expr(Some(condition), Type::Bool)?, Type::Bool));
        }
        let target = self.scope()?.entries.last().and_then(|entry| entry.place());
        let target = target.ok_or("UPDATE")?;
        let sets = self.sets(target.table, &update.target_list)?;
        let returning = self.returning(update.returning_clause.as_ref())?;
        self.scopes.pop();
        let body = Body::Update(Update {
            target,
            from,
            quals,
            sets,
            returning: returning.exprs,
        });
        Ok(Query {
            body,
            columns: returning.columns,
        })
    }

    pub(crate) fn delete(&mut self, delete: &DeleteStmt) -> Result<Query, NotSimulated> {
        self.with(delete.with_clause.as_ref())?;
        let relation = delete.relation.as_ref().ok_or("DELETE")?;
        self.scopes.push(Scope::default());
        let from = self.changed(relation, &delete.using_clause)?;
        let mut quals = Vec::new();
        if let Some(condition) = delete.where_clause.as_deref() {
            quals.push(convert(self.expr(Some(condition), Type::Bool)?, Type::Bool));
        }
        let target = self.scope()?.entries.last().and_then(|entry| entry.place());
        let target = target.ok_or("DELETE")?;
        let returning = self.returning(delete.returning_clause.as_ref())?;
        self.scopes.pop();
        let body = Body::Delete(Delete {
            target,
            from,
            quals,
            returning: returning.exprs,
        });
        Ok(Query {
            body,
            columns: returning.columns,
        })
    }
}
