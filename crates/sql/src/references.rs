//! References in a parse tree: relations, functions, operators and cast targets, by the names in the text.

mod function_fields;

use crate::escapes;
use crate::name::{Name, Names};
use crate::tree::Record;
pub(crate) use function_fields::function_fields;
use std::collections::{HashMap, HashSet};

/// The names that `names` returns for the nodes of a tree, without duplicates.
fn collect<I: IntoIterator<Item = Name>>(tree: &Record, names: impl Fn(&Record) -> I) -> Vec<Name> {
    let mut found = Names::default();
    tree.walk(&mut |node| names(node).into_iter().for_each(|name| found.push(name)));
    found.into_list()
}

/// The dotted name in a field of the nodes of one kind.
fn collect_field(tree: &Record, kind: &str, field: &str) -> Vec<Name> {
    let name = |node: &Record| Name::from_parts(node.names(field));
    collect(tree, |node| {
        (node.kind == kind).then(|| name(node)).flatten()
    })
}

/// Functions that are called in function call syntax (`CURRENT_TIMESTAMP` and similar expressions are no functions in
/// the tree).
pub(crate) fn functions(tree: &Record) -> Vec<Name> {
    collect_field(tree, "FuncCall", "funcname")
}

/// Operators, including those that a construct implies (`IN`, `BETWEEN`, `CASE x WHEN`, …).
pub(crate) fn operators(tree: &Record) -> Vec<Name> {
    let equality = || vec!["=".to_owned()];
    collect(tree, |node| {
        let parts = match node.kind {
            "AExpr" => node.names("name"),
            "SubLink" => match node.names("oper_name") {
                none if none.is_empty() && node.record("testexpr").is_some() => equality(),
                parts => parts,
            },
            "SortBy" => node.names("use_op"),
            "CaseExpr" if node.record("arg").is_some() => equality(),
            _ => Vec::new(),
        };
        Name::from_parts(parts).map(implied).unwrap_or_default()
    })
}

/// The operators for a name that the parser gives to a construct.
fn implied(name: Name) -> Vec<Name> {
    let both = |one: &str, other: &str| [one, other].map(Name::without_schema).to_vec();
    match name.name.as_str() {
        "BETWEEN" | "BETWEEN SYMMETRIC" => both(">=", "<="),
        "NOT BETWEEN" | "NOT BETWEEN SYMMETRIC" => both("<", ">"),
        _ => vec![name],
    }
}

/// Names in positions of a field of a row: `t.name`, `(value).name`.
pub(crate) fn fields(tree: &Record) -> Vec<Name> {
    collect(tree, fields_of)
}

/// The names in such positions of one node.
pub(crate) fn fields_of(node: &Record) -> Vec<Name> {
    let names = match node.kind {
        "ColumnRef" => node.names("fields").into_iter().skip(1).collect(),
        "AIndirection" => node.names("indirection"),
        _ => Vec::new(),
    };
    names.into_iter().map(Name::without_schema).collect()
}

/// Names that follow a value: `(value).name`.
pub(crate) fn value_fields(tree: &Record) -> Vec<Name> {
    collect(tree, |node| match node.kind {
        "AIndirection" => fields_of(node),
        _ => Vec::new(),
    })
}

/// Whether FROM has a function: its alias may be a value of any type. All other aliases are rows.
pub(crate) fn has_function_in_from(tree: &Record) -> bool {
    tree.contains(&["RangeFunction"])
}

/// The types of explicit casts under the parser's names (`int` is `pg_catalog.int4`), without array bounds.
pub(crate) fn casts_to(tree: &Record) -> Vec<Name> {
    collect(tree, |node| {
        let cast = node.record("type_name").filter(|_| node.kind == "TypeCast");
        Name::from_parts(cast?.names("names"))
    })
}

/// The collations of COLLATE clauses.
pub(crate) fn collations(tree: &Record) -> Vec<Name> {
    collect_field(tree, "CollateClause", "collname")
}

/// Constants that name a relation: arguments of `nextval`, with or without a cast, and constants cast to `regclass`.
pub(crate) fn named_relations(tree: &Record) -> Vec<String> {
    let mut found = HashSet::new();
    let ends_with = |names: Vec<String>, last: &str| names.last().is_some_and(|name| name == last);
    tree.walk(&mut |node| {
        let calls = ends_with(node.names("funcname"), "nextval");
        let to_relation = || {
            let cast = node.record("type_name").filter(|_| node.kind == "TypeCast");
            cast.is_some_and(|name| ends_with(name.names("names"), "regclass"))
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
            found.insert(text.text("sval").to_owned());
        }
    });
    let mut found: Vec<String> = found.into_iter().collect();
    found.sort_unstable();
    found
}

/// Special values of date/time input that depend on the current time (PostgreSQL documentation, section "Date/Time
/// Input").
const MOMENTS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];

/// Whether a string constant may contain one of these words, alone or with a time of day; also if backslashes escape.
pub(crate) fn depends_on_parse_time(tree: &Record) -> bool {
    tree.any(&|node| {
        let text = node.record("val").filter(|_| node.kind == "AConst");
        let text = text.map_or("", |value| value.text("sval"));
        text_depends_on_parse_time(text.as_bytes())
            || (text.contains('\\')
                && text_depends_on_parse_time(escapes::unescaped(text).as_bytes()))
    })
}

/// Whether a text may contain one of the words `now`, `today`, `tomorrow`, `yesterday`, alone or with a time of day.
pub fn text_depends_on_parse_time(text: &[u8]) -> bool {
    let is_moment = |word: &[u8]| {
        let mut moments = MOMENTS.iter();
        moments.any(|moment| word.eq_ignore_ascii_case(moment.as_bytes()))
    };
    text.split(|byte| !byte.is_ascii_alphabetic())
        .any(is_moment)
}

/// All table-like references, without names of CTEs that are in scope.
pub(crate) fn relations(tree: &Record) -> Vec<Name> {
    let mut found = Names::default();
    collect_relations(tree, &mut Scope::default(), &mut found);
    found.into_list()
}

/// Target tables of INSERT, UPDATE, DELETE and MERGE, also in CTEs.
pub(crate) fn targets(tree: &Record) -> Vec<Name> {
    let (mut found, no_ctes) = (Names::default(), Scope::default());
    tree.walk(&mut |node| {
        let target = node.record("relation").filter(|_| changes_rows(node));
        if let Some(target) = target {
            push_relation(target, &no_ctes, &mut found);
        }
    });
    found.into_list()
}

/// The statements that insert, update, delete or merge rows.
pub(crate) const ROW_CHANGES: [&str; 4] = ["InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt"];

fn changes_rows(node: &Record) -> bool {
    ROW_CHANGES.contains(&node.kind)
}

/// The names of the CTEs in scope, innermost last.
#[derive(Default)]
struct Scope<'a> {
    names: Vec<&'a str>,
    /// Number of occurrences of each name.
    counts: HashMap<&'a str, usize>,
}

impl<'a> Scope<'a> {
    fn enter(&mut self, name: &'a str) {
        self.names.push(name);
        *self.counts.entry(name).or_default() += 1;
    }

    /// Removes the innermost names until `depth` names remain.
    fn leave(&mut self, depth: usize) {
        for name in self.names.drain(depth.min(self.names.len())..) {
            if let Some(count) = self.counts.get_mut(name) {
                *count -= 1;
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        self.counts.get(name).is_some_and(|count| *count > 0)
    }
}

fn collect_relations<'a>(node: &'a Record, scope: &mut Scope<'a>, found: &mut Names) {
    match node.kind {
        "RangeVar" => return push_relation(node, scope, found),
        // FOR UPDATE OF names an alias of the same statement.
        "LockingClause" => return,
        "DropStmt" => return dropped_relations(node, found),
        _ => {}
    }
    let depth = scope.names.len();
    if let Some(with) = node.record("with_clause") {
        collect_ctes(with, scope, found);
    }
    let is_target_a_table = changes_rows(node);
    for (field, child) in node.children() {
        match field {
            "with_clause" => {}
            "relation" if is_target_a_table => {
                collect_relations(child, &mut Scope::default(), found);
            }
            _ => collect_relations(child, scope, found),
        }
    }
    scope.leave(depth);
}

/// A CTE sees the CTEs before it, and with RECURSIVE all of them; the statement sees all.
fn collect_ctes<'a>(with: &'a Record, scope: &mut Scope<'a>, found: &mut Names) {
    let is_recursive = with.number("recursive") != 0;
    if is_recursive {
        with.list("ctes")
            .for_each(|cte| scope.enter(cte.text("ctename")));
    }
    for cte in with.list("ctes") {
        for (_, child) in cte.children() {
            collect_relations(child, scope, found);
        }
        if !is_recursive {
            scope.enter(cte.text("ctename"));
        }
    }
}

fn push_relation(node: &Record, scope: &Scope<'_>, found: &mut Names) {
    let name = node.text("relname");
    let schema = Some(node.text("schemaname").to_owned()).filter(|schema| !schema.is_empty());
    if schema.is_some() || !scope.has(name) {
        let name = name.to_owned();
        found.push(Name { schema, name });
    }
}

/// DROP contains the names of its objects as lists of strings.
fn dropped_relations(node: &Record, found: &mut Names) {
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
        let names = node.list("objects").map(|object| object.names("items"));
        names
            .filter_map(Name::from_parts)
            .for_each(|name| found.push(name));
    }
}

/// The clauses whose expressions PostgreSQL compares with one another if a SELECT has GROUP BY or DISTINCT.
const GROUPED: [&str; 5] = [
    "target_list",
    "distinct_clause",
    "group_clause",
    "having_clause",
    "sort_clause",
];

/// Whether the tree contains a parameter in a place where PostgreSQL accepts only a constant or where a constant has
/// another meaning.
pub(crate) fn needs_constants(tree: &Record) -> bool {
    tree.any(&|node| {
        let fields: &[&str] = match node.kind {
            "TypeName" => &["typmods", "array_bounds"],
            "InferClause" => &["index_elems", "where_clause"],
            "SelectStmt" if is_grouped(node) => &GROUPED,
            "SelectStmt" => {
                let mut sorted = node.list("sort_clause");
                return sorted.any(|item| item.record("node").is_some_and(is_parameter));
            }
            _ => return false,
        };
        let mut children = node.children();
        children.any(|(field, child)| fields.contains(&field) && child.contains(&["ParamRef"]))
    })
}

fn is_grouped(select: &Record) -> bool {
    select.list("group_clause").next().is_some()
        || matches!(select.field("distinct_clause"), Some(crate::tree::Value::List(items)) if !items.is_empty())
}

fn is_parameter(node: &Record) -> bool {
    node.kind == "ParamRef"
}
