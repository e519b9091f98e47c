//! A request by the extended protocol that executes one statement.

use crate::parsed::ColumnsId;
use crate::request::{Request, RequestForm};
use crate::template::Template;
use paceline_wire::backend::tag as back;
use paceline_wire::frontend::{BindNames, Parse, tag};
use paceline_wire::{Frame, Frames};

/// The messages of a request that executes one statement and may join a group.
pub(crate) struct SingleStatement<'a> {
    pub(crate) parse: Option<Parse<'a>>,
    pub(crate) bind: BindNames<'a>,
    pub(crate) describe: bool,
    row_limit: u32,
}

impl<'a> SingleStatement<'a> {
    /// Reads `[Parse] Bind [Describe portal] Execute Sync` of the unnamed portal.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut frames = Frames::new(bytes).peekable();
        let parse = match frames.next_if(|f| f.tag == tag::PARSE) {
            Some(frame) => Some(Parse::read(frame.body()).ok()?),
            None => None,
        };
        let bind = frames.next_if(|f| f.tag == tag::BIND)?;
        let bind = BindNames::read(bind.body()).ok()?;
        let describe = frames.next_if(|f| f.tag == tag::DESCRIBE);
        if describe.is_some_and(|f| f.body() != b"P\0") {
            return None;
        }
        let execute = frames.next_if(|f| f.tag == tag::EXECUTE)?;
        let limit = execute.body().strip_prefix(b"\0")?;
        let limit = i32::from_be_bytes(limit.try_into().ok()?);
        let whole: usize = Frames::new(bytes).map(|f| f.bytes.len()).sum();
        let ends = frames.next_if(|f| f.tag == tag::SYNC).is_some()
            && frames.next().is_none()
            && whole == bytes.len();
        let row_limit = u32::try_from(limit).ok()?;
        (bind.portal.is_empty() && ends).then_some(Self {
            parse,
            bind,
            describe: describe.is_some(),
            row_limit,
        })
    }

    /// The form of the request. pgjdbc sends a row limit with each `executeUpdate`, which has no effect on a statement that returns no
    /// rows.
    pub(crate) fn form(&self, template: &Template) -> RequestForm {
        RequestForm::Extended {
            parse: self.parse.is_some(),
            describe: self.describe,
            row_limit: match template.returns_no_rows() {
                true => 0,
                false => self.row_limit,
            },
        }
    }
}

/// Whether an answer begins with `ParseComplete`. Messages that the server sends unasked may precede it.
pub(super) fn begins_parsed(answer: &[u8]) -> bool {
    const UNASKED: [u8; 3] = [
        back::NOTICE_RESPONSE,
        back::PARAMETER_STATUS,
        back::NOTIFICATION_RESPONSE,
    ];
    let mut frames = Frames::new(answer).skip_while(|frame| UNASKED.contains(&frame.tag));
    frames
        .next()
        .is_some_and(|frame| frame.tag == back::PARSE_COMPLETE)
}

/// The columns that an answer describes to the client, if the request asks for them.
pub(super) fn described_columns(request: &Request, answer: &[u8]) -> Option<ColumnsId> {
    let RequestForm::Extended { describe: true, .. } = request.form else {
        return None;
    };
    let is_description = |frame: &Frame<'_>| {
        matches!(
            frame.tag,
            back::ROW_DESCRIPTION | back::NO_DATA | back::ERROR_RESPONSE
        )
    };
    let first = Frames::new(answer).find(is_description)?;
    (first.tag != back::ERROR_RESPONSE).then(|| ColumnsId::described(first))
}
