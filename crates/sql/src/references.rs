//! What a tree refers to: relations, functions, operators and cast targets, by the names in the text.

use crate::escapes;
use crate::name::{Name, push_distinct};
use crate::tree::Record;

/// Every function called in call syntax (`CURRENT_TIMESTAMP` and its like are not functions here).
pub(crate) fn functions(tree: &Record) -> Vec<Name> {
    let mut found = Vec::new();
    tree.walk(&mut |node| {
        if node.kind == "FuncCall"
            && let Some(name) = Name::from_parts(node.names("funcname"))
        {
            push_distinct(&mut found, name);
        }
    });
    found
}

/// Every operator, those that a construct implies (`IN`, `BETWEEN`, `CASE x WHEN`, …) included.
pub(crate) fn operators(tree: &Record) -> Vec<Name> {
    let mut found = Vec::new();
    tree.walk(&mut |node| {
        let names = match node.kind {
            "AExpr" => vec![node.names("name")],
            "SubLink"
                if node.record("testexpr").is_some() && node.names("oper_name").is_empty() =>
            {
                vec![vec!["=".into()]]
            }
            "SubLink" => vec![node.names("oper_name")],
            "SortBy" => vec![node.names("use_op")],
            "CaseExpr" if node.record("arg").is_some() => vec![vec!["=".into()]],
            _ => return,
        };
        for name in names.into_iter().filter_map(Name::from_parts) {
            for operator in implied(name) {
                push_distinct(&mut found, operator);
            }
        }
    });
    found
}

/// The parser names some constructs like operators.
fn implied(name: Name) -> Vec<Name> {
    let both = |one: &str, other: &str| {
        [one, other]
            .map(|name| Name {
                schema: None,
                name: name.to_owned(),
            })
            .to_vec()
    };
    match name.name.as_str() {
        "BETWEEN" | "BETWEEN SYMMETRIC" => both(">=", "<="),
        "NOT BETWEEN" | "NOT BETWEEN SYMMETRIC" => both("<", ">"),
        _ => vec![name],
    }
}

/// Names that stand where a field of a row does: `t.name`, `(value).name`.
pub(crate) fn fields(tree: &Record) -> Vec<Name> {
    let mut found = Vec::new();
    tree.walk(&mut |node| {
        let names = match node.kind {
            "ColumnRef" => node.names("fields").into_iter().skip(1).collect(),
            "AIndirection" => node.names("indirection"),
            _ => Vec::new(),
        };
        for name in names {
            push_distinct(&mut found, Name { schema: None, name });
        }
    });
    found
}

/// The types of explicit casts, as the parser names them (`int` is `pg_catalog.int4`; array bounds are not told).
pub(crate) fn casts_to(tree: &Record) -> Vec<Name> {
    let mut found = Vec::new();
    tree.walk(&mut |node| {
        if node.kind == "TypeCast"
            && let Some(name) = node
                .record("type_name")
                .and_then(|cast| Name::from_parts(cast.names("names")))
        {
            push_distinct(&mut found, name);
        }
    });
    found
}

/// The collations of COLLATE.
pub(crate) fn collations(tree: &Record) -> Vec<Name> {
    let mut found = Vec::new();
    tree.walk(&mut |node| {
        if node.kind == "CollateClause"
            && let Some(name) = Name::from_parts(node.names("collname"))
        {
            push_distinct(&mut found, name);
        }
    });
    found
}

/// The constants that name a relation: arguments of `nextval`, cast or not, and what is cast to `regclass`.
pub(crate) fn named_relations(tree: &Record) -> Vec<String> {
    let mut found = Vec::new();
    let is = |names: Vec<String>, last: &str| names.last().is_some_and(|name| name == last);
    tree.walk(&mut |node| {
        let calls = is(node.names("funcname"), "nextval");
        let to_relation = || {
            let cast = node.record("type_name").filter(|_| node.kind == "TypeCast");
            cast.is_some_and(|name| is(name.names("names"), "regclass"))
        };
        let mut argument = match calls {
            true => node.list("args").next(),
            false => node.record("arg").filter(|_| to_relation()),
        };
        while let Some(cast) = argument.filter(|node| node.kind == "TypeCast") {
            argument = cast.record("arg");
        }
        let constant = argument.filter(|node| node.kind == "AConst");
        let text = constant.and_then(|node| node.record("val"));
        if let Some(text) = text.filter(|value| value.kind == "String") {
            push_distinct(&mut found, text.text("sval").to_owned());
        }
    });
    found
}

/// Words that the input of dates and times takes for a moment.
const MOMENTS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];

/// Whether a text constant may be one of these words, alone or with a time of day; also where backslashes escape.
pub(crate) fn names_moment(tree: &Record) -> bool {
    let mut found = false;
    tree.walk(&mut |node| {
        let text = node.record("val").filter(|_| node.kind == "AConst");
        let text = text.map_or("", |value| value.text("sval"));
        found |= text_names_moment(text)
            || (text.contains('\\') && text_names_moment(&escapes::unescaped(text)));
    });
    found
}

/// Whether a text may be one of these words, alone or with a time of day.
pub fn text_names_moment(text: &str) -> bool {
    let is_moment = |word: &str| MOMENTS.iter().any(|m| word.eq_ignore_ascii_case(m));
    let mut words = text.split(|c: char| !c.is_ascii_alphabetic());
    words.any(is_moment)
}

/// Every table-like thing referred to, CTE names left out where they are in scope.
pub(crate) fn relations(tree: &Record) -> Vec<Name> {
    let mut found = Vec::new();
    collect_relations(tree, &[], &mut found);
    found
}

/// What INSERT, UPDATE, DELETE and MERGE change, in CTEs too.
pub(crate) fn targets(tree: &Record) -> Vec<Name> {
    let mut found = Vec::new();
    tree.walk(&mut |node| {
        let target = node.record("relation").filter(|_| changes_rows(node));
        if let Some(target) = target {
            push_relation(target, &[], &mut found);
        }
    });
    found
}

fn changes_rows(node: &Record) -> bool {
    matches!(
        node.kind,
        "InsertStmt" | "UpdateStmt" | "DeleteStmt" | "MergeStmt"
    )
}

fn collect_relations(node: &Record, ctes: &[String], found: &mut Vec<Name>) {
    match node.kind {
        "RangeVar" => return push_relation(node, ctes, found),
        // FOR UPDATE OF names an alias of the same statement.
        "LockingClause" => return,
        "DropStmt" => return dropped_relations(node, found),
        _ => {}
    }
    let mut scope = ctes.to_vec();
    if let Some(with) = node.record("with_clause") {
        collect_ctes(with, &mut scope, found);
    }
    let is_target_a_table = changes_rows(node);
    for (field, child) in node.children() {
        match field {
            "with_clause" => {}
            "relation" if is_target_a_table => collect_relations(child, &[], found),
            _ => collect_relations(child, &scope, found),
        }
    }
}

/// A CTE sees those before it, and with RECURSIVE all of them; afterwards all are in scope.
fn collect_ctes(with: &Record, scope: &mut Vec<String>, found: &mut Vec<Name>) {
    let is_recursive = with.number("recursive") != 0;
    if is_recursive {
        scope.extend(with.list("ctes").map(|cte| cte.text("ctename").to_owned()));
    }
    for cte in with.list("ctes") {
        for (_, child) in cte.children() {
            collect_relations(child, scope, found);
        }
        if !is_recursive {
            scope.push(cte.text("ctename").to_owned());
        }
    }
}

fn push_relation(node: &Record, ctes: &[String], found: &mut Vec<Name>) {
    let name = node.text("relname").to_owned();
    let schema = Some(node.text("schemaname").to_owned()).filter(|schema| !schema.is_empty());
    if schema.is_some() || !ctes.contains(&name) {
        push_distinct(found, Name { schema, name });
    }
}

/// DROP names its objects by lists of strings.
fn dropped_relations(node: &Record, found: &mut Vec<Name>) {
    use pg_query::protobuf::ObjectType;
    let is_relation = [
        ObjectType::ObjectTable,
        ObjectType::ObjectView,
        ObjectType::ObjectMatview,
        ObjectType::ObjectIndex,
        ObjectType::ObjectSequence,
        ObjectType::ObjectForeignTable,
    ]
    .iter()
    .any(|kind| i64::from(*kind as i32) == node.number("remove_type"));
    if is_relation {
        for name in node
            .list("objects")
            .filter_map(|object| Name::from_parts(object.names("items")))
        {
            push_distinct(found, name);
        }
    }
}

/// Whether a parameter stands where a constant would mean something else or where PostgreSQL takes only a constant.
pub(crate) fn needs_constants(tree: &Record) -> bool {
    let mut needed = false;
    tree.walk(&mut |node| {
        let fields: &[&str] = match node.kind {
            "TypeName" => &["typmods", "array_bounds"],
            "InferClause" => &["index_elems", "where_clause"],
            "SelectStmt" if is_grouped(node) => &[
                "target_list",
                "distinct_clause",
                "group_clause",
                "having_clause",
                "sort_clause",
            ],
            "SelectStmt" => {
                needed |= node
                    .list("sort_clause")
                    .any(|item| item.record("node").is_some_and(is_parameter));
                return;
            }
            _ => return,
        };
        needed |= node
            .children()
            .any(|(field, child)| fields.contains(&field) && child.contains(&["ParamRef"]));
    });
    needed
}

fn is_grouped(select: &Record) -> bool {
    select.list("group_clause").next().is_some()
        || matches!(select.field("distinct_clause"), Some(crate::tree::Value::List(items)) if !items.is_empty())
}

fn is_parameter(node: &Record) -> bool {
    node.kind == "ParamRef"
}
