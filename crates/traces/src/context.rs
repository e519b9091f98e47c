//! Identifiers of traces and spans, and the header `traceparent` (W3C Trace Context, section 3.2).

#[cfg(test)]
mod tests;

use std::fmt;

/// Length of a `traceparent` of version 00.
const TRACEPARENT_LEN: usize = 55;

/// The flag of a trace whose spans are recorded.
const SAMPLED: u8 = 1;

/// Identifies a trace. Never all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// Identifies a span in its trace. Never all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// A span and its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanContext {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
}

/// The context that a client sends with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traceparent {
    /// The client's own span.
    pub context: SpanContext,
    /// Whether the client records the trace.
    pub sampled: bool,
}

impl TraceId {
    /// An id from random bits.
    pub fn from_random(high: u64, low: u64) -> Self {
        Self(
            ((u128::from(high) << 64) | u128::from(low))
                .max(1)
                .to_be_bytes(),
        )
    }
}

impl SpanId {
    /// An id from random bits.
    pub fn from_random(bits: u64) -> Self {
        Self(bits.max(1).to_be_bytes())
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:016x}", u64::from_be_bytes(self.0))
    }
}

impl Traceparent {
    /// Reads a header value. `None` if it is invalid. Of a future version, only the fields of version 00 are read.
    pub fn parse(text: &str) -> Option<Self> {
        let (fields, rest) = text.split_at_checked(TRACEPARENT_LEN)?;
        let mut fields = fields.split('-');
        let [version] = bytes(fields.next()?)?;
        let trace = bytes(fields.next()?)?;
        let span = bytes(fields.next()?)?;
        let [flags] = bytes(fields.next()?)?;
        let is_known = match version {
            0 => rest.is_empty(),
            u8::MAX => false,
            _ => rest.is_empty() || rest.starts_with('-'),
        };
        let is_valid = is_known && fields.next().is_none() && trace != [0; 16] && span != [0; 8];
        is_valid.then_some(Self {
            context: SpanContext {
                trace: TraceId(trace),
                span: SpanId(span),
            },
            sampled: flags & SAMPLED != 0,
        })
    }
}

/// Reads `N` bytes as hexadecimal digits in lower case.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let mut bytes = [0; N];
    if pairs.len() != N {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}
