//! The output of `explain`: lines of a label and a text.

use paceline_batch::learned::{Learned, Policy};
use paceline_batch::prospect::{Outlook, Prospect};
use paceline_batch::strategy::Rewritten;
use paceline_relay::template::{Simple, Template};
use paceline_sql::dealing::{Dealing, OwnParameter};
use paceline_sql::fold::{Fold, KeyClass, KeyColumn};
use paceline_sql::merge::upsert::{Several, Then, Upsert};
use paceline_sql::{KeyValue, LiteralKind, quote_literal};
use std::collections::BTreeSet;

/// Width of a label, including the space after it.
const LABEL_WIDTH: usize = 12;

#[derive(Default)]
struct AnswerLines(Vec<String>);

impl AnswerLines {
    fn add(&mut self, label: &str, text: impl AsRef<str>) {
        let text = text.as_ref();
        self.0.push(format!("{label:LABEL_WIDTH$}{text}"));
    }

    fn about(simple: &Simple) -> Self {
        let mut lines = Self::default();
        let words: Vec<&str> = simple.template.text.split_whitespace().collect();
        lines.add("template", words.join(" "));
        let literals = (1..).zip(&simple.literals);
        let literals = literals.map(|(n, literal)| {
            let value = match literal.kind {
                LiteralKind::Unknown => quote_literal(&literal.text),
                _ => literal.text.clone(),
            };
            format!("${n} = {value}")
        });
        lines.list("literals", literals);
        lines
    }

    /// Adds a line, unless there are no items.
    fn list(&mut self, label: &str, items: impl Iterator<Item = String>) {
        let items: Vec<String> = items.collect();
        if !items.is_empty() {
            self.add(label, items.join(", "));
        }
    }

    fn finish(self) -> String {
        self.0.join("\n")
    }
}

/// The answer for a text that is relayed.
pub(super) fn lease(simple: &Simple, why: &str) -> String {
    let mut lines = AnswerLines::about(simple);
    lines.add("as it is", format!("lease: {why}"));
    lines.finish()
}

/// The answer without a server.
pub(super) fn of_shape(simple: &Simple, outlook: Outlook<'_>, policy: Policy) -> String {
    let mut lines = AnswerLines::about(simple);
    lines.add(
        "catalog",
        "not asked (no server is named): the tables may yet forbid what follows",
    );
    prospects(&mut lines, &simple.template, outlook, policy);
    lines.finish()
}

/// The answer after the analysis by a server.
pub(super) fn of_learned(
    simple: &Simple,
    learned: &Learned,
    policy: Policy,
    server: &str,
    verbose: bool,
) -> String {
    let mut lines = AnswerLines::about(simple);
    lines.add("catalog", format!("asked at {server}"));
    prospects(&mut lines, &simple.template, learned.into(), policy);
    match learned.plan.as_ref().map(|plan| plan.rewritten()) {
        Ok(Rewritten::Fold(fold)) => of_fold(&mut lines, fold, verbose),
        Ok(Rewritten::Deal(dealing)) => of_dealing(&mut lines, dealing, verbose),
        Ok(Rewritten::Upsert(upsert)) => of_upsert(&mut lines, upsert, verbose),
        Ok(Rewritten::Several(several)) => of_several(&mut lines, several, verbose),
        Err(_) => {}
    }
    lines.finish()
}

/// The treatment of the statement as it is, and with a hint or the switch if that differs.
fn prospects(lines: &mut AnswerLines, template: &Template, outlook: Outlook<'_>, policy: Policy) {
    let hinted = template.hints().commit_on_success;
    let now = Prospect::of(template, outlook, policy, hinted);
    lines.add("as it is", now.to_string());
    let with_hint = Prospect::of(template, outlook, policy, true);
    if with_hint != now {
        lines.add(
            "hint",
            format!("{with_hint}; with /*+ COMMIT_ON_SUCCESS */"),
        );
    }
    let switched = Policy {
        for_autocommit: true,
        ..policy
    };
    let switched = Prospect::of(template, outlook, switched, hinted);
    if switched != now {
        lines.add("switch", format!("{switched}; with hotspot_for_autocommit"));
    }
}

fn of_fold(lines: &mut AnswerLines, fold: &Fold, verbose: bool) {
    of_key(lines, &fold.key);
    let own = fold.carried.iter().map(|carried| carried.parameter);
    lines.list("own", own.map(|number| format!("${number}")));
    if verbose {
        of_fold_statements(lines, fold);
    }
}

fn of_fold_statements(lines: &mut AnswerLines, fold: &Fold) {
    lines.add("one row", &fold.one_row);
    lines.add("many rows", &fold.many_rows);
    if let Some(one_each) = &fold.one_each {
        lines.add("one each", one_each);
    }
}

fn of_key(lines: &mut AnswerLines, key: &[KeyColumn]) {
    let equal = |column: &KeyColumn| format!("{} = {}", column.name, value(&column.value));
    lines.list("key", key.iter().map(equal));
    if key.iter().any(|column| column.class == KeyClass::Opaque) {
        lines.add(
            "",
            "only PostgreSQL can compare such keys: a group is of one key",
        );
    }
}

fn of_upsert(lines: &mut AnswerLines, upsert: &Upsert, verbose: bool) {
    of_key(lines, &upsert.key);
    let inserted = upsert.own.iter().flat_map(|own| own.numbers.clone());
    let changing = match &upsert.then {
        Then::Fold(fold) => fold.carried.as_slice(),
        Then::Nothing { .. } => &[],
    };
    let changing = changing.iter().map(|carried| carried.parameter);
    let own: BTreeSet<u32> = inserted.chain(changing).collect();
    lines.list("own", own.iter().map(|number| format!("${number}")));
    if !verbose {
        return;
    }
    lines.add("insert", &upsert.insert);
    if let Some(one_each) = &upsert.one_each {
        lines.add("one each", one_each);
    }
    if let Then::Fold(fold) = &upsert.then {
        of_fold_statements(lines, fold);
    }
}

fn of_several(lines: &mut AnswerLines, several: &Several, verbose: bool) {
    for key in &several.keys {
        of_key(lines, key);
    }
    let shared = several.shared.iter();
    lines.list("shared", shared.map(|number| format!("${number}")));
    of_own(lines, &several.own);
    if verbose {
        lines.add("statement", &several.text);
    }
}

fn of_own(lines: &mut AnswerLines, own: &[OwnParameter]) {
    let numbers = own.iter().flat_map(|own| &own.numbers);
    lines.list("own", numbers.map(|number| format!("${number}")));
}

fn of_dealing(lines: &mut AnswerLines, dealing: &Dealing, verbose: bool) {
    if dealing.queue {
        lines.add("limit", value(&dealing.limit));
    }
    lines.list(
        "shared",
        dealing.shared.iter().map(|number| format!("${number}")),
    );
    of_own(lines, &dealing.own);
    if verbose {
        if let Some(text) = &dealing.text_of_few {
            lines.add("few rows", text);
        }
        lines.add("statement", &dealing.text);
    }
}

fn value(value: &KeyValue) -> String {
    match value {
        KeyValue::Parameter(number) => format!("${number}"),
        KeyValue::Constant {
            kind: LiteralKind::Unknown,
            text,
        } => quote_literal(text),
        KeyValue::Constant { text, .. } => text.clone(),
    }
}
