//! What the page is about: scenarios, their variants and the targets, in the order in which they ran. A target has the same
//! colour everywhere.

use crate::summary::{Cell, Row};

/// Classes of the style sheet. The first is a calm one: it is the target that others are compared with.
const COLOURS: [&str; 6] = ["c0", "c1", "c2", "c3", "c4", "c5"];

/// All of it.
pub(super) struct Contents<'a> {
    /// Names, each once.
    pub(super) targets: Vec<&'a str>,
    /// A part for each scenario.
    pub(super) parts: Vec<Part<'a>>,
}

/// A scenario.
pub(super) struct Part<'a> {
    /// As on the command line.
    pub(super) name: &'a str,
    /// As over a chapter.
    pub(super) title: &'a str,
    /// Who does what; may be empty.
    pub(super) about: &'a str,
    /// What a unit of work is called.
    pub(super) unit: &'a str,
    /// Its variants that ran.
    pub(super) ways: Vec<Way<'a>>,
}

/// A variant.
pub(super) struct Way<'a> {
    /// As on the command line, with what sets it apart from others of its name.
    pub(super) name: String,
    /// What is different about it; may be empty.
    pub(super) about: &'a str,
    /// A row for each number of clients, the smallest first.
    pub(super) rows: Vec<&'a Row>,
}

impl<'a> Contents<'a> {
    /// Of all rows.
    pub(super) fn of(rows: &'a [Row]) -> Self {
        let mut targets: Vec<&str> = Vec::new();
        for cell in rows.iter().flat_map(|row| &row.cells) {
            if !targets.contains(&cell.target.as_str()) {
                targets.push(&cell.target);
            }
        }
        let mut parts: Vec<Part<'_>> = Vec::new();
        for row in rows {
            match parts.iter_mut().find(|part| part.name == row.scenario) {
                Some(part) => part.add(row),
                None => parts.push(Part::of(row)),
            }
        }
        Self { targets, parts }
    }

    /// The class of the target's colour.
    pub(super) fn colour(&self, target: &str) -> &'static str {
        let place = self.targets.iter().position(|known| *known == target);
        let colours = COLOURS.iter().cycle();
        colours
            .copied()
            .nth(place.unwrap_or_default())
            .unwrap_or_default()
    }
}

impl<'a> Part<'a> {
    fn of(row: &'a Row) -> Self {
        let known = row.known();
        let mut part = Self {
            name: &row.scenario,
            title: known.map_or(row.scenario.as_str(), |known| known.title),
            about: known.map_or("", |known| known.about),
            unit: known.map_or("units", |known| known.unit),
            ways: Vec::new(),
        };
        part.add(row);
        part
    }

    fn add(&mut self, row: &'a Row) {
        if let Some(way) = self.ways.iter_mut().find(|way| way.name == row.way()) {
            way.rows.push(row);
            way.rows.sort_by_key(|row| row.clients);
            return;
        }
        let mut variants = row.known().into_iter().flat_map(|known| known.variants);
        let known = variants.find(|variant| variant.name == row.variant);
        self.ways.push(Way {
            name: row.way(),
            about: known.map_or("", |known| known.about),
            rows: vec![row],
        });
    }

    /// Where links to it lead.
    pub(super) fn anchor(&self) -> String {
        let letters = self.name.chars().map(|letter| match letter {
            letter if letter.is_ascii_alphanumeric() => letter,
            _ => '-',
        });
        format!("scenario-{}", letters.collect::<String>())
    }

    /// Every cell of every variant.
    pub(super) fn cells(&self) -> impl Iterator<Item = &'a Cell> {
        let rows = self.ways.iter().flat_map(|way| way.rows.iter().copied());
        rows.flat_map(|row| &row.cells)
    }
}

impl<'a> Way<'a> {
    /// Each target's cells, by number of clients.
    pub(super) fn by_target(&self) -> Vec<(&'a str, Vec<(usize, &'a Cell)>)> {
        let mut targets: Vec<(&str, Vec<(usize, &Cell)>)> = Vec::new();
        for row in &self.rows {
            for cell in &row.cells {
                let place = (row.clients, cell);
                match targets.iter_mut().find(|(name, _)| *name == cell.target) {
                    Some((_, places)) => places.push(place),
                    None => targets.push((&cell.target, vec![place])),
                }
            }
        }
        targets
    }
}
