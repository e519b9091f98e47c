//! Texts of bounds.

use super::*;

fn values(texts: &[&str]) -> Vec<Limit> {
    let values = texts.iter().map(|text| Limit::Value((*text).to_owned()));
    values.collect()
}

#[test]
fn every_kind_of_bound_is_read() {
    let parse = |text: &str| Bound::parse(text).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(parse("DEFAULT"), Bound::Default);
    let hash = Bound::Hash {
        modulus: 4,
        remainder: 3,
    };
    assert_eq!(parse("FOR VALUES WITH (modulus 4, remainder 3)"), hash);
    let mut list = values(&["1", "-2", "true"]);
    list.push(Limit::Null);
    assert_eq!(
        parse("FOR VALUES IN (1, '-2', true, NULL)"),
        Bound::List(list)
    );
    let quoted = values(&["it's", "a, (b)", "\\n", "", "NULL"]);
    assert_eq!(
        parse("FOR VALUES IN ('it''s', 'a, (b)', '\\n', '', 'NULL')"),
        Bound::List(quoted)
    );
    let range = Bound::Range {
        from: [values(&["2020-01-01"]), vec![Limit::MinValue]].concat(),
        to: vec![Limit::MaxValue, Limit::MaxValue],
    };
    assert_eq!(
        parse("FOR VALUES FROM ('2020-01-01', MINVALUE) TO (MAXVALUE, MAXVALUE)"),
        range
    );
}

#[test]
fn other_texts_are_refused() {
    for text in [
        "",
        "DEFAULTS",
        "FOR VALUES",
        "FOR VALUES IN ()",
        "FOR VALUES IN (1",
        "FOR VALUES IN ('1)",
        "FOR VALUES IN (1) AND (2)",
        "FOR VALUES IN ('1'::text)",
        "FOR VALUES IN (E'\\n')",
        "FOR VALUES FROM (1)",
        "FOR VALUES WITH (modulus x, remainder 1)",
        "FOR VALUES WITH (modulus -4, remainder 1)",
    ] {
        assert_eq!(Bound::parse(text), None, "{text}");
    }
}
