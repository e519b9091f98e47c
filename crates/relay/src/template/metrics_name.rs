//! The name of a template in metrics.

use super::Template;

/// Maximum number of characters of the text in the name.
pub const NAME_CHARS_MAX: usize = 120;

impl Template {
    /// The id with which its name in metrics begins.
    pub fn text_id(&self) -> u32 {
        let digits = self.name().get(..8);
        digits
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .unwrap_or_default()
    }

    /// The name in metrics: an id that is the same in every process, and the beginning of the text, both without values.
    /// Texts that differ only in values have the same name.
    pub fn name(&self) -> &str {
        self.name
            .get_or_init(|| match paceline_sql::masked(&self.text) {
                Some(text) => format!(
                    "{:08x} {}",
                    text_id(&text),
                    shortened(&text, NAME_CHARS_MAX)
                ),
                None => format!("{:08x}", text_id(&self.text)),
            })
    }
}

/// FNV-1a, 32 bits. The hash of the standard library may change in the next release.
pub fn text_id(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step)
}

/// The text on one line, with at most `chars_max` characters.
pub fn shortened(text: &str, chars_max: usize) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
