//! The addresses that a rule matches.

use std::net::IpAddr;

/// A set of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// All addresses.
    All,
    /// The addresses of one family that equal `address` in the bits of `mask`.
    Like {
        /// The address.
        address: IpAddr,
        /// The mask.
        mask: u128,
    },
}

impl Network {
    /// Reads `10.0.0.0/8` or `::1/128`.
    pub(super) fn with_prefix(text: &str) -> Result<Self, String> {
        let (address, bits) = text.split_once('/').unwrap_or((text, ""));
        let address = parse(address)?;
        let most = width(address);
        let bits = bits.parse().ok().filter(|bits| *bits <= most);
        let bits: u32 =
            bits.ok_or_else(|| format!("{text}: behind the / stands a number up to {most}"))?;
        // A shift by all bits gives a mask of zeros.
        let ones = u128::MAX.checked_shl(most - bits).unwrap_or(0);
        Ok(Self::Like {
            address,
            mask: ones & (u128::MAX >> (128 - most)),
        })
    }

    /// Reads `10.0.0.0 255.0.0.0`.
    pub(super) fn with_mask(address: &str, mask: &str) -> Result<Self, String> {
        let (address, mask) = (parse(address)?, parse(mask)?);
        if width(address) != width(mask) {
            return Err("address and mask are of different families".to_owned());
        }
        Ok(Self::Like {
            address,
            mask: bits(mask),
        })
    }

    /// Whether an address is in the set.
    pub(super) fn holds(self, other: IpAddr) -> bool {
        match self {
            Self::All => true,
            Self::Like { address, mask } => {
                width(address) == width(other) && bits(address) & mask == bits(other) & mask
            }
        }
    }
}

fn parse(text: &str) -> Result<IpAddr, String> {
    text.parse()
        .map_err(|_| format!("{text} is not an IP address; host names are not supported"))
}

fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}
