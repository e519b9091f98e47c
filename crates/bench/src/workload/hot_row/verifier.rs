//! What buyers were told, article by article: how many pieces they got, and which. Pure; it asks no database.

use crate::show;
use crate::workload::scenario::{Check, Outcome};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bits in a word.
const WORD: u64 = 64;
/// A check says no more of them.
const FAULTS_SHOWN: usize = 3;

/// Shared by all buyers of a run.
#[derive(Debug)]
pub(super) struct Verifier {
    /// Pieces of each article when the run begins.
    stock: u64,
    /// By number, from 1.
    articles: Vec<Article>,
    /// Updates that were sent: no article has sold more.
    sent: AtomicU64,
    /// Updates that were acknowledged, but not of one row. There is more of each article than a run takes, so no guard lets
    /// anything through to nobody.
    missed: AtomicU64,
    /// Updates that returned what no update can return, or what another one had returned before.
    wrongly_told: AtomicU64,
}

#[derive(Debug, Default)]
struct Article {
    acknowledged: AtomicU64,
    told: Mutex<Pieces>,
}

/// Pieces by their number, from 1 as they are sold: one bit for each.
#[derive(Debug, Default)]
struct Pieces {
    words: Vec<u64>,
    highest: u64,
}

impl Pieces {
    /// Whether it was not there before.
    fn add(&mut self, piece: u64) -> bool {
        self.highest = self.highest.max(piece);
        let Ok(index) = usize::try_from(piece / WORD) else {
            return false;
        };
        if index >= self.words.len() {
            self.words.resize(index + 1, 0);
        }
        let bit = 1 << (piece % WORD);
        self.words.get_mut(index).is_some_and(|word| {
            let is_new = *word & bit == 0;
            *word |= bit;
            is_new
        })
    }
}

impl Verifier {
    /// An empty one for so many articles, with so many pieces of each.
    pub(super) fn new(articles: usize, stock: u64) -> Self {
        Self {
            stock,
            articles: (0..articles).map(|_| Article::default()).collect(),
            sent: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            wrongly_told: AtomicU64::new(0),
        }
    }

    /// A buyer is about to take a piece.
    pub(super) fn sends(&self) {
        count(&self.sent);
    }

    /// A buyer was told that it has a piece of `article`.
    pub(super) fn acknowledged(&self, article: i64) {
        match self.article(article) {
            Some(article) => count(&article.acknowledged),
            None => count(&self.missed),
        }
    }

    /// A buyer was told that its update was not one of one row.
    pub(super) fn missed(&self) {
        count(&self.missed);
    }

    /// A buyer was told how many pieces are left behind its own; `None`: it was not told, though it asked.
    pub(super) fn told(&self, article: i64, left: Option<u64>) {
        let sent = self.sent.load(Ordering::Relaxed);
        let piece = left.and_then(|left| self.stock.checked_sub(left));
        let piece = piece.filter(|piece| (1..=sent).contains(piece));
        let is_new = self.article(article).zip(piece).is_some_and(|(it, piece)| {
            // Nothing panics with the lock in its hands.
            it.told.lock().is_ok_and(|mut told| told.add(piece))
        });
        if !is_new {
            count(&self.wrongly_told);
        }
    }

    fn article(&self, number: i64) -> Option<&Article> {
        let place = usize::try_from(number.checked_sub(1)?).ok()?;
        self.articles.get(place)
    }

    /// Compares it with what is `left` of each article, by number; an article that is not there is gone.
    pub(super) fn compare(&self, left: &[(i64, i64)], outcome: Outcome) -> Check {
        let (mut faults, mut taken) = (self.faults(), 0);
        for (number, article) in (1..).zip(&self.articles) {
            let found = left.iter().find(|(found, _)| *found == number);
            let gone = found.map(|(_, left)| self.stock.cast_signed().saturating_sub(*left));
            taken += gone.unwrap_or_default();
            faults.extend(article.fault(number, gone));
        }
        if left.len() > self.articles.len() {
            faults.push("there are articles that nobody put there".to_owned());
        }
        let explained = u64::try_from(taken).is_ok_and(|taken| outcome.explains(taken));
        let shown = faults.iter().take(FAULTS_SHOWN);
        Check {
            holds: explained && faults.is_empty(),
            says: format!(
                "{} pieces are gone, {} were acknowledged{}{}",
                show::number(taken as f64),
                show::count(outcome.acknowledged),
                outcome.besides(),
                shown.map(|fault| format!("; {fault}")).collect::<String>()
            ),
        }
    }

    /// What is wrong whatever the tables hold.
    fn faults(&self) -> Vec<String> {
        let counts = [
            (&self.missed, "updates hit no row"),
            (
                &self.wrongly_told,
                "updates returned a stock that cannot be theirs, or not theirs alone",
            ),
        ];
        let counts = counts.map(|(count, what)| (count.load(Ordering::Relaxed), what));
        let faults = counts.iter().filter(|(count, _)| *count > 0);
        faults
            .map(|(count, what)| format!("{} {what}", show::count(*count)))
            .collect()
    }
}

impl Article {
    /// What is wrong with it, if so many pieces of it are gone; `None`: all of it, its row included.
    fn fault(&self, number: i64, gone: Option<i64>) -> Option<String> {
        let acknowledged = self.acknowledged.load(Ordering::Relaxed);
        let Some(gone) = gone else {
            return Some(format!("article {number} is not there"));
        };
        let taken = u64::try_from(gone).unwrap_or_default();
        if taken < acknowledged {
            return Some(format!(
                "of article {number} {gone} are gone, {acknowledged} were acknowledged"
            ));
        }
        let highest = self.told.lock().map(|told| told.highest);
        let highest = highest.unwrap_or(u64::MAX);
        (highest > taken)
            .then(|| format!("of article {number} piece {highest} was sold, but {gone} are gone"))
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOCK: u64 = 1_000;

    fn told(acknowledged: u64, unknown: u64) -> Outcome {
        Outcome {
            acknowledged,
            unknown,
        }
    }

    /// Two articles, of which one piece was taken each.
    fn verifier() -> Verifier {
        let verifier = Verifier::new(2, STOCK);
        for article in [1, 2] {
            verifier.sends();
            verifier.acknowledged(article);
            verifier.told(article, Some(999));
        }
        verifier
    }

    #[track_caller]
    fn expect_fault(verifier: &Verifier, left: &[(i64, i64)], outcome: Outcome, fault: &str) {
        let check = verifier.compare(left, outcome);
        assert!(!check.holds && check.says.contains(fault), "{}", check.says);
    }

    #[test]
    fn what_was_acknowledged_is_gone_article_by_article() {
        let check = verifier().compare(&[(1, 999), (2, 999)], told(2, 0));
        assert!(check.holds);
        assert_eq!(check.says, "2 pieces are gone, 2 were acknowledged");
        for (left, fault) in [
            (
                [(1, 1_000), (2, 998)],
                "; of article 1 0 are gone, 1 were acknowledged",
            ),
            (
                [(1, 998), (2, 1_000)],
                "; of article 2 0 are gone, 1 were acknowledged",
            ),
            ([(1, 998), (3, 999)], "; article 2 is not there"),
        ] {
            expect_fault(&verifier(), &left, told(2, 0), fault);
        }
        let strange = [(1, 999), (2, 999), (3, 1_000)];
        let fault = "; there are articles that nobody put there";
        expect_fault(&verifier(), &strange, told(2, 0), fault);
    }

    #[test]
    fn what_is_in_doubt_may_be_gone() {
        let verifier = verifier();
        for left in [999, 998] {
            assert!(verifier.compare(&[(1, 999), (2, left)], told(2, 1)).holds);
        }
        assert!(!verifier.compare(&[(1, 998), (2, 998)], told(2, 1)).holds);
    }

    #[test]
    fn an_update_of_no_row_is_a_fault() {
        let verifier = verifier();
        verifier.missed();
        let left = [(1, 999), (2, 999)];
        expect_fault(&verifier, &left, told(2, 0), "; 1 updates hit no row");
    }

    #[test]
    fn a_piece_is_told_to_one_buyer() {
        for wrong in [None, Some(999), Some(1_000), Some(997), Some(1_001)] {
            let verifier = verifier();
            verifier.told(1, wrong);
            let left = [(1, 999), (2, 999)];
            let fault = "; 1 updates returned a stock that cannot be theirs, or not theirs alone";
            expect_fault(&verifier, &left, told(2, 0), fault);
        }
        let verifier = verifier();
        verifier.told(1, Some(998));
        let fault = "; of article 1 piece 2 was sold, but 1 are gone";
        expect_fault(&verifier, &[(1, 999), (2, 999)], told(2, 0), fault);
    }
}
