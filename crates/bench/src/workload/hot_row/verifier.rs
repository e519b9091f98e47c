//! Verifies the stock of every article: how many pieces buyers got, and which. Has no access to the database.

use crate::record::CheckResult;
use crate::show;
use crate::workload::interface::Outcome;
use fixedbitset::FixedBitSet;

/// Maximum number of faults in a message.
const FAULTS_SHOWN: usize = 3;

/// Records the answers to all buyers of a run.
#[derive(Debug)]
pub(super) struct Verifier {
    /// Initial stock of each article.
    stock: u64,
    /// The articles by number, from 1.
    articles: Vec<Article>,
    /// Updates that were sent; the maximum number of pieces that any article has sold.
    pub(super) sent: u64,
    /// Acknowledged updates that did not change exactly one row. The stock exceeds what a run takes, so no guard may
    /// reject an update.
    pub(super) missed: u64,
    /// Updates that returned an impossible stock, or one that another update had returned.
    wrong_returns: u64,
}

#[derive(Debug, Clone, Default)]
struct Article {
    acknowledged: u64,
    /// The returned pieces, which are numbered from 1 in the order of their sale.
    returned: FixedBitSet,
}

impl Verifier {
    /// An empty verifier for this number of articles and this stock of each.
    pub(super) fn new(articles: usize, stock: u64) -> Self {
        Self {
            stock,
            articles: vec![Article::default(); articles],
            sent: 0,
            missed: 0,
            wrong_returns: 0,
        }
    }

    /// Records that a buyer got a piece of `article`.
    pub(super) fn acknowledged(&mut self, article: i64) {
        match self.article(article) {
            Some(article) => article.acknowledged += 1,
            None => self.missed += 1,
        }
    }

    /// Records the remaining stock that an update returned; `None` if it returned none.
    pub(super) fn returned(&mut self, article: i64, left: Option<u64>) {
        let piece = left.and_then(|left| self.stock.checked_sub(left));
        let piece = piece.filter(|piece| (1..=self.sent).contains(piece));
        let piece = piece.and_then(|piece| usize::try_from(piece).ok());
        let is_new = self.article(article).zip(piece).is_some_and(|(it, piece)| {
            it.returned.grow(piece + 1);
            !it.returned.put(piece)
        });
        self.wrong_returns += u64::from(!is_new);
    }

    fn article(&mut self, number: i64) -> Option<&mut Article> {
        let place = usize::try_from(number.checked_sub(1)?).ok()?;
        self.articles.get_mut(place)
    }

    /// Compares the answers with the stock that is left: number and stock of each article. A missing article is a fault.
    pub(super) fn compare(&self, left: &[[i64; 2]], outcome: Outcome) -> CheckResult {
        let (mut faults, mut taken) = (self.faults(), 0);
        for (number, article) in (1..).zip(&self.articles) {
            let found = left.iter().find(|[found, _]| *found == number);
            let gone = found.map(|[_, left]| self.stock.cast_signed().saturating_sub(*left));
            taken += gone.unwrap_or_default();
            faults.extend(article.fault(number, gone));
        }
        if left.len() > self.articles.len() {
            faults.push("there are unknown articles".to_owned());
        }
        let shown = faults.iter().take(FAULTS_SHOWN);
        CheckResult {
            holds: outcome.explains(taken) && faults.is_empty(),
            says: format!(
                "{} pieces are gone, {} were acknowledged{}{}",
                show::number(taken as f64),
                show::count(outcome.acknowledged),
                outcome.in_doubt(),
                shown.map(|fault| format!("; {fault}")).collect::<String>()
            ),
        }
    }

    /// Faults that do not depend on the contents of the table.
    fn faults(&self) -> Vec<String> {
        let theirs = "updates returned a stock that cannot be theirs, or not theirs alone";
        [
            (self.missed, "updates hit no row"),
            (self.wrong_returns, theirs),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", show::count(count)))
        .collect()
    }
}

impl Article {
    /// The fault of this article if `gone` pieces have been taken; `None` means that its row is missing.
    fn fault(&self, number: i64, gone: Option<i64>) -> Option<String> {
        let Some(gone) = gone else {
            return Some(format!("article {number} is not there"));
        };
        let (taken, acknowledged) = (u64::try_from(gone).unwrap_or_default(), self.acknowledged);
        if taken < acknowledged {
            return Some(format!(
                "of article {number} {gone} are gone, {acknowledged} were acknowledged"
            ));
        }
        let highest = self.returned.maximum().unwrap_or_default() as u64;
        (highest > taken)
            .then(|| format!("of article {number} piece {highest} was sold, but {gone} are gone"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOCK: u64 = 1_000;

    fn outcome(acknowledged: u64, unknown: u64) -> Outcome {
        Outcome {
            acknowledged,
            unknown,
        }
    }

    /// Two articles, of which one piece each was taken.
    fn verifier() -> Verifier {
        let mut verifier = Verifier::new(2, STOCK);
        for article in [1, 2] {
            verifier.sent += 1;
            verifier.acknowledged(article);
            verifier.returned(article, Some(999));
        }
        verifier
    }

    #[track_caller]
    fn expect_fault(verifier: &Verifier, left: &[[i64; 2]], outcome: Outcome, fault: &str) {
        let check = verifier.compare(left, outcome);
        assert!(!check.holds && check.says.contains(fault), "{}", check.says);
    }

    #[test]
    fn acknowledged_pieces_are_gone_from_each_article() {
        let check = verifier().compare(&[[1, 999], [2, 999]], outcome(2, 0));
        assert!(check.holds);
        assert_eq!(check.says, "2 pieces are gone, 2 were acknowledged");
        for (left, fault) in [
            (
                [[1, 1_000], [2, 998]],
                "; of article 1 0 are gone, 1 were acknowledged",
            ),
            (
                [[1, 998], [2, 1_000]],
                "; of article 2 0 are gone, 1 were acknowledged",
            ),
            ([[1, 998], [3, 999]], "; article 2 is not there"),
        ] {
            expect_fault(&verifier(), &left, outcome(2, 0), fault);
        }
        let strange = [[1, 999], [2, 999], [3, 1_000]];
        let fault = "; there are unknown articles";
        expect_fault(&verifier(), &strange, outcome(2, 0), fault);
    }

    #[test]
    fn pieces_in_doubt_may_be_gone() {
        let verifier = verifier();
        for left in [999, 998] {
            assert!(
                verifier
                    .compare(&[[1, 999], [2, left]], outcome(2, 1))
                    .holds
            );
        }
        assert!(!verifier.compare(&[[1, 998], [2, 998]], outcome(2, 1)).holds);
    }

    #[test]
    fn an_update_of_no_row_is_a_fault() {
        let mut verifier = verifier();
        verifier.missed += 1;
        let left = [[1, 999], [2, 999]];
        expect_fault(&verifier, &left, outcome(2, 0), "; 1 updates hit no row");
    }

    #[test]
    fn a_piece_is_returned_to_one_buyer() {
        for wrong in [None, Some(999), Some(1_000), Some(997), Some(1_001)] {
            let mut verifier = verifier();
            verifier.returned(1, wrong);
            let left = [[1, 999], [2, 999]];
            let fault = "; 1 updates returned a stock that cannot be theirs, or not theirs alone";
            expect_fault(&verifier, &left, outcome(2, 0), fault);
        }
        let mut verifier = verifier();
        verifier.returned(1, Some(998));
        let fault = "; of article 1 piece 2 was sold, but 1 are gone";
        expect_fault(&verifier, &[[1, 999], [2, 999]], outcome(2, 0), fault);
    }
}
