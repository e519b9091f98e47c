//! Limits attempts to guess a password, by source address and in total. Each bucket holds attempts; an attempt takes one, time returns
//! them, and a right password returns its own.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Attempts of one address at once, and the time after which one more is allowed.
const BY_ADDRESS: (u32, Duration) = (5, Duration::from_secs(12));

/// The same for all addresses together.
const IN_TOTAL: (u32, Duration) = (30, Duration::from_secs(2));

/// Maximum number of addresses with attempts of their own. Further addresses must wait.
const ADDRESSES_MAX: usize = 1_000;

/// The attempts that are left.
#[derive(Debug, Default)]
pub(super) struct LoginLimit {
    by_address: HashMap<IpAddr, Bucket>,
    total: Bucket,
}

/// Attempts that were made and not returned yet.
#[derive(Debug, Default, Clone, Copy)]
struct Bucket {
    used: u32,
    /// The time at which the last attempt was returned.
    since: Option<Instant>,
}

impl Bucket {
    /// Returns the attempts for which enough time has passed.
    fn refill(&mut self, now: Instant, (_, interval): (u32, Duration)) {
        let since = *self.since.get_or_insert(now);
        let passed = now.saturating_duration_since(since).as_nanos() / interval.as_nanos().max(1);
        let returned = u32::try_from(passed).unwrap_or(u32::MAX).min(self.used);
        self.used -= returned;
        self.since = match self.used {
            0 => None,
            _ => Some(since + interval * returned),
        };
    }

    fn is_full(&self, (most, _): (u32, Duration)) -> bool {
        self.used >= most
    }

    fn take(&mut self, now: Instant) {
        self.since.get_or_insert(now);
        self.used += 1;
    }

    fn give_back(&mut self) {
        self.used = self.used.saturating_sub(1);
    }
}

impl LoginLimit {
    /// Takes an attempt. Returns false if none is left.
    pub(super) fn take(&mut self, now: Instant, address: IpAddr) -> bool {
        self.total.refill(now, IN_TOTAL);
        if self.total.is_full(IN_TOTAL) {
            return false;
        }
        self.by_address.retain(|_, bucket| {
            bucket.refill(now, BY_ADDRESS);
            bucket.used > 0
        });
        let address = source(address);
        if self.by_address.len() >= ADDRESSES_MAX && !self.by_address.contains_key(&address) {
            return false;
        }
        let bucket = self.by_address.entry(address).or_default();
        if bucket.is_full(BY_ADDRESS) {
            return false;
        }
        bucket.take(now);
        self.total.take(now);
        true
    }

    /// Returns the attempt of a right password.
    pub(super) fn give_back(&mut self, address: IpAddr) {
        self.total.give_back();
        if let Some(bucket) = self.by_address.get_mut(&source(address)) {
            bucket.give_back();
        }
    }
}

/// The address that counts: of IPv6, the network of one subscriber.
fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(last: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a00_0000 + last).into()
    }

    #[test]
    fn an_address_has_five_attempts_and_one_more_each_12_seconds() {
        let (mut limit, now) = (LoginLimit::default(), Instant::now());
        for _ in 0..5 {
            assert!(limit.take(now, v4(1)));
        }
        assert!(!limit.take(now, v4(1)));
        assert!(limit.take(now, v4(2)));
        let almost = now + Duration::from_millis(11_999);
        assert!(!limit.take(almost, v4(1)));
        let later = now + Duration::from_secs(12);
        assert!(limit.take(later, v4(1)));
        assert!(!limit.take(later, v4(1)));
    }

    #[test]
    fn many_addresses_share_thirty_attempts() {
        let (mut limit, now) = (LoginLimit::default(), Instant::now());
        let taken = (0..100).filter(|last| limit.take(now, v4(*last))).count();
        assert_eq!(taken, 30);
        assert!(!limit.take(now, v4(1_000)));
        assert!(limit.take(now + Duration::from_secs(2), v4(1_000)));
    }

    #[test]
    fn right_passwords_are_not_limited() {
        let (mut limit, now) = (LoginLimit::default(), Instant::now());
        for _ in 0..100 {
            assert!(limit.take(now, v4(1)));
            limit.give_back(v4(1));
        }
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_together() {
        let (mut limit, now) = (LoginLimit::default(), Instant::now());
        let address = |last: u128| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | last));
        let taken = (0..20)
            .filter(|last| limit.take(now, address(*last)))
            .count();
        assert_eq!(taken, 5);
        assert!(limit.take(now, address(1 << 64)));
    }
}
