//! The schema in the repository, and the values that it accepts. The validator knows as much of JSON schema as the schema uses.

use super::*;
use crate::Config;
use paceline_testing::kept;

fn value(toml: &str) -> Value {
    let document: toml::Table = toml.parse().unwrap();
    serde_json::to_value(document).unwrap()
}

/// The violations of the schema in `value`, as paths into it.
fn complaints(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    let kind = schema.get("type");
    let kinds: Vec<&str> = match kind {
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        Some(kind) => kind.as_str().into_iter().collect(),
        None => Vec::new(),
    };
    let listed = |name: &str| schema.get(name).and_then(Value::as_array);
    if !kinds.is_empty() && !kinds.iter().any(|kind| is(value, kind)) {
        return found.push(format!("{path}: not {kinds:?}"));
    }
    if listed("enum").is_some_and(|among| !among.contains(value)) {
        found.push(format!("{path}: not in the list"));
    }
    let accepts = |schema: &Value| {
        let mut problems = Vec::new();
        complaints(schema, value, path, &mut problems);
        problems.is_empty()
    };
    if listed("anyOf").is_some_and(|among| !among.iter().any(accepts)) {
        found.push(format!("{path}: none of the alternatives"));
    }
    let outside = |limit: &str, wrong: fn(f64, f64) -> bool| {
        let limit = schema.get(limit).and_then(Value::as_f64);
        limit
            .zip(value.as_f64())
            .is_some_and(|(limit, number)| wrong(number, limit))
    };
    if outside("minimum", |number, least| number < least)
        || outside("maximum", |number, most| number > most)
    {
        found.push(format!("{path}: outside its limits"));
    }
    for name in listed("required")
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if value.get(name).is_none() {
            found.push(format!("{path}.{name}: missing"));
        }
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let own = schema
            .get("properties")
            .and_then(|properties| properties.get(name));
        match own.or(schema.get("additionalProperties")) {
            Some(Value::Bool(false)) | None => found.push(format!("{path}: unknown")),
            Some(schema) => complaints(schema, value, &path, found),
        }
    }
    if let (Some(schema), Some(items)) = (schema.get("items"), value.as_array()) {
        for (number, item) in items.iter().enumerate() {
            complaints(schema, item, &format!("{path}[{number}]"), found);
        }
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        kind => panic!("the validator does not know {kind}"),
    }
}

fn wrong(toml: &str) -> Vec<String> {
    let mut found = Vec::new();
    complaints(&schema(), &value(toml), "", &mut found);
    found
}

#[test]
fn the_schema_in_the_repository_is_this_one() {
    kept("deploy/paceline.schema.json", |_| {
        format!("{:#}\n", schema())
    });
}

#[test]
fn the_example_is_accepted_and_names_the_schema() {
    let example = include_str!("../../../../deploy/paceline.toml");
    assert!(example.starts_with("#:schema ./paceline.schema.json\n"));
    assert_eq!(wrong(example), [""; 0]);
}

/// The schema refuses each value that the reader refuses for its kind, its name or its limits.
#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    for (toml, expected) in [
        ("[paceline]\ncolour = 1", ".paceline.colour: unknown"),
        (
            "[paceline]\nhotspot = \"on\"",
            ".paceline.hotspot: not [\"boolean\"]",
        ),
        (
            "[paceline]\ngroup_size_max = 1",
            ".paceline.group_size_max: outside its limits",
        ),
        (
            "[paceline]\ngroup_size_max = 10001",
            ".paceline.group_size_max: outside its limits",
        ),
        (
            "[paceline]\ngroup_size_max = 2.5",
            ".paceline.group_size_max: not [\"integer\"]",
        ),
        (
            "[paceline]\nworker_threads = 257",
            ".paceline.worker_threads: none of the alternatives",
        ),
        (
            "[paceline]\nworker_threads = \"all\"",
            ".paceline.worker_threads: none of the alternatives",
        ),
        (
            "[paceline]\nquery_wait_timeout = -1",
            ".paceline.query_wait_timeout: outside its limits",
        ),
        (
            "[paceline]\nlisten = 6432",
            ".paceline.listen: not [\"string\"]",
        ),
        (
            "[databases.x]\ndefault_pool_size = 1",
            ".databases.x.primary: missing",
        ),
        (
            "[databases.x]\nprimary = \"postgres://a\"\ncolour = 1",
            ".databases.x.colour: unknown",
        ),
        (
            "[databases.x]\nprimary = \"postgres://a\"\n[databases.x.users.y]\ndefault_pool_size = 0",
            ".databases.x.users.y.default_pool_size: outside its limits",
        ),
        ("[[take]]\nlimit_argument = 1", ".take[0].function: missing"),
        (
            "[[group]]\nfunction = \"f\"\nlimit_argument = 1",
            ".group[0].limit_argument: unknown",
        ),
        ("[elsewhere]", ".elsewhere: unknown"),
    ] {
        assert!(Config::from_toml(toml, "p.toml").is_err(), "{toml}");
        assert_eq!(wrong(toml), [expected], "{toml}");
    }
}

/// Every default is of the kind that its own schema asks for.
#[test]
fn defaults_are_accepted() {
    for key in keys() {
        let toml = format!(
            "[paceline]\n{} = {}",
            key.name,
            key.show(&Settings::default())
        );
        assert_eq!(wrong(&toml), [""; 0]);
    }
}
