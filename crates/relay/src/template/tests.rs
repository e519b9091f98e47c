//! Texts that share a template, and texts that the cache keeps.

use super::templates::CachedTemplate;
use super::*;

#[test]
fn texts_that_differ_in_literals_share_a_template_and_types_do_not() {
    let templates = Templates::default();
    let a = templates.simple("select 1 from t where a = 'x'");
    let b = templates.simple("select 22 from t where a = 'y'");
    let c = templates.simple("select 1.5 from t where a = 'y'");
    assert_eq!(a.template.id, b.template.id);
    assert_ne!(a.template.id, c.template.id);
    assert_eq!(b.literals[1].text, "y");
}

#[test]
fn texts_that_differ_in_the_context_of_a_trace_share_a_template() {
    let templates = Templates::default();
    let context = |number: u32| format!("/*traceparent='00-{number:032x}-{number:016x}-01'*/");
    let update = "update t set a = a where id";
    let text = |id: &str, number: u32| format!("{update} = {id} {}", context(number));
    let simple = templates.simple(&text("7", 1));
    assert_eq!(simple.template.text, format!("{update} = $1"));
    assert_eq!(simple.literals.len(), 1);
    let known = templates.try_simple_template(&text("8", 2)).unwrap();
    assert_eq!(known.id, simple.template.id);
    let prepared = templates.prepared(&text("$1", 3), &[0, 0]);
    assert_eq!(prepared.id, templates.prepared(&text("$1", 4), &[0, 0]).id);
    assert_eq!(prepared.text, format!("{update} = $1"));
    let whole = templates.simple(&format!("select a from t {}", context(5)));
    assert_eq!(
        whole.template.id,
        templates.simple("select a from t").template.id
    );
    // After a text that the parser could not finish.
    let long = format!("select {} {}", "a,".repeat(2_000), context(6));
    if let Err(unparsed) = templates.try_simple(&long) {
        templates.give_up(&unparsed);
        assert!(templates.try_simple(&long).is_ok());
    }
    let commented = templates.simple("select a from t /*action='x'*/");
    assert_ne!(commented.template.id, whole.template.id);
}

#[test]
fn a_set_is_cached_by_its_whole_text() {
    let templates = Templates::default();
    let ids: Vec<u64> = ["set x.y = 'a'", "set x.y = 'b'", "set x.y = 'a'"]
        .iter()
        .map(|text| templates.simple(text).template.id)
        .collect();
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids[0], ids[2]);
}

#[test]
fn the_cache_is_bounded_and_keeps_what_is_used() {
    let templates = Templates::default();
    let hot = templates.prepared("select 1", &[]).id;
    for n in 0..2 * TEMPLATES_MAX {
        templates.remember(&format!("t{n}"), &[], CachedTemplate::ByWholeText);
        assert_eq!(templates.prepared("select 1", &[]).id, hot);
    }
    let known = templates.known.lock().unwrap();
    assert!(known.young.len() + known.old.len() <= TEMPLATES_MAX);
}

#[test]
fn a_text_that_depends_on_the_time_has_a_statement_for_each_parse() {
    let templates = Templates::default();
    for (text, shared) in [("select now()", true), ("select 'now'::date", false)] {
        let [one, other] = [(), ()].map(|()| templates.try_prepared_now(text, &[0, 0]).unwrap());
        assert_eq!(one.id, other.id);
        assert_eq!(one.statement_id == other.statement_id, shared, "{text}");
    }
}

#[test]
fn a_long_text_that_only_changes_rows_is_not_parsed() {
    let templates = Templates::default();
    let values = vec!["(1, 'x')"; BULK_BYTES_MIN / 8].join(", ");
    let insert = format!("insert into t values {values}");
    for text in [insert.clone(), format!(" {insert};\n")] {
        let Simple { template, literals } = templates.simple(&text);
        assert!(template.statement.is_none() && literals.is_empty());
        let prepared = templates.prepared(&text, &[0, 0]);
        assert!(prepared.statement.is_none() && prepared.text == text);
        assert_ne!(prepared.id, templates.prepared(&text, &[0, 0]).id, "kept");
    }
    let short = "insert into t values (1, 'x')".to_owned();
    for text in [
        short.clone(),
        format!("{short}; {}", "-- x\n".repeat(BULK_BYTES_MIN / 5)),
    ] {
        let template = templates.simple(&text).template;
        assert!(template.statement.is_some(), "{}", text.len());
    }
    let hinted = insert.replace("into", "/*+ COMMIT_ON_SUCCESS */ into");
    let template = templates.simple(&hinted).template;
    assert!(template.statement.is_none(), "so many tokens");
    assert!(template.hints().commit_on_success && template.is_bulk());
}

#[test]
fn bare_hints_become_a_comment() {
    let text = "update COMMIT_ON_SUCCESS TARGET_AFFECT_ROW 1 t set a = 1 where id = 1";
    let plain = without_bare_hints(text);
    let hints = paceline_sql::parse(&plain).unwrap().hints;
    assert!(hints.commit_on_success && hints.target_affect_row == Some(1));
}

/// A literal that cannot become a parameter must not hide what another one does.
#[test]
fn a_setting_that_a_literal_names_is_part_of_the_template() {
    let templates = Templates::default();
    let shows = |name: &str| {
        let text = format!("SELECT current_setting('{name}'), now()::timestamp(3)");
        templates.simple(&text).template.shows_idle_timeout()
    };
    assert!(!shows("work_mem"));
    assert!(shows("idle_session_timeout"));
}

/// PostgreSQL accepts no parameter there.
#[test]
fn the_database_that_a_literal_names_is_that_of_the_text() {
    let templates = Templates::default();
    for name in ["a", "b"] {
        let text = format!("CREATE DATABASE d TEMPLATE '{name}'");
        let template = templates.simple(&text).template;
        let statement = template.statement.as_ref().expect("it can be parsed");
        assert_eq!(statement.exclusive.as_deref(), Some(name));
    }
}

/// Threads may parse one text at the same time.
#[test]
fn a_text_has_one_template() {
    let templates = Templates::default();
    let texts: Vec<String> = (0..200)
        .map(|number| format!("SELECT a{number} FROM t"))
        .collect();
    let ids = || -> Vec<u64> {
        texts
            .iter()
            .map(|text| templates.simple(text).template.id)
            .collect()
    };
    let all = std::thread::scope(|scope| {
        [scope.spawn(ids), scope.spawn(ids)].map(|thread| thread.join())
    });
    let [one, other] = all.map(|ids| ids.unwrap_or_default());
    assert_eq!(one, other);
}

/// A client may have prepared the text that a simple query has without its literals.
#[test]
fn what_literals_do_does_not_depend_on_what_was_prepared() {
    for (prepared, types, query) in [
        (
            "SELECT set_config($1, $2, false)",
            &[0, 2, 0, 0, 0, 0, 0, 0, 0, 0][..],
            "SELECT set_config('a.b', 'c', false)",
        ),
        (
            "SET work_mem = $1",
            &[0, 1, 0, 0, 0, 0],
            "SET work_mem = '5MB'",
        ),
    ] {
        let alone = Templates::default().simple(query);
        for first in [false, true] {
            let templates = Templates::default();
            if !first {
                templates.simple(query);
            }
            templates.prepared(prepared, types);
            let simple = templates.simple(query);
            assert_eq!(simple.literals, alone.literals, "{query} {first}");
            assert_eq!(
                simple.template.statement, alone.template.statement,
                "{query} {first}"
            );
            let found = templates.try_simple_template(query).ok();
            assert_eq!(
                found.map(|found| found.id),
                Some(simple.template.id),
                "{query}"
            );
        }
    }
}
