//! `client_compression` and `server_compression`: a method of compression and its level.

use std::fmt;

/// The level of `zstd` without a level: zstd's own default.
const USUAL_LEVEL: u8 = 3;

/// The highest level. Higher ones of zstd need much more memory and time.
const LEVEL_MAX: u8 = 19;

/// The compression of connections between two Pacelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionMethod {
    /// Not at all.
    Off,
    /// By zstd, at most at this level.
    Zstd(u8),
}

impl CompressionMethod {
    /// The possible values, for the documentation.
    pub(crate) const MEANING: &'static str = "off, zstd, zstd:1 to zstd:19";

    /// Reads `off`, `zstd` or `zstd:LEVEL`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let level = match text {
            "off" => return Some(Self::Off),
            "zstd" => USUAL_LEVEL,
            text => text.strip_prefix("zstd:")?.parse().ok()?,
        };
        (1..=LEVEL_MAX)
            .contains(&level)
            .then_some(Self::Zstd(level))
    }

    /// The level; `None` without compression.
    #[must_use]
    pub fn level(self) -> Option<u8> {
        match self {
            Self::Off => None,
            Self::Zstd(level) => Some(level),
        }
    }
}

impl fmt::Display for CompressionMethod {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => out.write_str("off"),
            Self::Zstd(USUAL_LEVEL) => out.write_str("zstd"),
            Self::Zstd(level) => write!(out, "zstd:{level}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_levels_are_read_and_shown() {
        use CompressionMethod::{Off, Zstd};
        let good = [
            ("off", Off),
            ("zstd", Zstd(3)),
            ("zstd:1", Zstd(1)),
            ("zstd:19", Zstd(19)),
        ];
        for (text, method) in good {
            assert_eq!(CompressionMethod::parse(text), Some(method));
            assert_eq!(method.to_string(), text);
        }
        for text in [
            "", "on", "gzip", "zstd:", "zstd:0", "zstd:20", "zstd:-1", "zstd:300", "ZSTD",
        ] {
            assert_eq!(CompressionMethod::parse(text), None, "{text}");
        }
    }
}
