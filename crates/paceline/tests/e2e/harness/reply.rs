//! Backend messages as text that can be compared: what must differ between two servers (object ids, tuple ids, source
//! lines) is left out, everything else stays.

use std::collections::BTreeMap;
use std::fmt;

/// A backend message.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) tag: u8,
    pub(crate) body: Vec<u8>,
}

/// The fields of an ErrorResponse or NoticeResponse, by their codes.
#[derive(Default, Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fields(BTreeMap<char, String>);

/// The answer to one request, up to and with ReadyForQuery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply(pub(crate) Vec<Message>);

/// Object ids from here on are not PostgreSQL's own, so they differ between databases.
const FIRST_USER_OID: u32 = 16384;

impl fmt::Debug for Message {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.line(&mut Vec::new()))
    }
}

impl Fields {
    pub(crate) fn sqlstate(&self) -> &str {
        self.get('C')
    }

    pub(crate) fn text(&self) -> &str {
        self.get('M')
    }

    /// A field by its code; empty when it is missing.
    pub(crate) fn get(&self, code: char) -> &str {
        self.0.get(&code).map_or("", String::as_str)
    }
}

impl Message {
    /// The fields of an ErrorResponse or NoticeResponse.
    pub(crate) fn fields(&self) -> Fields {
        let mut cursor = Cursor(&self.body);
        let mut fields = BTreeMap::new();
        loop {
            match cursor.byte() {
                0 => return Fields(fields),
                code => fields.insert(char::from(code), cursor.string()),
            };
        }
    }

    /// The values of a DataRow; binary ones as far as UTF-8 can show them.
    pub(crate) fn values(&self) -> Vec<Option<String>> {
        self.raw_values()
            .into_iter()
            .map(|value| value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
            .collect()
    }

    /// The values of a DataRow as received.
    pub(crate) fn raw_values(&self) -> Vec<Option<Vec<u8>>> {
        let mut cursor = Cursor(&self.body);
        let count = cursor.u16();
        (0..count).map(|_| cursor.value()).collect()
    }

    /// The names of the columns in a RowDescription.
    pub(crate) fn columns(&self) -> Vec<String> {
        let mut cursor = Cursor(&self.body);
        let count = cursor.u16();
        let name = |_| {
            let name = cursor.string();
            // Table, column, type, size, modifier, format.
            cursor.take(4 + 2 + 4 + 2 + 4 + 2);
            name
        };
        (0..count).map(name).collect()
    }

    /// A one-line text. `oids` numbers the objects so far, in the order of their appearance.
    fn line(&self, oids: &mut Vec<u32>) -> String {
        let mut cursor = Cursor(&self.body);
        match self.tag {
            b'E' | b'N' => self.complaint(),
            b'T' => self.row_description(oids),
            b'D' => format!("DataRow {}", show_values(&self.raw_values())),
            b'C' => format!("CommandComplete {:?}", cursor.string()),
            b'Z' => format!("ReadyForQuery {}", char::from(cursor.byte())),
            b'S' => format!(
                "ParameterStatus {:?}={:?}",
                cursor.string(),
                cursor.string()
            ),
            b't' => {
                let count = cursor.u16();
                let types: Vec<String> = (0..count).map(|_| alias(cursor.u32(), oids)).collect();
                format!("ParameterDescription {types:?}")
            }
            // The notifying process differs.
            b'A' => format!(
                "NotificationResponse {:?}",
                String::from_utf8_lossy(&self.body[4..])
            ),
            tag => format!("{} {:?}", name(tag), String::from_utf8_lossy(&self.body)),
        }
    }

    fn complaint(&self) -> String {
        let shown: Vec<String> = self
            .fields()
            .0
            .iter()
            .filter(|(code, _)| !matches!(code, 'F' | 'L' | 'R'))
            .map(|(code, text)| match code {
                'D' | 'W' => format!("{code}={:?}", without_tuple_ids(text)),
                _ => format!("{code}={text:?}"),
            })
            .collect();
        format!("{} {}", name(self.tag), shown.join(" "))
    }

    fn row_description(&self, oids: &mut Vec<u32>) -> String {
        let mut cursor = Cursor(&self.body);
        let mut columns = Vec::new();
        for _ in 0..cursor.u16() {
            let name = cursor.string();
            let table = alias(cursor.u32(), oids);
            let column = cursor.u16();
            let kind = alias(cursor.u32(), oids);
            let (size, modifier, format) = (cursor.u16(), cursor.u32(), cursor.u16());
            columns.push(format!(
                "{name}({table}.{column} type {kind} {size} {modifier} format {format})"
            ));
        }
        format!("RowDescription {}", columns.join(" "))
    }
}

impl Reply {
    /// The rows of all results, as text.
    pub(crate) fn rows(&self) -> Vec<Vec<Option<String>>> {
        self.all(b'D').map(Message::values).collect()
    }

    /// The only value of the first row.
    #[track_caller]
    pub(crate) fn value(&self) -> String {
        let rows = self.rows();
        let value = rows.first().and_then(|row| row.first()).cloned().flatten();
        value.unwrap_or_else(|| panic!("no value in {self:#?}"))
    }

    pub(crate) fn error(&self) -> Option<Fields> {
        self.all(b'E').next().map(Message::fields)
    }

    /// The SQLSTATE of its error; empty when there is none.
    pub(crate) fn sqlstate(&self) -> String {
        self.error()
            .map_or_else(String::new, |error| error.sqlstate().to_owned())
    }

    /// The last command tag; empty when there is none.
    pub(crate) fn tag(&self) -> String {
        self.all(b'C')
            .last()
            .map_or_else(String::new, |message| Cursor(&message.body).string())
    }

    /// The transaction status of ReadyForQuery: `I`, `T` or `E`.
    pub(crate) fn status(&self) -> char {
        self.all(b'Z')
            .last()
            .map_or('?', |message| char::from(message.body[0]))
    }

    /// The tags of its messages, in order.
    pub(crate) fn tags(&self) -> String {
        self.0
            .iter()
            .map(|message| char::from(message.tag))
            .collect()
    }

    /// Fails the test when there is an error in it.
    #[track_caller]
    pub(crate) fn expect_ok(self, what: &str) -> Self {
        assert!(self.error().is_none(), "{what}: {self:#?}");
        self
    }

    /// Fails the test unless there is an error with this SQLSTATE in it.
    #[track_caller]
    pub(crate) fn expect_error(self, sqlstate: &str) -> Self {
        assert_eq!(self.sqlstate(), sqlstate, "{self:#?}");
        self
    }

    fn all(&self, tag: u8) -> impl Iterator<Item = &Message> {
        self.0.iter().filter(move |message| message.tag == tag)
    }
}

/// One line per message, in the form that is compared.
pub(crate) fn transcript(messages: &[Message]) -> Vec<String> {
    let mut oids = Vec::new();
    messages
        .iter()
        .map(|message| message.line(&mut oids))
        .collect()
}

/// Compares two sequences of messages and reports the first difference.
#[track_caller]
pub(crate) fn assert_same(what: &str, bare: &[Message], paceline: &[Message]) {
    let (bare, paceline) = (transcript(bare), transcript(paceline));
    if bare == paceline {
        return;
    }
    let same = bare
        .iter()
        .zip(&paceline)
        .take_while(|(left, right)| left == right)
        .count();
    let shown = |lines: &[String]| lines.iter().skip(same).take(4).cloned().collect::<Vec<_>>();
    panic!(
        "{what}: after {same} equal messages\n  PostgreSQL: {:#?}\n  Paceline: {:#?}",
        shown(&bare),
        shown(&paceline)
    );
}

fn show_values(values: &[Option<Vec<u8>>]) -> String {
    let shown: Vec<String> = values
        .iter()
        .map(|value| match value {
            None => "NULL".to_owned(),
            Some(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        })
        .collect();
    shown.join(" ")
}

/// PostgreSQL's own object ids as they are, others by the order in which they appeared.
fn alias(oid: u32, oids: &mut Vec<u32>) -> String {
    if oid < FIRST_USER_OID {
        return oid.to_string();
    }
    let at = oids.iter().position(|known| *known == oid);
    let at = at.unwrap_or_else(|| {
        oids.push(oid);
        oids.len() - 1
    });
    format!("#{at}")
}

/// Replaces `(0,17)` by `(ctid)`. Lists of values have a space behind the comma.
fn without_tuple_ids(text: &str) -> String {
    let mut parts = text.split('(');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part
            .split_once(')')
            .filter(|(inside, _)| is_tuple_id(inside))
            .map(|(_, rest)| rest);
        match rest {
            Some(rest) => out.push_str(&format!("(ctid){rest}")),
            None => out.push_str(&format!("({part}")),
        }
    }
    out
}

fn is_tuple_id(text: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once(',')
        .is_some_and(|(block, item)| number(block) && number(item))
}

fn name(tag: u8) -> String {
    match tag {
        b'1' => "ParseComplete",
        b'2' => "BindComplete",
        b'3' => "CloseComplete",
        b'E' => "ErrorResponse",
        b'G' => "CopyInResponse",
        b'H' => "CopyOutResponse",
        b'I' => "EmptyQueryResponse",
        b'N' => "NoticeResponse",
        b'V' => "FunctionCallResponse",
        b'c' => "CopyDone",
        b'd' => "CopyData",
        b'n' => "NoData",
        b's' => "PortalSuspended",
        other => return format!("{:?}", char::from(other)),
    }
    .to_owned()
}

/// Reads a message body front to back.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn take(&mut self, count: usize) -> Vec<u8> {
        let (head, rest) = self.0.split_at(count);
        self.0 = rest;
        head.to_vec()
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take(2).try_into().unwrap())
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().unwrap())
    }

    fn string(&mut self) -> String {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap();
        let text = self.take(end);
        self.byte();
        String::from_utf8_lossy(&text).into_owned()
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        match self.u32() {
            u32::MAX => None,
            length => Some(self.take(length as usize)),
        }
    }
}
