//! The negotiation of compression between two Pacelines. The client offers it by a protocol option of its startup packet; the server
//! confirms it by a ParameterStatus before the first ReadyForQuery, behind which both directions are compressed.
//!
//! An option that is not in a NegotiateProtocolVersion may have been ignored, and a parameter may come from another login that a pooler
//! has kept: so the confirmation repeats the offer, which has a random number in it.

use crate::startup::Startup;

/// The protocol option.
pub const OPTION: &str = "_pq_.paceline_compression";

/// The name of the ParameterStatus that confirms it.
pub const CONFIRMATION: &str = "paceline_compression";

/// The method, in front of the random number of an offer.
const METHOD: &str = "zstd:";

/// Maximum digits of the number that a server repeats.
const DIGITS_MAX: usize = 32;

/// The value of the option with this random number.
pub fn offer(random: u64) -> String {
    format!("{METHOD}{random:016x}")
}

/// The offer in a startup packet, if it is one that can be accepted: the value of the confirmation.
pub fn acceptable_offer(startup: &Startup) -> Option<&str> {
    let offer = startup.get(OPTION)?;
    let digits = offer.strip_prefix(METHOD)?.as_bytes();
    let good = (1..=DIGITS_MAX).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    good.then_some(offer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn startup(value: &str) -> Startup {
        Startup {
            minor: 0,
            parameters: vec![(OPTION.to_owned(), value.to_owned())],
        }
    }

    #[test]
    fn only_offers_of_zstd_with_a_number_are_accepted() {
        let good = offer(0xabc);
        assert_eq!(
            acceptable_offer(&startup(&good)),
            Some("zstd:0000000000000abc")
        );
        for bad in [
            "",
            "zstd",
            "zstd:",
            "gzip:12",
            "zstd:x1",
            &format!("zstd:{}", "1".repeat(33)),
        ] {
            assert_eq!(acceptable_offer(&startup(bad)), None, "{bad}");
        }
        assert_eq!(acceptable_offer(&Startup::default()), None);
    }
}
