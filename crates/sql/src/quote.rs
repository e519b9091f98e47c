//! Identifiers and literals as SQL text.

#[cfg(test)]
mod tests;

/// The identifier in double quotes. It is always quoted, so that no list of keywords is needed.
pub fn quote_ident(name: &str) -> String {
    wrap(name, '"', "")
}

/// The text as a string constant that does not depend on `standard_conforming_strings`: in plain quotes, or as `E''`
/// if the text contains a backslash.
pub fn quote_literal(text: &str) -> String {
    if text.contains('\\') {
        wrap(&text.replace('\\', "\\\\"), '\'', "E")
    } else {
        wrap(text, '\'', "")
    }
}

fn wrap(text: &str, quote: char, prefix: &str) -> String {
    let mut wrapped = String::with_capacity(text.len() + prefix.len() + 2);
    wrapped.push_str(prefix);
    wrapped.push(quote);
    for character in text.chars() {
        if character == quote {
            wrapped.push(quote);
        }
        wrapped.push(character);
    }
    wrapped.push(quote);
    wrapped
}
