//! Parameters and result columns of a template as PostgreSQL describes them, and the parts of a group's messages that depend on
//! them.

use super::array::{Array, ArrayValue};
use super::member_answer::MemberAnswer;
use super::messages::write_columns;
use crate::line::GroupId;
use crate::strategy::Strategy;
use bytes::BytesMut;
use paceline_relay::parsed::ColumnsId;
use paceline_relay::request::{Request, RequestForm};
use paceline_relay::template::Template;
use paceline_sql::depends_on_parse_time;
use paceline_wire::backend::Field;
use paceline_wire::frontend;
use std::ops::Deref;

/// Maximum number of parameters, and of RETURNING columns, of a template whose requests join groups: a [`GroupId`] has one bit for
/// the format of each.
pub const FORMATS_MAX: usize = 64;

/// OIDs of the types whose texts may mean a time by a word: date, time, timestamp, their versions with time zones, their ranges and
/// multiranges, and arrays of all of these.
const TIME_INPUT_TYPES: [u32; 22] = [
    1082, 1083, 1114, 1115, 1182, 1183, 1184, 1185, 1266, 1270, 3908, 3909, 3910, 3911, 3912, 3913,
    4533, 4534, 4535, 6152, 6153, 6155,
];

/// The names of these types. As functions, they convert texts, too.
const TIME_NAMES: [&str; 11] = [
    "date",
    "datemultirange",
    "daterange",
    "time",
    "timestamp",
    "timestamptz",
    "timetz",
    "tsmultirange",
    "tsrange",
    "tstzmultirange",
    "tstzrange",
];

/// Whether the statement may convert a value of another type, such as text, to one of these types.
fn converts_to_time(template: &Template) -> bool {
    let Some(statement) = &template.statement else {
        return true;
    };
    let mut names = statement.casts_to.iter().chain(&statement.functions);
    names.any(|name| TIME_NAMES.contains(&name.name.as_str()))
}

/// Parameters and RETURNING columns of a template.
#[derive(Debug, Clone)]
pub(super) struct DescribedTemplate {
    /// OIDs of the parameters' types.
    pub(super) parameters: Vec<u32>,
    /// The same in the format of `Parse`.
    types: Vec<u8>,
    /// RETURNING columns.
    pub(super) fields: Vec<Field>,
}

impl DescribedTemplate {
    /// `None` if there are more than [`FORMATS_MAX`] of either.
    pub(super) fn new(parameters: Vec<u32>, fields: Vec<Field>) -> Option<Self> {
        let fits = parameters.len() <= FORMATS_MAX && fields.len() <= FORMATS_MAX;
        fits.then(|| Self {
            types: frontend::parameter_types(&parameters),
            parameters,
            fields,
        })
    }

    /// The group of a request. `carried` are the parameters that the group's statement reads, and whether each is sent as text.
    /// `None` if the request must run alone because of its parameters or its result columns.
    pub(super) fn group_id(
        &self,
        strategy: Strategy,
        template: u64,
        request: &Request,
        carried: impl IntoIterator<Item = (u32, bool)>,
    ) -> Option<GroupId> {
        Some(GroupId {
            strategy,
            template,
            settings: request.settings.id,
            parameter_formats: self.parameter_bits(request, carried)?,
            result_formats: self.result_bits(request)?,
            cohort: 0,
        })
    }

    /// Bit n - 1 is set if parameter n is in binary format. `None` if the request has another number of parameters or values of other
    /// types, if it has an encoding in which text cannot be split byte by byte, or if a parameter that is sent as text is in binary
    /// format.
    fn parameter_bits(
        &self,
        request: &Request,
        carried: impl IntoIterator<Item = (u32, bool)>,
    ) -> Option<u64> {
        if request.parameters().len() != self.parameters.len()
            || !request.settings.is_utf8()
            || !self.has_types_of(request)
        {
            return None;
        }
        let mut bits = 0;
        for (number, as_text) in carried {
            let (binary, value) = request.parameter(number)?;
            if binary && as_text || self.is_moment(request, number, binary, value) {
                return None;
            }
            bits |= u64::from(binary) << (number - 1);
        }
        Some(bits)
    }

    /// Whether a value may mean the time at which PostgreSQL reads it, which the members of a group share (`'now'`).
    fn is_moment(
        &self,
        request: &Request,
        number: u32,
        binary: bool,
        value: Option<&[u8]>,
    ) -> bool {
        let oid = self.parameters.get(number as usize - 1);
        let is_time = oid.is_some_and(|oid| TIME_INPUT_TYPES.contains(oid));
        let may_be_read = match is_time {
            true => !binary,
            false => converts_to_time(&request.template),
        };
        may_be_read && value.is_some_and(depends_on_parse_time)
    }

    /// Whether the client sends values of these types: another definition of a column may have been in force when a server described the
    /// parameters to the client.
    fn has_types_of(&self, request: &Request) -> bool {
        let client_parse = request.client_parse.as_ref();
        let other = client_parse.and_then(|client_parse| client_parse.other_types(&self.types));
        other.is_none()
    }

    /// Bit n is set if the request asks for column n in binary format. `None` if the request expects another number of columns,
    /// or if its client received other columns when it prepared the statement.
    fn result_bits(&self, request: &Request) -> Option<u64> {
        let known = request
            .client_parse
            .as_ref()
            .and_then(|client_parse| client_parse.columns);
        let columns = self.fields.iter();
        let columns = columns.map(|field| (&*field.name, field.type_oid, field.type_modifier));
        if known.is_some_and(|known| known != ColumnsId::of(columns)) {
            return None;
        }
        let bit = |n: usize, format: i16| u64::from(format == 1) << n;
        let columns = self.fields.len();
        match request.result_formats() {
            [] => Some(0),
            [one] => Some((0..columns).map(|n| bit(n, *one)).sum()),
            all if all.len() == columns => {
                Some(all.iter().enumerate().map(|(n, f)| bit(n, *f)).sum())
            }
            _ => None,
        }
    }

    /// The result formats of a group's statement: binary for `injected` columns, which are for Paceline, then those that the
    /// request asks for.
    pub(super) fn result_formats(&self, injected: usize, request: &Request) -> Vec<i16> {
        let mut formats = vec![1; injected];
        match request.result_formats() {
            [] => formats.resize(injected + self.fields.len(), 0),
            [one] => formats.resize(injected + self.fields.len(), *one),
            all => formats.extend_from_slice(all),
        }
        formats
    }

    /// The requests' values of a parameter as an array; `numbers` are the parameters of each request that hold one.
    pub(super) fn array<'a, R: Deref<Target = Request> + 'a>(
        &self,
        numbers: &[u32],
        requests: impl ExactSizeIterator<Item = &'a R>,
    ) -> Option<ArrayValue> {
        let oid = *self.parameters.get(*numbers.first()? as usize - 1)?;
        let len = requests.len() * numbers.len();
        let mut array = None;
        for request in requests {
            for number in numbers {
                let (binary, value) = request.parameter(*number)?;
                array
                    .get_or_insert_with(|| Array::new(binary, oid, len))
                    .push(value);
            }
        }
        Some(array?.finish())
    }

    /// The answer to `Describe` in the formats that this request asks for. All members of a group get the same.
    pub(super) fn columns(&self, first: &Request) -> BytesMut {
        let mut columns = BytesMut::new();
        write_columns(&self.fields, first.result_formats(), &mut columns);
        columns
    }

    /// Begins the answer to a member. `columns` is the result of [`DescribedTemplate::columns`].
    pub(super) fn begin_answer(&self, form: RequestForm, columns: &[u8]) -> MemberAnswer {
        MemberAnswer::begin(form, !self.fields.is_empty(), columns)
    }
}
