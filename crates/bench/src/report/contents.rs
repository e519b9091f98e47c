//! The contents of the page: scenarios, their variants and targets, in the order in which they ran. A target has the same
//! colour everywhere.

use crate::ordered::{by_key, distinct};
use crate::summary::{Cell, Row, cells};

/// Number of CSS classes for colours: `c0` to `c5`. The first is neutral: the other targets are compared with the first.
const COLOURS: usize = 6;

/// The contents of the page.
pub(super) struct Contents<'a> {
    /// Distinct names of targets.
    pub(super) targets: Vec<&'a str>,
    /// The scenarios.
    pub(super) parts: Vec<Part<'a>>,
}

/// A scenario.
pub(super) struct Part<'a> {
    /// The anchor of the section in the page.
    pub(super) anchor: String,
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
    /// The difference to other variants; may be empty.
    pub(super) about: &'a str,
    /// A row per number of clients, in ascending order.
    pub(super) rows: Vec<&'a Row>,
}

impl<'a> Contents<'a> {
    /// Collects the contents from all rows.
    pub(super) fn of(rows: &'a [Row]) -> Self {
        let parts = by_key(rows.iter().map(|row| (row.scenario.as_str(), row)));
        Self {
            targets: distinct(cells(rows).map(|(_, cell)| cell.target.as_str())),
            parts: parts
                .into_iter()
                .map(|(name, rows)| Part::of(name, rows))
                .collect(),
        }
    }

    /// The CSS class of the target's colour.
    pub(super) fn colour(&self, target: &str) -> String {
        let place = self.targets.iter().position(|known| *known == target);
        format!("c{}", place.unwrap_or_default() % COLOURS)
    }
}

impl<'a> Part<'a> {
    fn of(name: &'a str, rows: Vec<&'a Row>) -> Self {
        let known = rows.first().and_then(|row| row.definition());
        let variants = by_key(rows.into_iter().map(|row| (row.label(), row)));
        let variants = variants.into_iter().map(|(label, mut rows)| {
            rows.sort_by_key(|row| row.clients);
            let is_of = |name| rows.iter().any(|row| row.variant == name);
            let mut variants = known.into_iter().flat_map(|known| known.variants);
            VariantRows {
                about: variants
                    .find(|variant| is_of(variant.name))
                    .map_or("", |variant| variant.about),
                name: label,
                rows,
            }
        });
        Self {
            anchor: format!(
                "scenario-{}",
                name.replace(|c: char| !c.is_ascii_alphanumeric(), "-")
            ),
            title: known.map_or(name, |known| known.title),
            about: known.map_or("", |known| known.about),
            unit: known.map_or("units", |known| known.unit),
            variants: variants.collect(),
        }
    }

    /// Every cell of every variant.
    pub(super) fn cells(&self) -> impl Iterator<Item = &'a Cell> {
        let rows = self.variants.iter().flat_map(|variant| &variant.rows);
        rows.flat_map(|row| &row.cells)
    }
}

impl<'a> VariantRows<'a> {
    /// The cells of each target, by number of clients.
    pub(super) fn by_target(&self) -> Vec<(&'a str, Vec<(usize, &'a Cell)>)> {
        let cells = self.rows.iter().flat_map(|row| {
            let cells = row.cells.iter();
            cells.map(|cell| (cell.target.as_str(), (row.clients, cell)))
        });
        by_key(cells)
    }
}
