//! One-dimensional arrays as parameters, in text or binary format (PostgreSQL documentation, "Array Input and Output Syntax";
//! for the binary format see `array_send`).

use bytes::{BufMut, BytesMut};

/// A complete array: whether it is in binary format, and its bytes.
pub(super) type ArrayValue = (bool, Vec<u8>);

/// An array to which elements are appended.
#[derive(Debug)]
pub(super) struct Array {
    binary: bool,
    out: BytesMut,
    has_null: bool,
    len: usize,
}

/// Bytes before the elements of a binary array.
const HEADER_LEN: usize = 20;
/// Position of the flag for NULLs in the header.
const NULL_FLAG: usize = 7;
const INT4: u32 = 23;

impl Array {
    /// An array for `len` elements of the type with the OID `element`.
    pub(super) fn new(binary: bool, element: u32, len: usize) -> Self {
        let mut out = BytesMut::with_capacity(HEADER_LEN + len * 8);
        if binary {
            out.put_i32(1);
            out.put_i32(0);
            out.put_u32(element);
            out.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
            out.put_i32(1);
        } else {
            out.put_u8(b'{');
        }
        Self {
            binary,
            out,
            has_null: false,
            len: 0,
        }
    }

    /// A binary array of int4.
    pub(super) fn int4(len: usize) -> Self {
        Self::new(true, INT4, len)
    }

    /// The numbers from 1 to `len`.
    pub(super) fn numbers(len: usize) -> ArrayValue {
        let mut array = Self::int4(len);
        (1..=len).for_each(|number| array.push_int(number));
        array.finish()
    }

    /// Appends an int4.
    pub(super) fn push_int(&mut self, value: usize) {
        let value = i32::try_from(value).unwrap_or(i32::MAX);
        self.push(Some(&value.to_be_bytes()));
    }

    /// Appends a value in the format of the array; `None` is NULL.
    pub(super) fn push(&mut self, value: Option<&[u8]>) {
        self.len += 1;
        self.has_null |= value.is_none();
        if self.binary {
            paceline_wire::frontend::put_value(&mut self.out, value);
            return;
        }
        if self.len > 1 {
            self.out.put_u8(b',');
        }
        match value {
            None => self.out.put_slice(b"NULL"),
            Some(value) if is_plain(value) => self.out.put_slice(value),
            Some(value) => self.quote(value),
        }
    }

    fn quote(&mut self, value: &[u8]) {
        self.out.put_u8(b'"');
        for &byte in value {
            if byte == b'"' || byte == b'\\' {
                self.out.put_u8(b'\\');
            }
            self.out.put_u8(byte);
        }
        self.out.put_u8(b'"');
    }

    /// The complete array.
    pub(super) fn finish(mut self) -> ArrayValue {
        if !self.binary {
            self.out.put_u8(b'}');
        } else if self.has_null
            && let Some(flag) = self.out.get_mut(NULL_FLAG)
        {
            *flag = 1;
        }
        (self.binary, self.out.to_vec())
    }
}

/// Complete arrays as the values of a `Bind`.
pub(super) fn bound(arrays: &[ArrayValue]) -> impl Iterator<Item = (bool, Option<&[u8]>)> {
    let arrays = arrays.iter();
    arrays.map(|(binary, bytes)| (*binary, Some(&**bytes)))
}

/// Whether an element needs no quotes because it is a number.
fn is_plain(value: &[u8]) -> bool {
    !value.is_empty()
        && value
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_elements_other_than_numbers_are_quoted() {
        let mut array = Array::new(false, 25, 4);
        array.push(Some(b"-1.5"));
        array.push(None);
        array.push(Some(br#"a"\,{}"#));
        array.push(Some(b""));
        let (_, bytes) = array.finish();
        assert_eq!(bytes, br#"{-1.5,NULL,"a\"\\,{}",""}"#);
    }

    #[test]
    fn a_binary_array_with_a_null_has_the_null_flag() {
        let mut array = Array::int4(2);
        array.push_int(7);
        array.push(None);
        let (_, bytes) = array.finish();
        let expected = [
            0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1, //
            0, 0, 0, 4, 0, 0, 0, 7, 255, 255, 255, 255,
        ];
        assert_eq!(bytes, expected);
    }
}
