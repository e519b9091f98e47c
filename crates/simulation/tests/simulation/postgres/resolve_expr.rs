//! Resolves the names in expressions.

use super::scope::{NotSimulated, Resolver};
use super::tree::{Expr, Function, Operator};
use super::value::{Type, Value, read_text};
use pg_query::protobuf::{
    AExpr, AExprKind, FuncCall, SubLink, SubLinkType, TypeCast, TypeName, a_const::Val,
};
use pg_query::{Node, NodeEnum};

type Typed = Result<(Expr, Type), NotSimulated>;

pub(crate) fn string(node: &Node) -> &str {
    match &node.node {
        Some(NodeEnum::String(text)) => &text.sval,
        _ => "",
    }
}

pub(crate) fn inner(node: Option<&Node>) -> Result<&NodeEnum, NotSimulated> {
    let node = node.and_then(|node| node.node.as_ref());
    node.ok_or_else(|| "an absent node".to_owned())
}

fn type_of(name: Option<&TypeName>) -> Result<Type, NotSimulated> {
    let name = name.ok_or("a cast without type")?;
    let last = name.names.last().map(string).unwrap_or_default();
    Type::named(last, !name.array_bounds.is_empty()).ok_or_else(|| format!("type {last}"))
}

/// Converts an expression to a type.
pub(crate) fn convert((expr, of): (Expr, Type), to: Type) -> Expr {
    match expr {
        _ if of == to || to == Type::Unknown => expr,
        Expr::Const(Value::Text(text)) if of == Type::Unknown => match read_text(&text, to) {
            Ok(value) => Expr::Const(value),
            Err(_) => Expr::Cast(Box::new(Expr::Const(Value::Text(text))), to),
        },
        expr => Expr::Cast(Box::new(expr), to),
    }
}

fn operator(name: &str) -> Result<Operator, NotSimulated> {
    Ok(match name {
        "+" => Operator::Add,
        "-" => Operator::Subtract,
        "*" => Operator::Multiply,
        "||" => Operator::Concatenate,
        "=" => Operator::Equal,
        "<>" | "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        other => return Err(format!("operator {other}")),
    })
}

fn function(name: &str) -> Result<(Function, Type), NotSimulated> {
    Ok(match name {
        "set_config" => (Function::SetConfig, Type::Text),
        "concat" => (Function::Concat, Type::Text),
        "num_nulls" => (Function::CountNulls, Type::Int4),
        "char_length" | "length" => (Function::CharLength, Type::Int4),
        "unnest" => (Function::Unnest, Type::Unknown),
        "generate_series" => (Function::GenerateSeries, Type::Int8),
        "pg_current_xact_id_if_assigned" => (Function::CurrentTransaction, Type::Int8),
        "xid" => (Function::Identity, Type::Int8),
        "has_table_privilege" | "has_column_privilege" | "has_any_column_privilege" => {
            (Function::AlwaysTrue, Type::Bool)
        }
        "now" => (Function::Now, Type::Timestamp),
        "ts_rewrite" => (Function::Rewrite, Type::Text),
        other => return Err(format!("function {other}")),
    })
}

impl Resolver<'_> {
    fn boxed(&mut self, node: Option<&Node>, expected: Type) -> Result<Box<Expr>, NotSimulated> {
        let typed = self.expr(node, expected)?;
        Ok(Box::new(convert(typed, expected)))
    }

    /// An expression and its type. `expected` decides the type of a parameter or literal without one.
    pub(crate) fn expr(&mut self, node: Option<&Node>, expected: Type) -> Typed {
        Ok(match inner(node)? {
            NodeEnum::ColumnRef(column) => {
                let names: Vec<&str> = column.fields.iter().map(string).collect();
                match names.as_slice() {
                    [name] => self.column(None, name)?,
                    [alias, name] => self.column(Some(alias), name)?,
                    other => return Err(format!("column {other:?}")),
                }
            }
            NodeEnum::ParamRef(param) => {
                let number = usize::try_from(param.number).unwrap_or_default();
                (Expr::Param(number), self.parameter(number, expected))
            }
            NodeEnum::AConst(value) if value.isnull => (Expr::Const(Value::Null), expected),
            NodeEnum::AConst(value) => match &value.val {
                Some(Val::Ival(number)) => (Expr::Const(Value::Int4(number.ival)), Type::Int4),
                Some(Val::Boolval(yes)) => (Expr::Const(Value::Bool(yes.boolval)), Type::Bool),
                Some(Val::Sval(text)) => {
                    let literal = (Expr::Const(Value::text(&text.sval)), Type::Unknown);
                    match expected {
                        Type::Unknown => literal,
                        expected => (convert(literal, expected), expected),
                    }
                }
                other => return Err(format!("constant {other:?}")),
            },
            NodeEnum::CollateClause(clause) => self.expr(clause.arg.as_deref(), expected)?,
            NodeEnum::TypeCast(cast) => self.cast(cast)?,
            NodeEnum::AExpr(expr) => self.operation(expr)?,
            NodeEnum::BoolExpr(expr) => {
                let args: Result<Vec<_>, _> = expr
                    .args
                    .iter()
                    .map(|arg| Ok::<_, NotSimulated>(*self.boxed(Some(arg), Type::Bool)?))
                    .collect();
                let mut args = args?;
                let expr = match expr.boolop {
                    1 => Expr::And(args),
                    2 => Expr::Or(args),
                    _ => Expr::Not(Box::new(args.pop().ok_or("NOT")?)),
                };
                (expr, Type::Bool)
            }
            NodeEnum::NullTest(test) => {
                let arg = self.boxed(test.arg.as_deref(), Type::Unknown)?;
                let is_null = Expr::IsNull(arg);
                match test.nulltesttype {
                    1 => (is_null, Type::Bool),
                    _ => (Expr::Not(Box::new(is_null)), Type::Bool),
                }
            }
            NodeEnum::BooleanTest(test) => {
                let arg = self.boxed(test.arg.as_deref(), Type::Bool)?;
                let test = match test.booltesttype {
                    1 => Expr::Is(true, arg),
                    2 => Expr::Not(Box::new(Expr::Is(true, arg))),
                    3 => Expr::Is(false, arg),
                    4 => Expr::Not(Box::new(Expr::Is(false, arg))),
                    other => return Err(format!("boolean test {other}")),
                };
                (test, Type::Bool)
            }
            NodeEnum::CaseExpr(case) => {
                let mut of = expected;
                let mut whens = Vec::new();
                for when in &case.args {
                    let NodeEnum::CaseWhen(when) = inner(Some(when))? else {
                        return Err("CASE".to_owned());
                    };
                    let condition = *self.boxed(when.expr.as_deref(), Type::Bool)?;
                    let (result, result_type) = self.expr(when.result.as_deref(), of)?;
                    of = result_type;
                    whens.push((condition, result));
                }
                let otherwise = match case.defresult.as_deref() {
                    Some(result) => Some(self.boxed(Some(result), of)?),
                    None => None,
                };
                (Expr::Case(whens, otherwise), of)
            }
            NodeEnum::CoalesceExpr(coalesce) => {
                let mut of = expected;
                let mut args = Vec::new();
                for arg in &coalesce.args {
                    let (arg, arg_type) = self.expr(Some(arg), of)?;
                    of = arg_type;
                    args.push(arg);
                }
                (Expr::Coalesce(args), of)
            }
            NodeEnum::AIndirection(indirection) => {
                let (array, of) = self.expr(indirection.arg.as_deref(), Type::Unknown)?;
                let [index] = indirection.indirection.as_slice() else {
                    return Err("several subscripts".to_owned());
                };
                let NodeEnum::AIndices(index) = inner(Some(index))? else {
                    return Err("a field".to_owned());
                };
                let (index, _) = self.expr(index.uidx.as_deref(), Type::Int4)?;
                (
                    Expr::Element(Box::new(array), Box::new(index)),
                    of.element(),
                )
            }
            NodeEnum::SubLink(link) => self.sub_link(link)?,
            NodeEnum::FuncCall(call) => self.call(call)?,
            other => return Err(format!("expression {other:?}")),
        })
    }

    fn cast(&mut self, cast: &TypeCast) -> Typed {
        let to = type_of(cast.type_name.as_ref())?;
        let arg = self.expr(cast.arg.as_deref(), to)?;
        Ok((convert(arg, to), to))
    }

    fn operation(&mut self, expr: &AExpr) -> Typed {
        let name = expr.name.last().map(string).unwrap_or_default();
        if expr.kind == AExprKind::AexprOpAny as i32 {
            let (one, _) = self.expr(expr.lexpr.as_deref(), Type::Unknown)?;
            let (any, _) = self.expr(expr.rexpr.as_deref(), Type::Unknown)?;
            return Ok((Expr::EqualsAny(Box::new(one), Box::new(any)), Type::Bool));
        }
        if expr.kind != AExprKind::AexprOp as i32 {
            return Err(format!("operator of kind {}", expr.kind));
        }
        let operator = operator(name)?;
        let mut left = self.expr(expr.lexpr.as_deref(), Type::Unknown)?;
        let mut right = self.expr(expr.rexpr.as_deref(), left.1)?;
        if operator == Operator::Concatenate {
            left = (convert(left, Type::Text), Type::Text);
            right = (convert(right, Type::Text), Type::Text);
        } else if left.1 == Type::Unknown && right.1 != Type::Unknown {
            left = self.expr(expr.lexpr.as_deref(), right.1)?;
        }
        let of = match operator {
            Operator::Add | Operator::Subtract | Operator::Multiply => match (left.1, right.1) {
                (Type::Int8, _) | (_, Type::Int8) => Type::Int8,
                _ => Type::Int4,
            },
            Operator::Concatenate => Type::Text,
            _ => Type::Bool,
        };
        let operands = (Box::new(left.0), Box::new(right.0));
        Ok((Expr::Operator(operator, operands.0, operands.1), of))
    }

    fn sub_link(&mut self, link: &SubLink) -> Typed {
        let NodeEnum::SelectStmt(select) = inner(link.subselect.as_deref())? else {
            return Err("a sub-select".to_owned());
        };
        let query = Box::new(self.query_of_select(select, &[])?);
        let of = query
            .columns
            .first()
            .map_or(Type::Unknown, |column| column.of);
        Ok(match SubLinkType::try_from(link.sub_link_type) {
            Ok(SubLinkType::ExistsSublink) => (Expr::Exists(query), Type::Bool),
            Ok(SubLinkType::ExprSublink) => (Expr::Scalar(query), of),
            Ok(SubLinkType::ArraySublink) => {
                let array = match of {
                    Type::Int4 => Type::Int4Array,
                    Type::Int8 => Type::Int8Array,
                    Type::Bool => Type::BoolArray,
                    _ => Type::TextArray,
                };
                (Expr::ArrayOf(query), array)
            }
            Ok(SubLinkType::AnySublink) => {
                let (one, _) = self.expr(link.testexpr.as_deref(), of)?;
                (
                    Expr::EqualsAny(Box::new(one), Box::new(Expr::ArrayOf(query))),
                    Type::Bool,
                )
            }
            other => return Err(format!("sub-select {other:?}")),
        })
    }

    fn call(&mut self, call: &FuncCall) -> Typed {
        let name = call.funcname.last().map(string).unwrap_or_default();
        match name {
            "row_number" => return Ok((Expr::RowNumber, Type::Int8)),
            "count" => {
                let arg = match call.args.first() {
                    Some(arg) => Some(self.boxed(Some(arg), Type::Unknown)?),
                    None => None,
                };
                return Ok((Expr::Count(arg), Type::Int8));
            }
            _ => {}
        }
        let (function, of) = function(name)?;
        let (mut args, mut first) = (Vec::new(), Type::Unknown);
        for arg in &call.args {
            let (arg, arg_type) = self.expr(Some(arg), Type::Unknown)?;
            if args.is_empty() {
                first = arg_type;
            }
            args.push(arg);
        }
        let of = if function == Function::Unnest {
            first.element()
        } else {
            of
        };
        Ok((Expr::Call(function, args), of))
    }
}
