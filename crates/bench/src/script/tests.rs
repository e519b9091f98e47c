//! The supported part of pgbench's language, its semantics, and errors.

use super::client::with_parameters;
use super::expression::{EvalError, Expression, parse};
use super::model::Piece;
use super::{Operand, Script, Step};
use rand::SeedableRng;
use rand::rngs::StdRng;

fn script(text: &str) -> Script {
    Script::parse("test.sql", text, &[]).unwrap()
}

/// The error message of an invalid script.
fn fault(text: &str) -> String {
    Script::parse("test.sql", text, &[])
        .unwrap_err()
        .to_string()
}

/// The statements of a script in the extended protocol.
fn statements(text: &str) -> Vec<String> {
    let script = script(text);
    let texts = script.steps.iter().filter_map(|step| match step {
        Step::Sql(pieces) => Some(with_parameters(pieces)),
        _ => None,
    });
    texts.collect()
}

fn value(text: &str) -> Result<i64, EvalError> {
    let names = |name: &str| match name {
        "a" => Ok(0),
        "b" => Ok(1),
        other => Err(format!("no {other}")),
    };
    let expression = parse(text, &names).unwrap();
    expression.value(&[7, -2], &mut StdRng::seed_from_u64(7))
}

#[test]
fn statements_end_with_a_semicolon_outside_quotes_and_comments() {
    let cases = [
        ("SELECT 1;\n\nSELECT\n 2 ;", vec!["SELECT 1", "SELECT\n 2"]),
        ("SELECT 1", vec!["SELECT 1"]),
        (";; SELECT 1;;", vec!["SELECT 1"]),
        ("-- no; statement\nSELECT 1 -- one;\n;", vec!["SELECT 1"]),
        ("SELECT ';', 'it''s;';", vec!["SELECT ';', 'it''s;'"]),
        (r"SELECT E'\';', e'\\';", vec![r"SELECT E'\';', e'\\'"]),
        (r"SELECT '\'; SELECT 2;", vec![r"SELECT '\'", "SELECT 2"]),
        (r#"SELECT 1 AS "a;";"#, vec![r#"SELECT 1 AS "a;""#]),
        ("/*+ HINT; */ SELECT 1;", vec!["/*+ HINT; */ SELECT 1"]),
        (
            "SELECT /* /* ; */ ; */ 1;",
            vec!["SELECT /* /* ; */ ; */ 1"],
        ),
        ("DO $$ a; $$; SELECT 1;", vec!["DO $$ a; $$", "SELECT 1"]),
        ("DO $x$ $$; $x$;", vec!["DO $x$ $$; $x$"]),
        ("SELECT a$b FROM t$1;", vec!["SELECT a$b FROM t$1"]),
    ];
    for (text, expected) in cases {
        assert_eq!(statements(text), expected, "{text}");
    }
}

#[test]
fn variables_become_parameters_but_casts_and_quoted_names_stay() {
    let text = "\\set id 1\n\
        UPDATE t SET a = :id, b = ':id', \"c:id\" = x::id WHERE d[1:2] = :id AND e =:id /* :id */ -- :id\n;";
    assert_eq!(
        statements(text),
        ["UPDATE t SET a = $1, b = ':id', \"c:id\" = x::id WHERE d[1:2] = $2 AND e =$3 /* :id */"]
    );
}

#[test]
fn definitions_are_variables_and_override_built_in_values() {
    let definitions = [
        ("scale".to_owned(), "10".to_owned()),
        ("city".to_owned(), "'Paris'".to_owned()),
        ("client_id".to_owned(), "3".to_owned()),
    ];
    let text = "\\set id :scale * 100\nSELECT :city, :id, :client_id;";
    let script = Script::parse("test.sql", text, &definitions).unwrap();
    let Some(Step::Sql(pieces)) = script.steps.get(1) else {
        panic!("{:?}", script.steps);
    };
    assert!(pieces.contains(&Piece::Value(Operand::Text("'Paris'".to_owned()))));
    assert_eq!((script.client_id, script.presets[0]), (None, 3));
    let unused = Script::parse("test.sql", "\\set x :city\nSELECT 1;", &definitions);
    assert_eq!(
        unused.unwrap_err().to_string(),
        "test.sql:1: city is \"'Paris'\", which is no whole number"
    );
}

#[test]
fn commands_may_continue_on_the_next_line() {
    let script =
        script("\\set id \\\n 1 + \\\n 2\n\\sleep 10 ms\n\\sleep 5us\n\\sleep :id\nSELECT 1;");
    let Some(Step::Set { line: 1, to, .. }) = script.steps.first() else {
        panic!("{:?}", script.steps);
    };
    assert_eq!(to.value(&[], &mut StdRng::seed_from_u64(7)), Ok(3));
    let sleeps = script.steps.iter().filter_map(|step| match step {
        Step::Sleep { line, time, unit } => Some((*line, time.clone(), unit.as_micros())),
        _ => None,
    });
    assert_eq!(
        sleeps.collect::<Vec<_>>(),
        [
            (4, Expression::Number(10), 1_000),
            (5, Expression::Number(5), 1),
            (6, Expression::Variable(1), 1_000_000)
        ]
    );
}

#[test]
fn errors_name_their_line() {
    let cases = [
        (
            "SELECT 1;\n\\gset\n",
            "test.sql:2: \\gset is not understood; there is \\set and \\sleep",
        ),
        (
            "SELECT 1 \\gset\n",
            "test.sql:1: a statement ends with ; before a command; \\gset and \\; are not understood",
        ),
        (
            "SELECT\n:x;",
            "test.sql:2: nothing has set the variable x; \\set it further up, or add --define x=VALUE",
        ),
        (
            "\\set x :x + 1\nSELECT 1;",
            "test.sql:1: nothing has set the variable x; \\set it further up, or add --define x=VALUE",
        ),
        (
            "SELECT 1\n+ $1;",
            "test.sql:2: a parameter has no value here; write a variable, :name",
        ),
        ("SELECT 'a\n;", "test.sql:1: a quoted text does not end"),
        ("SELECT /* /* */;", "test.sql:1: a comment does not end"),
        (
            "DO $a$ $b$;",
            "test.sql:1: a dollar-quoted text does not end",
        ),
        (
            "\\set 1x 2\nSELECT 1;",
            "test.sql:1: \"1x\" is no name of a variable: letters, digits and underscores, no digit first",
        ),
        (
            "\\set x\nSELECT 1;",
            "test.sql:1: write \\set NAME EXPRESSION",
        ),
        (
            "\\sleep 1 h\nSELECT 1;",
            "test.sql:1: \"h\" is no unit of time: us, ms or s",
        ),
        ("\\set x 1\n\n", "test.sql:3: there is no statement in it"),
    ];
    for (text, expected) in cases {
        assert_eq!(fault(text), expected, "{text}");
    }
}

#[test]
fn expressions_have_the_semantics_of_pgbench() {
    let cases = [
        ("1 + 2 * 3", Ok(7)),
        ("(1 + 2) * 3", Ok(9)),
        ("10 - 4 - 3", Ok(3)),
        ("-7 / 2", Ok(-3)),
        ("-7 % 3", Ok(-1)),
        ("7 % :b", Ok(1)),
        (":a * :b", Ok(-14)),
        ("- - +:a", Ok(7)),
        ("1 / 0", Err(EvalError::DivisionByZero)),
        ("1 % 0", Err(EvalError::DivisionByZero)),
        ("9223372036854775807 + 1", Err(EvalError::OutOfRange)),
        (
            "(-9223372036854775807 - 1) / -1",
            Err(EvalError::OutOfRange),
        ),
        ("(-9223372036854775807 - 1) % -1", Ok(0)),
        ("random(2, 1)", Err(EvalError::EmptyRange)),
        ("random(5, 5)", Ok(5)),
    ];
    for (text, expected) in cases {
        assert_eq!(value(text), expected, "{text}");
    }
}

#[test]
fn invalid_expressions_are_errors() {
    let cases = [
        ("1 +", "a number is missing at the end"),
        ("1 + * 2", "a number is missing before \"* 2\""),
        ("(1", "')' is missing before \"\""),
        ("1 2", "\"2\" is not understood"),
        ("1.5", "\".5\" is not understood"),
        (
            "9223372036854775808",
            "\"9223372036854775808\" is no whole number of 64 bits",
        ),
        ("random(1)", "',' is missing before \")\""),
        (
            "random_zipfian(1, 2, 1)",
            "the third value must be a number, 1.001 or more",
        ),
        (
            "random_gaussian(1, 2, x)",
            "the third value must be a number, 2 or more",
        ),
        (
            "random_exponential(1, 2, 0)",
            "the third value must be a number, more than 0",
        ),
        (":c", "no c"),
    ];
    let names = |name: &str| Err(format!("no {name}"));
    for (text, expected) in cases {
        assert_eq!(parse(text, &names).unwrap_err(), expected, "{text}");
    }
    assert!(
        parse("abs(1)", &names)
            .unwrap_err()
            .starts_with("there is no function \"abs\"")
    );
    let deep = format!("{}1{}", "(".repeat(1_000), ")".repeat(1_000));
    assert!(
        parse(&deep, &names)
            .unwrap_err()
            .starts_with("more than 100")
    );
}

/// The number of times that each number from 1 to 9 is drawn.
fn counts(draw: &str) -> [u32; 9] {
    let expression = parse(draw, &|name| Err(name.to_owned())).unwrap();
    let mut rng = StdRng::seed_from_u64(7);
    let mut counts = [0; 9];
    for _ in 0..9_000 {
        let number = expression.value(&[], &mut rng).unwrap();
        counts[usize::try_from(number - 1).unwrap()] += 1;
    }
    counts
}

#[test]
fn random_numbers_have_the_right_range_and_distribution() {
    let even = counts("random(1, 9)");
    assert!(
        even.iter().all(|count| (800..1_200).contains(count)),
        "{even:?}"
    );
    let normal = counts("random_gaussian(1, 9, 3.0)");
    assert!(
        normal[4] > normal[1] && normal[4] > normal[7] && normal[0] < 300,
        "{normal:?}"
    );
    let falling = counts("random_exponential(1, 9, 5)");
    assert!(falling.is_sorted_by(|a, b| a > b), "{falling:?}");
    let law = counts("random_zipfian(1, 9, 1.5)");
    assert!(
        law[..5].is_sorted_by(|a, b| a > b) && law[0] > 4_000,
        "{law:?}"
    );
}
