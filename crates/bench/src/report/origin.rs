//! How the figures were measured, and the commands that repeat the measurement.

use crate::circumstances::{self, Circumstance, Kind};
use crate::machine::ServerFacts;
use crate::record::Record;
use maud::{Markup, html};
use std::collections::BTreeSet;

/// A server and the targets in front of it.
type Server<'a> = (&'a ServerFacts, Vec<String>);

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
            (servers(&servers_of(records)))
            h3 { "Measure it again" }
            @for command in commands(records) { pre tabindex="0" { code { (command) } } }
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

/// A column for each distinct server.
fn servers(servers: &[Server<'_>]) -> Markup {
    let names: BTreeSet<&String> = servers
        .iter()
        .flat_map(|(facts, _)| facts.settings.keys())
        .collect();
    let line = |name: &str, of: &dyn Fn(&ServerFacts) -> String| {
        let values: Vec<String> = servers.iter().map(|(facts, _)| of(facts)).collect();
        let differs = values.windows(2).any(|pair| pair.first() != pair.last());
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
                            @for (_, targets) in servers {
                                th scope="col" { @for target in targets { div { (target) } } }
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

/// Each server that was reached, with its targets.
fn servers_of(records: &[Record]) -> Vec<Server<'_>> {
    let mut servers: Vec<Server<'_>> = Vec::new();
    let reached = records
        .iter()
        .filter(|record| record.server != ServerFacts::default());
    for record in reached {
        let target = format!("{} ({})", record.target, record.address);
        match servers
            .iter_mut()
            .find(|(facts, _)| **facts == record.server)
        {
            Some((_, targets)) if targets.contains(&target) => {}
            Some((_, targets)) => targets.push(target),
            None => servers.push((&record.server, vec![target])),
        }
    }
    servers
}

fn commands(records: &[Record]) -> Vec<&str> {
    let mut commands = Vec::new();
    for record in records {
        let command = record.conditions.command.as_str();
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    commands
}
