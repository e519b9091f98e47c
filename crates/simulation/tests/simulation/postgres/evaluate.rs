//! Evaluates expressions.

use super::error::{Stop, failed};
use super::execute::{Execution, Row};
use super::tree::{Expr, Function, Operator};
use super::value::{BEGUN_AT, Type, Value};
use std::rc::Rc;

/// The row that an expression reads, and the rows of outer queries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Env<'a> {
    pub(crate) row: &'a [Value],
    pub(crate) outer: Option<&'a Env<'a>>,
    /// The number of the row in the result, from 1.
    pub(crate) number: i64,
}

impl<'a> Env<'a> {
    pub(crate) fn of(row: &'a [Value], outer: Option<&'a Env<'a>>) -> Self {
        Self {
            row,
            outer,
            number: 0,
        }
    }

    fn column(&self, level: usize, offset: usize) -> Value {
        let mut env = self;
        for _ in 0..level {
            env = env.outer.expect("the resolver counts levels");
        }
        env.row[offset].clone()
    }
}

impl Execution<'_> {
    pub(crate) fn values(&mut self, exprs: &[Expr], env: &Env<'_>) -> Result<Row, Stop> {
        exprs.iter().map(|expr| self.value(expr, env)).collect()
    }

    pub(crate) fn all_true(&mut self, quals: &[Expr], env: &Env<'_>) -> Result<bool, Stop> {
        for qual in quals {
            if !self.value(qual, env)?.is_true() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn value(&mut self, expr: &Expr, env: &Env<'_>) -> Result<Value, Stop> {
        Ok(match expr {
            Expr::Const(value) => value.clone(),
            Expr::Param(number) => self.parameters[*number - 1].clone(),
            Expr::Column(level, offset) => env.column(*level, *offset),
            Expr::Cast(arg, to) => self.value(arg, env)?.cast(*to)?,
            Expr::Operator(operator, left, right) => {
                let (left, right) = (self.value(left, env)?, self.value(right, env)?);
                operate(*operator, &left, &right)?
            }
            Expr::And(args) => self.junction(args, env, false)?,
            Expr::Or(args) => self.junction(args, env, true)?,
            Expr::Not(arg) => match self.value(arg, env)? {
                Value::Bool(yes) => Value::Bool(!yes),
                _ => Value::Null,
            },
            Expr::IsNull(arg) => Value::Bool(self.value(arg, env)?.is_null()),
            Expr::Is(yes, arg) => Value::Bool(self.value(arg, env)? == Value::Bool(*yes)),
            Expr::Case(whens, otherwise) => {
                for (condition, result) in whens {
                    if self.value(condition, env)?.is_true() {
                        return self.value(result, env);
                    }
                }
                match otherwise {
                    Some(result) => self.value(result, env)?,
                    None => Value::Null,
                }
            }
            Expr::Coalesce(args) => {
                for arg in args {
                    let value = self.value(arg, env)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Value::Null
            }
            Expr::Element(array, index) => {
                let (array, index) = (self.value(array, env)?, self.value(index, env)?);
                element(&array, &index)
            }
            Expr::Scalar(query) => {
                let rows = self.query(query, Some(env))?;
                match rows.as_slice() {
                    [] => Value::Null,
                    [row] => row[0].clone(),
                    _ => {
                        let message =
                            "more than one row returned by a subquery used as an expression";
                        return Err(failed("21000", message).into());
                    }
                }
            }
            Expr::Exists(query) => Value::Bool(!self.query(query, Some(env))?.is_empty()),
            Expr::ArrayOf(query) => {
                let rows = self.query(query, Some(env))?;
                Value::Array(Rc::new(
                    rows.into_iter().map(|mut row| row.swap_remove(0)).collect(),
                ))
            }
            Expr::EqualsAny(one, any) => {
                let (one, any) = (self.value(one, env)?, self.value(any, env)?);
                let equal =
                    |item: &Value| item.compare(&one).is_some_and(std::cmp::Ordering::is_eq);
                match any {
                    Value::Array(items) => Value::Bool(items.iter().any(equal)),
                    _ => Value::Null,
                }
            }
            Expr::Call(function, args) => {
                let args = self.values(args, env)?;
                self.call(*function, &args)?
            }
            Expr::RowNumber => Value::Int8(env.number),
            Expr::Count(_) => panic!("an aggregate in a row"),
        })
    }

    /// AND, or OR if `any`.
    fn junction(&mut self, args: &[Expr], env: &Env<'_>, any: bool) -> Result<Value, Stop> {
        let mut result = Value::Bool(!any);
        for arg in args {
            match self.value(arg, env)? {
                Value::Bool(yes) if yes == any => return Ok(Value::Bool(any)),
                Value::Bool(_) => {}
                _ => result = Value::Null,
            }
        }
        Ok(result)
    }

    fn call(&mut self, function: Function, args: &[Value]) -> Result<Value, Stop> {
        let text = |place: usize| args.get(place).and_then(Value::to_text).unwrap_or_default();
        Ok(match function {
            Function::SetConfig => {
                let local = args.get(2).is_some_and(Value::is_true);
                self.settings.set(&text(0), Some(&text(1)), local);
                Value::text(&text(1))
            }
            Function::Concat => {
                let all: String = args.iter().filter_map(Value::to_text).collect();
                Value::text(&all)
            }
            Function::CountNulls => {
                let nulls = args.iter().filter(|arg| arg.is_null()).count();
                Value::Int4(i32::try_from(nulls).unwrap())
            }
            Function::CharLength => match &args[0] {
                Value::Null => Value::Null,
                _ => Value::Int4(i32::try_from(text(0).chars().count()).unwrap()),
            },
            Function::CurrentTransaction => Value::Int8(self.xid()),
            Function::Identity => args[0].clone(),
            Function::AlwaysTrue => Value::Bool(true),
            Function::Now => Value::Int8(BEGUN_AT),
            Function::Rewrite => Value::text("same"),
            Function::Unnest | Function::GenerateSeries => panic!("a set in a row"),
        })
    }

    /// The rows of a set-returning function.
    pub(crate) fn set(&mut self, expr: &Expr, env: &Env<'_>) -> Result<Vec<Value>, Stop> {
        let Expr::Call(function, args) = expr else {
            return Ok(vec![self.value(expr, env)?]);
        };
        let args = self.values(args, env)?;
        Ok(match (function, args.as_slice()) {
            (Function::Unnest, [Value::Array(items)]) => items.to_vec(),
            (Function::Unnest, _) => Vec::new(),
            (Function::GenerateSeries, [first, last]) => {
                let (first, last) = (first.as_int().unwrap_or(1), last.as_int().unwrap_or(0));
                (first..=last).map(Value::Int8).collect()
            }
            (function, _) => vec![self.call(*function, &args)?],
        })
    }
}

fn element(array: &Value, index: &Value) -> Value {
    let (Value::Array(items), Some(index)) = (array, index.as_int()) else {
        return Value::Null;
    };
    let place = usize::try_from(index - 1).ok();
    place
        .and_then(|place| items.get(place))
        .cloned()
        .unwrap_or(Value::Null)
}

fn operate(operator: Operator, left: &Value, right: &Value) -> Result<Value, Stop> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    if left.is_null() || right.is_null() {
        return Ok(Value::Null);
    }
    let compared = |wanted: &[std::cmp::Ordering]| {
        let ordering = left
            .compare(right)
            .unwrap_or_else(|| panic!("{left:?} and {right:?} are compared"));
        Ok(Value::Bool(wanted.contains(&ordering)))
    };
    match operator {
        Operator::Equal => compared(&[Equal]),
        Operator::NotEqual => compared(&[Less, Greater]),
        Operator::Less => compared(&[Less]),
        Operator::LessOrEqual => compared(&[Less, Equal]),
        Operator::Greater => compared(&[Greater]),
        Operator::GreaterOrEqual => compared(&[Greater, Equal]),
        Operator::Concatenate => {
            let texts = [left, right].map(|value| value.to_text().unwrap_or_default());
            Ok(Value::text(&texts.concat()))
        }
        Operator::Add | Operator::Subtract | Operator::Multiply => {
            let (Some(one), Some(other)) = (left.as_int(), right.as_int()) else {
                panic!("arithmetic with {left:?} and {right:?}");
            };
            let result = match operator {
                Operator::Add => one.checked_add(other),
                Operator::Subtract => one.checked_sub(other),
                _ => one.checked_mul(other),
            };
            let result = Value::Int8(result.ok_or_else(|| failed("22003", "bigint out of range"))?);
            match (left, right) {
                (Value::Int4(_), Value::Int4(_)) => Ok(result.cast(Type::Int4)?),
                _ => Ok(result),
            }
        }
    }
}
