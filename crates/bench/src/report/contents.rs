//! The contents of the page: scenarios, their variants and targets, in the order in which they ran. A target has the same
//! colour everywhere.

use crate::summary::{Cell, Row};

/// CSS classes. The first colour is neutral: the other targets are compared with the first.
const COLOURS: [&str; 6] = ["c0", "c1", "c2", "c3", "c4", "c5"];

/// The contents of the page.
pub(super) struct Contents<'a> {
    /// Distinct names of targets.
    pub(super) targets: Vec<&'a str>,
    /// The scenarios.
    pub(super) parts: Vec<Part<'a>>,
}

/// A scenario.
pub(super) struct Part<'a> {
    /// Name on the command line.
    pub(super) name: &'a str,
    /// Title of the section.
    pub(super) title: &'a str,
    /// One sentence about the scenario; may be empty.
    pub(super) about: &'a str,
    /// Plural name of a unit of work.
    pub(super) unit: &'a str,
    /// The variants that ran.
    pub(super) variants: Vec<VariantRows<'a>>,
}

/// A variant.
pub(super) struct VariantRows<'a> {
    /// Name on the command line, with the parameters that distinguish it from others of the same name.
    pub(super) name: String,
    /// How it differs from other variants; may be empty.
    pub(super) about: &'a str,
    /// A row per number of clients, in ascending order.
    pub(super) rows: Vec<&'a Row>,
}

impl<'a> Contents<'a> {
    /// Collects the contents from all rows.
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

    /// The CSS class of the target's colour.
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
        let known = row.definition();
        let mut part = Self {
            name: &row.scenario,
            title: known.map_or(row.scenario.as_str(), |known| known.title),
            about: known.map_or("", |known| known.about),
            unit: known.map_or("units", |known| known.unit),
            variants: Vec::new(),
        };
        part.add(row);
        part
    }

    fn add(&mut self, row: &'a Row) {
        if let Some(variant) = self
            .variants
            .iter_mut()
            .find(|variant| variant.name == row.label())
        {
            variant.rows.push(row);
            variant.rows.sort_by_key(|row| row.clients);
            return;
        }
        let mut known_variants = row
            .definition()
            .into_iter()
            .flat_map(|known| known.variants);
        let known = known_variants.find(|variant| variant.name == row.variant);
        self.variants.push(VariantRows {
            name: row.label(),
            about: known.map_or("", |known| known.about),
            rows: vec![row],
        });
    }

    /// The anchor of the section in the page.
    pub(super) fn anchor(&self) -> String {
        let letters = self.name.chars().map(|letter| match letter {
            letter if letter.is_ascii_alphanumeric() => letter,
            _ => '-',
        });
        format!("scenario-{}", letters.collect::<String>())
    }

    /// Every cell of every variant.
    pub(super) fn cells(&self) -> impl Iterator<Item = &'a Cell> {
        let rows = self
            .variants
            .iter()
            .flat_map(|variant| variant.rows.iter().copied());
        rows.flat_map(|row| &row.cells)
    }
}

impl<'a> VariantRows<'a> {
    /// The cells of each target, by number of clients.
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
