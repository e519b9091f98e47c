//! The values of keys from the texts and bytes that clients and catalogs contain.
//!
//! Text is read only if PostgreSQL reads it in the same way whatever `DateStyle`, `TimeZone` and `IntervalStyle` are: then both
//! functions return the value that PostgreSQL stores. `None` means that PostgreSQL may read another value, or raise an error.

mod date_time;
#[cfg(test)]
mod tests;

use crate::key::{KeyType, KeyValue};
use date_time::{DATE_RANGE, TIMESTAMP_RANGE};
use std::borrow::Cow;

/// The value of a text, as the type's input function reads it. Bounds are read so, too, if the session that writes them has
/// `DateStyle = ISO`, `TimeZone = UTC` and `standard_conforming_strings = on`.
#[must_use]
pub fn text(key_type: KeyType, text: &str) -> Option<KeyValue<'_>> {
    let value = match key_type {
        KeyType::Int2 | KeyType::Int4 | KeyType::Int8 => KeyValue::Int(integer(text)?),
        KeyType::Uuid => KeyValue::Uuid(uuid(text)?),
        KeyType::Bool => KeyValue::Bool(boolean(text)?),
        KeyType::Date => KeyValue::Date(date_time::date(text)?),
        KeyType::Timestamp => KeyValue::Timestamp(date_time::timestamp(text)?),
        KeyType::Timestamptz => KeyValue::Timestamp(date_time::timestamptz(text)?),
        KeyType::Text => KeyValue::Text(Cow::Borrowed(text)),
    };
    key_type.has(&value).then_some(value)
}

/// The value of a parameter in binary format, as the type's receive function reads it.
#[must_use]
pub fn binary(key_type: KeyType, bytes: &[u8]) -> Option<KeyValue<'_>> {
    Some(match key_type {
        KeyType::Int2 => KeyValue::Int(i16::from_be_bytes(bytes.try_into().ok()?).into()),
        KeyType::Int4 => KeyValue::Int(i32::from_be_bytes(bytes.try_into().ok()?).into()),
        KeyType::Int8 => KeyValue::Int(i64::from_be_bytes(bytes.try_into().ok()?)),
        KeyType::Uuid => KeyValue::Uuid(bytes.try_into().ok()?),
        KeyType::Bool => {
            let [byte] = <[u8; 1]>::try_from(bytes).ok()?;
            KeyValue::Bool(byte != 0)
        }
        KeyType::Date => {
            let days = i32::from_be_bytes(bytes.try_into().ok()?);
            let is_infinite = days == i32::MIN || days == i32::MAX;
            let fits = is_infinite || DATE_RANGE.contains(&days.into());
            return fits.then_some(KeyValue::Date(days));
        }
        KeyType::Timestamp | KeyType::Timestamptz => {
            let microseconds = i64::from_be_bytes(bytes.try_into().ok()?);
            let is_infinite = microseconds == i64::MIN || microseconds == i64::MAX;
            let fits = is_infinite || TIMESTAMP_RANGE.contains(&microseconds);
            return fits.then_some(KeyValue::Timestamp(microseconds));
        }
        KeyType::Text => {
            let text = std::str::from_utf8(bytes).ok()?;
            return (!text.contains('\0')).then_some(KeyValue::Text(Cow::Borrowed(text)));
        }
    })
}

/// A sign and decimal digits. Newer versions also read other bases and underscores, which older ones refuse.
fn integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    are_digits.then(|| text.parse().ok()).flatten()
}

/// 32 hexadecimal digits, with or without the usual hyphens.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let bytes = text.as_bytes();
    let hyphens = [8, 13, 18, 23];
    let is_usual = bytes.len() == 36 && hyphens.iter().all(|at| bytes.get(*at) == Some(&b'-'));
    let is_place_of_digit = |place: &usize| !(is_usual && hyphens.contains(place));
    let digits = bytes.iter().enumerate();
    let digits = digits.filter(|(place, _)| is_place_of_digit(place));
    let digits = digits.map(|(_, byte)| char::from(*byte).to_digit(16));
    let digits: Vec<u32> = digits.collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    let bytes = pairs
        .iter()
        .map(|[high, low]| u8::try_from(high * 16 + low).ok());
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    bytes.try_into().ok()
}

/// The whole words.
fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "on" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}
