//! The conditions of the measurement, and the commands that repeat it.

use crate::circumstances::{self, Circumstance, Kind};
use crate::machine::ServerFacts;
use crate::ordered::{by_key, distinct};
use crate::record::Record;
use maud::{Markup, html};
use std::collections::BTreeSet;

/// Draws machine, servers, conditions and commands.
pub(super) fn section(records: &[Record]) -> Markup {
    let circumstances = circumstances::of(records);
    html! {
        section id="origin" {
            h2 { "Where and how it was measured" }
            p.note { "Only ratios carry over to another machine. The load ran on this one:" }
            div.facts {
                (facts("Machine of the load", &circumstances, Kind::Machine))
                (facts("What was asked for", &circumstances, Kind::Conditions))
            }
            (servers(records))
            h3 { "Measure it again" }
            @for command in distinct(records.iter().map(|record| &record.conditions.command)) { pre tabindex="0" { code { (command) } } }
        }
    }
}

fn facts(caption: &str, circumstances: &[Circumstance], kind: Kind) -> Markup {
    html! {
        table.facts {
            caption { (caption) }
            tbody {
                @for circumstance in circumstances.iter().filter(|one| one.kind == kind) {
                    tr.differs[circumstance.values.len() > 1] {
                        th scope="row" { (circumstance.name) }
                        td { (circumstance.text()) }
                    }
                }
            }
        }
    }
}

/// A column for each distinct server that was reached.
fn servers(records: &[Record]) -> Markup {
    let reached = records.iter().map(|record| {
        let target = format!("{} ({})", record.target, record.address);
        (&record.server, target)
    });
    let mut servers = by_key(reached);
    servers.retain(|(facts, _)| **facts != ServerFacts::default());
    let names = servers.iter().flat_map(|(facts, _)| facts.settings.keys());
    let names: BTreeSet<&String> = names.collect();
    let line = |name: &str, of: &dyn Fn(&ServerFacts) -> String| {
        let values: Vec<String> = servers.iter().map(|(facts, _)| of(facts)).collect();
        let differs = values.iter().any(|value| Some(value) != values.first());
        html! { tr.differs[differs] { th scope="row" { (name) } @for value in values { td { (value) } } } }
    };
    html! {
        @if !servers.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="Servers" {
                table.facts {
                    caption {
                        @if servers.len() == 1 { "The server, the same for all targets" }
                        @else { "The servers, which differ" }
                    }
                    thead {
                        tr {
                            th scope="col" { "target" }
                            @for (_, targets) in &servers {
                                th scope="col" { @for target in distinct(targets) { div { (target) } } }
                            }
                        }
                    }
                    tbody {
                        (line("PostgreSQL", &|facts| facts.version.clone()))
                        @for name in names {
                            (line(name, &|facts| facts.settings.get(name).cloned().unwrap_or_default()))
                        }
                    }
                }
            }
        }
    }
}
