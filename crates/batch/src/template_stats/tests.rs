//! Counting, forgetting, and `SHOW GROUPS`.

use super::show_groups::{COLUMNS, LEASES, OTHERS, TEMPLATE_CHARS_MAX};
use super::*;
use paceline_relay::template::Templates;
use paceline_relay::template::text_id;

fn stats(templates: &Templates, text: &str) -> Arc<TemplateStats> {
    StatsByTemplate::default().of(&templates.prepared(text, &[0, 0]))
}

fn served(members: &[&Arc<TemplateStats>]) -> AnsweredMembers {
    let mut served = AnsweredMembers::default();
    let took = Duration::from_millis(3);
    members.iter().for_each(|stats| served.add(stats, took));
    served
}

/// The rows of the table with values joined by `|`, without those of shards; NULL is `-`.
fn rows(seen: Vec<(&Arc<TemplateStats>, Option<&str>)>, leases: u64) -> Vec<String> {
    let seen = seen.into_iter().map(|(stats, why)| TemplateRow {
        stats: Arc::clone(stats),
        why_alone: why.map(str::to_owned),
    });
    let table = show_groups(seen.collect(), TemplateNaming::Text, leases);
    let line = |row: Vec<Option<String>>| {
        let values = row
            .into_iter()
            .take(12)
            .map(|v| v.unwrap_or("-".to_owned()));
        values.collect::<Vec<_>>().join("|")
    };
    table.rows.into_iter().map(line).collect()
}

#[test]
fn names_of_fallbacks_are_in_the_order_of_the_enum() {
    for (place, (why, name)) in Fallback::NAMES.into_iter().enumerate() {
        assert_eq!(why as usize, place, "{name}");
    }
}

#[test]
fn a_template_has_a_row_for_each_strategy() {
    let fold = stats(&Templates::default(), "UPDATE t\n  SET n = 1");
    (0..3).for_each(|_| fold.count_alone());
    fold.count_would_have_grouped();
    served(&[&fold; 4]).count(Strategy::Fold, 2, true);
    served(&[&fold; 2]).count(Strategy::Fold, 1, true);
    fold.count_fallback(Strategy::Fold, Fallback::Timeout);
    fold.count_fallback(Strategy::Fold, Fallback::Error);
    fold.count_fallback(Strategy::Fold, Fallback::Error);
    let expected = [
        "UPDATE t SET n = 1|fold|6|2|3.0|4|0.667|3|4|error=2 timeout=1|-|-",
        "UPDATE t SET n = 1|solo|3|-|-|-|0.667|-|-|-|1|why",
    ];
    assert_eq!(rows(vec![(&fold, Some("why"))], 0), expected);
}

#[test]
fn the_mean_time_is_that_of_the_strategy() {
    let fold = stats(&Templates::default(), "UPDATE t SET n = 1");
    served(&[&fold; 4]).count(Strategy::Fold, 2, true);
    for millis in [1, 2] {
        fold.count_alone();
        fold.count_alone_time(Duration::from_millis(millis));
    }
    assert_eq!(fold.micros(), 15_000);
    let row = TemplateRow {
        stats: fold,
        why_alone: None,
    };
    let table = show_groups(vec![row], TemplateNaming::Text, 1);
    let means = table.rows.iter().map(|row| row.last().cloned().flatten());
    let expected = [Some("3.000"), Some("1.500"), None];
    assert_eq!(
        means.collect::<Vec<_>>(),
        expected.map(|mean| mean.map(str::to_owned))
    );
}

#[test]
fn rows_with_most_requests_come_first_and_leases_are_counted() {
    let templates = Templates::default();
    let (rare, often) = (stats(&templates, "rare"), stats(&templates, "often"));
    rare.count_alone();
    (0..9).for_each(|_| often.count_alone());
    let expected = [
        "often|solo|9|-|-|-|0.000|-|-|-|0|-",
        "(transactions, and what is not one read or write)|lease|4|-|-|-|-|-|-|-|-|-",
        "rare|solo|1|-|-|-|0.000|-|-|-|0|-",
    ];
    assert_eq!(rows(vec![(&rare, None), (&often, None)], 4), expected);
}

/// A template without requests has no row.
#[test]
fn a_template_without_counts_has_no_row() {
    assert_eq!(
        rows(vec![(&stats(&Templates::default(), "x"), None)], 0),
        [""; 0]
    );
}

#[test]
fn a_chain_of_several_templates_saves_all_commits_but_one() {
    let templates = Templates::default();
    let (a, b) = (stats(&templates, "a"), stats(&templates, "b"));
    served(&[&a, &b, &b, &a, &b]).count(Strategy::Chain, 0, true);
    let expected = [
        "b|chain|3|1|3.0|3|1.000|-|3||-|-",
        "a|chain|2|1|2.0|2|1.000|-|1||-|-",
    ];
    assert_eq!(rows(vec![(&a, None), (&b, None)], 0), expected);
}

#[test]
fn a_group_that_did_nothing_saves_nothing() {
    let fold = stats(&Templates::default(), "u");
    served(&[&fold; 3]).count(Strategy::Fold, 5, false);
    fold.count_fallback(Strategy::Take, Fallback::Ddl);
    let expected = [
        "u|fold|3|1|3.0|3|1.000|0|0||-|-",
        "u|take|0|0|0.0|0|1.000|0|0|ddl=1|-|-",
    ];
    assert_eq!(rows(vec![(&fold, None)], 0), expected);
}

#[test]
fn reads_save_no_commits() {
    let read = stats(&Templates::default(), "SELECT 1");
    served(&[&read; 2]).count(Strategy::Pipeline, 0, false);
    let expected = ["SELECT 1|pipeline|2|1|2.0|2|1.000|-|-||-|-"];
    assert_eq!(rows(vec![(&read, None)], 0), expected);
}

#[test]
fn templates_of_the_same_text_share_rows() {
    let (templates, mut by_template) = (Templates::default(), StatsByTemplate::default());
    let text = "SELECT n FROM t WHERE n = ";
    let template = |literal| templates.simple(&format!("{text}{literal}")).template;
    let all = ["1", "2", "1.5"].map(|literal| by_template.of(&template(literal)));
    all.iter().for_each(|stats| stats.count_alone());
    assert_eq!(
        by_template.snapshot().by_template().len(),
        3,
        "two templates, and the others"
    );
    let seen = by_template.snapshot().by_template();
    let shown = rows(seen.iter().map(|stats| (stats, None)).collect(), 0);
    assert_eq!(shown, [format!("{text}$1|solo|3|-|-|-|0.000|-|-|-|0|-")]);
}

#[test]
fn a_long_text_is_shortened() {
    let text = "ä".repeat(TEMPLATE_CHARS_MAX + 1);
    let stats = stats(&Templates::default(), &text);
    stats.count_alone();
    let expected = format!("{}…|solo", "ä".repeat(TEMPLATE_CHARS_MAX));
    assert!(rows(vec![(&stats, None)], 0)[0].starts_with(&expected));
}

/// Each template is used once more than the one before; the first one is used again at the end.
#[test]
fn the_least_used_templates_are_counted_together() {
    let (templates, mut by_template) = (Templates::default(), StatsByTemplate::default());
    let template = |n: usize| templates.prepared(&format!("t{n}"), &[]);
    let mut all = 0;
    for n in 0..=TEMPLATES_MAX {
        let stats = by_template.of(&template(n));
        (0..=n).for_each(|_| stats.count_alone());
        all += n + 1;
        assert!(by_template.snapshot().by_template().len() <= TEMPLATES_MAX + 1);
    }
    let total: u64 = by_template
        .snapshot()
        .by_template()
        .iter()
        .map(|stats| stats.requests())
        .sum();
    assert_eq!(total, all as u64);
    let half = TEMPLATES_MAX / 2;
    let others: usize = (1..=half).sum();
    assert_eq!(by_template.others.requests(), others as u64);
    let newest = by_template.of(&template(TEMPLATES_MAX));
    newest.count_alone();
    let all = by_template.snapshot().by_template();
    let mut requests = all
        .iter()
        .filter(|stats| stats.template().is_some())
        .map(|stats| stats.requests());
    assert!(requests.any(|requests| requests == TEMPLATES_MAX as u64 + 2));
    // Used again, it starts at zero.
    assert_eq!(by_template.of(&template(0)).requests(), 0);
}

#[test]
fn forgotten_statistics_are_not_current() {
    let (templates, mut by_template) = (Templates::default(), StatsByTemplate::default());
    let first = by_template.of(&templates.prepared("first", &[]));
    for n in 0..TEMPLATES_MAX {
        assert!(first.is_current());
        by_template
            .of(&templates.prepared(&format!("t{n}"), &[]))
            .count_alone();
    }
    assert!(!first.is_current());
}

#[test]
fn every_column_and_reason_is_documented() {
    let page = include_str!("../../../../docs/groups.md");
    let names = Fallback::NAMES.iter().map(|(_, name)| name);
    for name in COLUMNS.iter().chain(names) {
        assert!(page.contains(&format!("\n| `{name}` |")), "{name}");
    }
    for name in [OTHERS, LEASES] {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    let limit = format!("at most {TEMPLATE_CHARS_MAX} characters");
    assert!(page.contains(&limit), "{limit}");
    assert!(page.contains("1,000 are, per pool") && TEMPLATES_MAX == 1_000);
}

/// Fills the pool with templates that are used more often than the earlier ones, so that these are forgotten.
fn crowd(templates: &Templates, by_template: &mut StatsByTemplate, round: usize) {
    for n in 0..TEMPLATES_MAX {
        let stats = by_template.of(&templates.prepared(&format!("t{round}_{n}"), &[]));
        (0..9 * round).for_each(|_| stats.count_alone());
    }
}

fn totals(by_template: &StatsByTemplate) -> (u64, u64) {
    let all = by_template.snapshot().by_template();
    let others = all.iter().filter(|stats| stats.template().is_none());
    let sum = others.map(|stats| stats.requests()).sum();
    (sum, all.iter().map(|stats| stats.requests()).sum())
}

#[test]
fn counts_on_forgotten_statistics_are_added_to_the_others() {
    let (templates, mut by_template) = (Templates::default(), StatsByTemplate::default());
    let held = by_template.of(&templates.prepared("held", &[]));
    crowd(&templates, &mut by_template, 1);
    assert!(!held.is_current());
    let (others, all) = totals(&by_template);
    held.count_alone();
    served(&[&held; 3]).count(Strategy::Fold, 1, true);
    assert_eq!(totals(&by_template), (others + 4, all + 4));
    crowd(&templates, &mut by_template, 2);
    let (_, all) = totals(&by_template);
    held.count_alone();
    assert_eq!(totals(&by_template).1, all + 1);
    // No request holds the statistics any more: their counts remain.
    drop(held);
    crowd(&templates, &mut by_template, 3);
    assert!(by_template.leaving.is_empty());
    assert_eq!(totals(&by_template).1, all + 1 + 27 * TEMPLATES_MAX as u64);
    let snapshot = by_template.snapshot().by_template();
    let fold = snapshot
        .last()
        .unwrap()
        .group_stats(Strategy::Fold)
        .unwrap();
    assert_eq!((fold.requests, fold.rows_written), (3, Some(1)));
}

/// Other requests count, and templates are forgotten, while a snapshot is read.
#[test]
fn a_snapshot_counts_nothing_twice() {
    let (templates, mut by_template) = (Templates::default(), StatsByTemplate::default());
    by_template
        .of(&templates.prepared("early", &[]))
        .count_alone();
    let snapshot = by_template.snapshot();
    crowd(&templates, &mut by_template, 1);
    let all = snapshot.by_template();
    let requests: Vec<u64> = all.iter().map(|stats| stats.requests()).collect();
    // The early template, and the half of the others that was forgotten with it.
    assert_eq!(requests, [1, 9 * (TEMPLATES_MAX as u64 / 2 - 1)]);
}

/// Counts requests that run alone until the template has earned a name; later counts appear under that name.
fn earn(by_template: &mut StatsByTemplate, template: &Arc<Template>) {
    (0..NAMED_AFTER_REQUESTS).for_each(|_| by_template.of(template).count_alone());
    by_template.of(template);
}

/// Requests by name; those of templates without a name are last.
fn by_name(by_template: &StatsByTemplate) -> Vec<(String, u64)> {
    let all = by_template.snapshot().by_name();
    let named = all
        .iter()
        .map(|stats| (stats.name().to_owned(), stats.requests()));
    named.collect()
}

#[test]
fn requests_earn_a_name_and_earlier_counts_stay_with_the_others() {
    let (templates, mut by_template) = (Templates::default(), StatsByTemplate::default());
    let template = templates.prepared("SELECT n", &[]);
    let other = |requests| (OTHER.to_owned(), requests);
    for requests in 1..=NAMED_AFTER_REQUESTS {
        let stats = by_template.of(&template);
        assert!(stats.is_current());
        stats.count_alone();
        assert_eq!(by_name(&by_template), [other(requests)]);
        assert_eq!(stats.is_current(), requests < NAMED_AFTER_REQUESTS);
    }
    let held = by_template.of(&template);
    (0..3).for_each(|_| held.count_alone());
    let named = (template.name().to_owned(), 3);
    assert_eq!(by_name(&by_template), [named, other(NAMED_AFTER_REQUESTS)]);
    let all = by_template.snapshot().by_template();
    assert_eq!(all[0].requests(), NAMED_AFTER_REQUESTS + 3);
}

#[test]
fn a_group_earns_a_name() {
    let (templates, mut by_template) = (Templates::default(), StatsByTemplate::default());
    let template = templates.prepared("SELECT n", &[]);
    served(&[&by_template.of(&template)]).count(Strategy::Share, 0, false);
    served(&[&by_template.of(&template)]).count(Strategy::Share, 0, false);
    let expected = [(template.name().to_owned(), 1), (OTHER.to_owned(), 1)];
    assert_eq!(by_name(&by_template), expected);
}

#[test]
fn names_are_returned_and_templates_of_one_text_share_one() {
    let (templates, names) = (Templates::default(), Arc::<NameQuota>::default());
    let mut by_template = StatsByTemplate::new(Arc::clone(&names));
    let mut others = StatsByTemplate::new(Arc::clone(&names));
    for types in [&[0, 0][..], &[0, 1, 0, 0, 0, 23]] {
        earn(&mut by_template, &templates.prepared("the same", types));
    }
    assert_eq!(by_name(&by_template).len(), 3);
    let template = |n: usize| templates.prepared(&format!("t{n}"), &[]);
    (0..TEMPLATES_MAX).for_each(|n| earn(&mut others, &template(n)));
    let named = |by_template: &StatsByTemplate| by_name(by_template).len() - 1;
    assert_eq!(named(&others), NAMES_MAX - 1);
    drop(by_template);
    // A template without a name earns one later.
    earn(&mut others, &template(TEMPLATES_MAX - 1));
    assert_eq!(named(&others), NAMES_MAX);
    others.of(&template(TEMPLATES_MAX));
    assert_eq!(
        named(&others),
        TEMPLATES_MAX / 2,
        "half of them was forgotten"
    );
    drop(others);
    let left: Vec<_> = std::iter::from_fn(|| names.take()).collect();
    assert_eq!(left.len(), NAMES_MAX);
}

/// One template is used seldom, the other one often; they have the same name.
#[test]
fn templates_of_one_name_are_forgotten_together() {
    let (templates, mut by_template) = (Templates::default(), StatsByTemplate::default());
    let [seldom, often] =
        ["SELECT 'a'", "SELECT 'b'"].map(|text| templates.prepared(text, &[0, 0]));
    earn(&mut by_template, &seldom);
    earn(&mut by_template, &often);
    by_template.of(&seldom).count_alone();
    for n in 0..3 * TEMPLATES_MAX {
        by_template
            .of(&templates.prepared(&format!("t{n}"), &[]))
            .count_alone();
        by_template.of(&often).count_alone();
    }
    let named = by_name(&by_template).into_iter();
    let requests: u64 = named
        .filter(|(name, _)| name == seldom.name())
        .map(|(_, requests)| requests)
        .sum();
    // The second template has the first one's name from its first request on.
    assert_eq!(
        requests,
        1 + NAMED_AFTER_REQUESTS + 3 * TEMPLATES_MAX as u64
    );
}

/// Only requests since templates were last forgotten matter.
#[test]
fn unused_templates_are_forgotten() {
    let (templates, mut by_template) = (Templates::default(), StatsByTemplate::default());
    let early = templates.prepared("early", &[]);
    (0..10_000).for_each(|_| by_template.of(&early).count_alone());
    let named = |by_template: &StatsByTemplate| {
        by_name(by_template)
            .iter()
            .any(|(name, _)| name == early.name())
    };
    crowd(&templates, &mut by_template, 1);
    assert!(named(&by_template));
    crowd(&templates, &mut by_template, 2);
    assert!(!named(&by_template));
}

/// Texts with different values, each used once or twice, share a name and displace no other template.
#[test]
fn many_templates_of_one_name_do_not_displace_others() {
    let (templates, mut by_template) = (Templates::default(), StatsByTemplate::default());
    let used = templates.prepared("used", &[]);
    for n in 0..3 * TEMPLATES_MAX {
        let text = format!("SELECT '{n}'");
        by_template
            .of(&templates.prepared(&text, &[]))
            .count_alone();
        if n % 100 == 0 {
            by_template.of(&used).count_alone();
        }
    }
    let all = by_template.snapshot().by_template();
    let used = |stats: &&Arc<TemplateStats>| {
        stats
            .template()
            .is_some_and(|template| template.id == used.id)
    };
    assert_eq!(all.iter().find(used).unwrap().requests(), 30);
}

#[test]
fn a_name_contains_no_value() {
    let templates = Templates::default();
    let name = |text: &str| templates.prepared(text, &[]).name().to_owned();
    let one = name("SELECT n FROM t WHERE secret = 'one' AND n > 17");
    let text = one.split_once(' ').unwrap().1;
    assert_eq!(text, "SELECT n FROM t WHERE secret = ? AND n > ?");
    assert_eq!(one, name("SELECT n FROM t WHERE secret = 'two' AND n > 18"));
    assert_eq!(name("SELECT 'never ends").len(), 8);
}

/// The published test vectors of FNV-1a.
#[test]
fn the_id_of_a_text_never_changes() {
    let ids = ["", "a", "foobar"].map(text_id);
    assert_eq!(ids, [0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968]);
}

#[test]
fn sizes_of_groups_are_counted_in_buckets() {
    let sizes = GroupSizes::default();
    for requests in [1, 2, 3, 4, 5, 1024, 1025, 0] {
        sizes.count(Strategy::Fold, requests);
    }
    let mut folds = sizes.of(Strategy::Fold).unwrap();
    assert_eq!(folds.groups, [1, 1, 2, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
    assert_eq!(folds.requests, 15 + 1024 + 1025);
    assert_eq!(sizes.of(Strategy::Take), None);
    folds.add(&folds.clone());
    assert_eq!(
        (folds.groups[2], folds.requests),
        (4, 2 * (15 + 1024 + 1025))
    );
}

#[test]
fn what_shards_answer_and_why_the_coordinator_does_is_shown() {
    let stats = stats(&Templates::default(), "u");
    stats.count_alone();
    let shown = || {
        let seen = TemplateRow {
            stats: Arc::clone(&stats),
            why_alone: None,
        };
        let table = show_groups(vec![seen], TemplateNaming::Text, 0);
        let row = table.rows.into_iter().next().unwrap_or_default();
        row.into_iter().skip(12).take(2).collect::<Vec<_>>()
    };
    assert_eq!(shown(), [None, None]);
    stats.count_on_shard();
    let reasons = ["one", "two", "three", "four", "five"];
    for reason in reasons {
        stats.count_on_coordinator(|| Some(reason.to_owned()));
    }
    assert_eq!(shown(), [Some("1".to_owned()), Some("four".to_owned())]);
}
