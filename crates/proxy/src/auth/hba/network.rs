//! The addresses that a rule is for.

use std::net::IpAddr;

/// Addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// Every one.
    All,
    /// Those that are like this one where the mask has a one; of its family only.
    Like {
        /// The one.
        address: IpAddr,
        /// Where to compare.
        mask: u128,
    },
}

impl Network {
    /// `10.0.0.0/8`, `::1/128`.
    pub(super) fn with_prefix(text: &str) -> Result<Self, String> {
        let (address, bits) = text.split_once('/').unwrap_or((text, ""));
        let address = parse(address)?;
        let most = width(address);
        let bits = bits.parse().ok().filter(|bits| *bits <= most);
        let bits: u32 =
            bits.ok_or_else(|| format!("{text}: behind the / stands a number up to {most}"))?;
        // Of all zeros none is left over.
        let ones = u128::MAX.checked_shl(most - bits).unwrap_or(0);
        Ok(Self::Like {
            address,
            mask: ones & (u128::MAX >> (128 - most)),
        })
    }

    /// `10.0.0.0 255.0.0.0`.
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

    /// Whether an address is one of them.
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
