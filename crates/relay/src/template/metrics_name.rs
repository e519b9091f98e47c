//! The name of a template in metrics.

use super::Template;

/// Most characters of a template's text in its name.
pub const NAME_CHARS_MAX: usize = 120;

impl Template {
    /// What metrics call it: an id that is the same in every process, and the beginning of the text, both without the
    /// values in it. Texts that differ in these only are called the same. It is made when it is asked for first.
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

/// FNV-1a, 32 bits: the standard library's hash may be another one in the next release.
pub fn text_id(text: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    text.bytes().fold(0x811c_9dc5, step)
}

/// A text on one line, not too long.
pub fn shortened(text: &str, chars_max: usize) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line = line.join(" ");
    match line.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
