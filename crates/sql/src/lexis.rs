//! Bytes of SQL, as PostgreSQL's `scan.l` classifies them.

/// White space.
pub(crate) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// The end of the block comment at `at`. Block comments nest.
pub(crate) fn end_of_block_comment(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match (*bytes.get(at)?, bytes.get(at + 1)) {
            (b'/', Some(b'*')) => {
                depth += 1;
                at += 2;
            }
            (b'*', Some(b'/')) => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
}

pub(crate) const fn starts_identifier(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

/// A table look-up instead of five comparisons, because this function reads most bytes of most texts.
pub(crate) fn continues_identifier(byte: u8) -> bool {
    const CONTINUES: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0_u8;
        loop {
            #[expect(clippy::indexing_slicing, reason = "a byte always is within the table")]
            {
                table[byte as usize] =
                    starts_identifier(byte) || byte.is_ascii_digit() || byte == b'$';
            }
            if byte == u8::MAX {
                break table;
            }
            byte += 1;
        }
    };
    CONTINUES.get(usize::from(byte)).copied().unwrap_or(false)
}

/// The end of the line comment at `at`: the position of the line break.
pub(crate) fn end_of_line(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter()
        .position(|&byte| byte == b'\n' || byte == b'\r')
        .map_or(bytes.len(), |length| at + length)
}

/// The position at which a string that ends before `at` continues, if it does (`'a'⏎'b'` is one string). Line comments count as
/// white space there, block comments do not.
pub(crate) fn continuation(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut new_line = false;
    loop {
        match *bytes.get(at)? {
            byte if is_space(byte) => new_line |= matches!(byte, b'\n' | b'\r'),
            b'-' if bytes.get(at + 1) == Some(&b'-') => {
                at = end_of_line(bytes, at);
                continue;
            }
            b'\'' if new_line => return Some(at),
            _ => return None,
        }
        at += 1;
    }
}
