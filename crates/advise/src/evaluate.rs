//! The findings of an observation, in the order of their cost.

use crate::attribution::{Attribution, attribute};
use crate::evaluated::{Evaluated, SHARE_MIN};
use crate::executed::executed;
use crate::finding::Finding;
use crate::observation::Observation;
use crate::patterns;

/// The findings, the most expensive first; and remarks on the observation itself.
pub fn evaluate(observation: &Observation) -> (Vec<Finding>, Vec<String>) {
    let evaluated = Evaluated {
        observation,
        attribution: attribute(observation),
        executed: executed(observation),
    };
    let mut findings = patterns::find(&evaluated);
    findings.retain(|finding| finding.share >= SHARE_MIN);
    findings.sort_by(|one, other| other.share.total_cmp(&one.share));
    (findings, notes(&evaluated.attribution))
}

fn notes(attribution: &Attribution) -> Vec<String> {
    let mut notes = Vec::new();
    if attribution.hidden > 0 {
        notes.push(
            "this role cannot see what other sessions execute; GRANT pg_read_all_stats TO it for complete findings"
                .to_owned(),
        );
    }
    notes
}
