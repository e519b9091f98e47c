//! Strategies: how a group becomes a batch of messages on one server connection, and how the answers are dealt
//! back to its members. One file each, with the same three steps: *fits*, *build*, *deal*.
//!
//! (Solo and lease need no batch: see [`crate::ride`].)

mod array;
pub mod chain;
mod course;
pub mod dealing;
pub mod fold;
pub mod pipeline;
pub mod probe;
mod question;
mod row;
pub mod row_lock;
pub mod several;
pub mod share;
pub mod upsert;
mod wary;

use crate::analysis::Shape;
use crate::learned::Learned;
use crate::line::{GroupId, Keys, Strategy};
use crate::sequences::SequenceState;
use crate::server::{Injected, ServerSide};
use crate::tally::Fallback;
use crate::unit::{Form, Unit};
use bytes::{Bytes, BytesMut};
use dealing::DealPlan;
use fold::FoldPlan;
use paceline_wire::backend::{self, Field, Status, tag};
use paceline_wire::frontend::{self, BindNames};
use paceline_wire::{ErrorResponse, Frame, frame};
use several::SeveralPlan;
use share::Underway;
use std::borrow::Cow;
use std::sync::Arc;
use upsert::UpsertPlan;

#[cfg(test)]
mod tests;

/// Most parameters and RETURNING columns of a template that travels: their formats are a bit each in a [`GroupId`].
pub const FORMATS_MAX: usize = 64;

/// How the units of a template travel together in one statement.
#[derive(Debug, Clone)]
pub enum GroupPlan {
    /// Updates of single rows.
    Fold(Arc<FoldPlan>),
    /// Consumers of a queue, and inserts: rows are dealt in order.
    Deal(Arc<DealPlan>),
    /// Inserts with ON CONFLICT.
    Upsert(Arc<UpsertPlan>),
    /// The same of several rows each.
    Several(Arc<SeveralPlan>),
}

impl GroupPlan {
    /// The companions of a unit, and what it waits for while that is in flight, if anything. `None`: this one must run
    /// alone.
    pub fn fits(&self, unit: &Unit) -> Option<(GroupId, Keys)> {
        let on_row = |(group, row)| (group, Keys::One(row));
        match self {
            Self::Fold(plan) => plan.fits(unit).map(on_row),
            Self::Deal(plan) => plan.fits(unit).map(|(group, key)| (group, key.into())),
            Self::Upsert(plan) => plan.fits(unit).map(on_row),
            Self::Several(plan) => plan.fits(unit),
        }
    }

    /// How they travel.
    pub fn strategy(&self) -> Strategy {
        match self {
            Self::Fold(_) => Strategy::Fold,
            Self::Deal(plan) => plan.strategy(),
            Self::Upsert(_) | Self::Several(_) => Strategy::Merge,
        }
    }

    /// Do its units take from a queue? What they wait for meanwhile is not the rows of one another.
    pub fn is_queue(&self) -> bool {
        self.deal().is_some_and(|plan| plan.is_queue())
    }

    fn fold(&self) -> Option<&Arc<FoldPlan>> {
        match self {
            Self::Fold(plan) => Some(plan),
            Self::Deal(_) | Self::Upsert(_) | Self::Several(_) => None,
        }
    }

    fn deal(&self) -> Option<&Arc<DealPlan>> {
        match self {
            Self::Deal(plan) => Some(plan),
            Self::Fold(_) | Self::Upsert(_) | Self::Several(_) => None,
        }
    }

    fn upsert(&self) -> Option<&Arc<UpsertPlan>> {
        match self {
            Self::Upsert(plan) => Some(plan),
            Self::Fold(_) | Self::Deal(_) | Self::Several(_) => None,
        }
    }

    fn several(&self) -> Option<&Arc<SeveralPlan>> {
        match self {
            Self::Several(plan) => Some(plan),
            Self::Fold(_) | Self::Deal(_) | Self::Upsert(_) => None,
        }
    }
}

/// What becomes of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Its answer, complete.
    Answer(Bytes),
    /// It was not served and nothing of it has happened: it goes again, for this reason.
    Again(Again, Fallback),
}

/// How a member goes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Again {
    /// By itself.
    Alone,
    /// With others on its own row.
    Row,
    /// The same, but the lock of the row could not be had.
    Blocked,
    /// As if it had not left.
    Line,
    /// With the first half of its group.
    FirstHalf,
    /// With the second half of its group.
    SecondHalf,
}

/// A member's verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dealt {
    /// Number of the member in its group, from 0.
    pub member: usize,
    /// What becomes of it.
    pub verdict: Verdict,
}

/// A group on its way.
#[derive(Debug)]
pub struct Batch(Kind);

#[derive(Debug)]
enum Kind {
    Pipeline(pipeline::Batch),
    Share(share::Batch),
    Chain(chain::Batch),
    Fold(Box<fold::Batch>),
    Deal(dealing::Batch),
    Upsert(Box<upsert::Batch>),
    Several(several::Batch),
}

impl Kind {
    /// Its members may draw numbers of sequences, by defaults or triggers if not by their texts. (Plain reads reach neither, and
    /// an UPDATE does not fold on a table with triggers.)
    fn may_draw(&self) -> bool {
        match self {
            Self::Pipeline(_) | Self::Share(_) | Self::Fold(_) => false,
            Self::Chain(_) | Self::Deal(_) | Self::Upsert(_) | Self::Several(_) => true,
        }
    }
}

impl Batch {
    /// Writes the messages of a group. Every member has the same [`crate::line::GroupId`], and their settings are in
    /// force on the server. `None`: this group cannot travel together after all.
    pub fn build(
        strategy: Strategy,
        members: &[&Unit],
        chain: &chain::Prelude,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Self> {
        let fits =
            |unit: &&Unit| is_read(unit, server) && (strategy.rewrites() || server.fits(unit));
        if !members.iter().all(fits) {
            return None;
        }
        let before = out.len();
        let kind = Self::write(strategy, members, chain, server, out);
        if kind.is_none() && out.len() > before {
            // What was written is not sent, and the server does not get to know the statements in it.
            out.truncate(before);
            server.retire_all();
        }
        if kind.as_ref().is_some_and(Kind::may_draw) {
            server.sequences = SequenceState::Mixed;
        }
        kind.map(Self)
    }

    fn write(
        strategy: Strategy,
        members: &[&Unit],
        chain: &chain::Prelude,
        server: &mut ServerSide,
        out: &mut BytesMut,
    ) -> Option<Kind> {
        Some(match strategy {
            Strategy::Pipeline => Kind::Pipeline(pipeline::Batch::build(members, server, out)),
            Strategy::Share => Kind::Share(share::Batch::build(members, server, out)?),
            Strategy::Chain => Kind::Chain(chain::Batch::build(members, chain, server, out)?),
            Strategy::Fold => {
                Kind::Fold(Box::new(fold::Batch::build(members, chain, server, out)?))
            }
            Strategy::Take | Strategy::Merge => match members.first()?.plan.as_ref()? {
                GroupPlan::Upsert(_) => {
                    Kind::Upsert(Box::new(upsert::Batch::build(members, server, out)?))
                }
                GroupPlan::Several(_) => {
                    Kind::Several(several::Batch::build(members, server, out)?)
                }
                _ => Kind::Deal(dealing::Batch::build(members, server, out)?),
            },
        })
    }

    /// Takes a message from the server; verdicts that it settles are appended to `dealt`. True: the batch is over.
    pub fn receive(
        &mut self,
        frame: Frame<'_>,
        server: &mut ServerSide,
        dealt: &mut Vec<Dealt>,
    ) -> bool {
        if frame.tag == tag::PARAMETER_STATUS {
            server.note_reported(frame.body());
        }
        match &mut self.0 {
            Kind::Pipeline(batch) => batch.receive(frame, server, dealt),
            Kind::Share(batch) => batch.receive(frame, server, dealt),
            Kind::Chain(batch) => batch.receive(frame, server, dealt),
            Kind::Fold(batch) => batch.receive(frame, server, dealt),
            Kind::Deal(batch) => batch.receive(frame, server, dealt),
            Kind::Upsert(batch) => batch.receive(frame, server, dealt),
            Kind::Several(batch) => batch.receive(frame, server, dealt),
        }
    }

    /// What was learned of the members' templates no longer holds; what holds instead of the first one, if that is known.
    pub fn void(&self) -> Option<Option<Learned>> {
        match &self.0 {
            Kind::Fold(batch) => batch.void(),
            Kind::Deal(batch) => batch.void(),
            Kind::Upsert(batch) => batch.void(),
            Kind::Several(batch) => batch.void(),
            Kind::Chain(batch) => batch.void(),
            Kind::Pipeline(_) | Kind::Share(_) => None,
        }
    }

    /// The batch as a whole was refused by the server.
    pub fn failed(&self) -> bool {
        match &self.0 {
            Kind::Pipeline(_) | Kind::Share(_) => false,
            Kind::Chain(batch) => batch.failed(),
            Kind::Fold(batch) => batch.failed(),
            Kind::Deal(batch) => batch.failed(),
            Kind::Upsert(batch) => batch.failed(),
            Kind::Several(batch) => batch.failed(),
        }
    }

    /// Row versions that the group's one statement has written; 0 where each member's own statement ran.
    pub fn rows_written(&self) -> u64 {
        match &self.0 {
            Kind::Fold(batch) => batch.rows_written(),
            Kind::Deal(batch) => batch.rows_written(),
            Kind::Upsert(batch) => batch.rows_written(),
            Kind::Several(batch) => batch.rows_written(),
            Kind::Pipeline(_) | Kind::Share(_) | Kind::Chain(_) => 0,
        }
    }

    /// Bytes of answers that are kept.
    pub fn kept(&self) -> usize {
        match &self.0 {
            Kind::Pipeline(batch) => batch.kept(),
            Kind::Share(batch) => batch.kept(),
            Kind::Chain(_) | Kind::Fold(_) | Kind::Deal(_) | Kind::Upsert(_) | Kind::Several(_) => {
                0
            }
        }
    }

    /// Members of a pipeline that are not answered yet, if this is one; they may go elsewhere.
    pub fn abandon(&mut self) -> Option<Vec<Dealt>> {
        match &mut self.0 {
            Kind::Pipeline(batch) => Some(batch.abandon()),
            _ => None,
        }
    }

    /// Gives a shared answer up to one member; see [`share::Batch`]. `rest` is what has come and was not received.
    pub fn hand_over(&mut self, rest: &[u8]) -> Option<Underway> {
        match &mut self.0 {
            Kind::Share(batch) => batch.hand_over(rest),
            _ => None,
        }
    }
}

/// Does this server make the same tokens of a member's text as the parser here?
fn is_read(unit: &Unit, server: &ServerSide) -> bool {
    let query = || unit.frames().next().map(|frame| frame.body());
    let text = match unit.form {
        Form::Simple => query().and_then(|body| std::str::from_utf8(body).ok()),
        Form::Extended { .. } => Some(unit.template.text.as_str()),
    };
    text.is_some_and(|text| server.reads(text))
}

/// The same verdict for many.
fn again(
    members: impl IntoIterator<Item = usize>,
    how: Again,
    why: Fallback,
) -> impl Iterator<Item = Dealt> {
    members.into_iter().map(move |member| Dealt {
        member,
        verdict: Verdict::Again(how, why),
    })
}

/// The two halves of a group that failed: each travels again by itself, in order, until who is at fault is alone.
fn halves(members: usize, why: Fallback) -> impl Iterator<Item = Dealt> {
    let middle = members.div_ceil(2);
    let first = again(0..middle, Again::FirstHalf, why);
    first.chain(again(middle..members, Again::SecondHalf, why))
}

/// It is committed, but for which members is not known, as a row came back whose key none has sent. No type that
/// [`row::RowKeys`] takes is known to come to this.
fn nobodys(members: impl Iterator<Item = Form>) -> impl Iterator<Item = Dealt> {
    members.enumerate().map(|(member, form)| {
        let mut out = BytesMut::new();
        write_head(form, &mut out);
        ErrorResponse::error("08007", "a row came back whose key nobody had sent")
            .with_detail("The statement was committed.")
            .write(&mut out);
        write_tail(&mut out);
        Dealt {
            member,
            verdict: Verdict::Answer(out.freeze()),
        }
    })
}

/// Writes `[Parse] Bind [Describe] Execute` of a member. What its client parses with the unit is analysed with the unit; what the
/// client has prepared before has the server's own name.
fn write_member(unit: &Unit, server: &mut ServerSide, injected: &mut Injected, out: &mut BytesMut) {
    match (unit.form, &unit.analysis) {
        (Form::Simple, _) => write_simple_member(unit, server, injected, out),
        (Form::Extended { describe, .. }, None) => {
            write_unnamed(unit.template.text.as_bytes(), &unit.template.types, out);
            server.unnamed = None;
            injected.push_unnamed();
            write_bind(unit, b"", describe, out);
        }
        (Form::Extended { describe, .. }, Some(analysis)) => {
            let statement = (&*unit.template).into();
            let ensured = server.ensure_for(statement, analysis, analysis.since, out);
            injected.push(ensured);
            write_bind(unit, ensured.key.name().as_bytes(), describe, out);
        }
    }
    frontend::write_execute(out);
}

fn write_unnamed(text: &[u8], types: &[u8], out: &mut BytesMut) {
    frontend::Parse {
        name: b"",
        text,
        types,
    }
    .write(out);
}

fn write_bind(unit: &Unit, statement: &[u8], describe: bool, out: &mut BytesMut) {
    let bind = unit.frames().find(|f| f.tag == frontend::tag::BIND);
    let rest = bind
        .and_then(|f| BindNames::read(f.body()).ok())
        .map(|names| names.rest);
    BindNames {
        portal: b"",
        statement,
        rest: rest.unwrap_or_default(),
    }
    .write(out);
    if describe {
        frontend::write_describe_portal(out);
    }
}

/// A simple query as the extended protocol has it: its own text, literals and all, so that it means the same.
fn write_simple_member(
    unit: &Unit,
    server: &mut ServerSide,
    injected: &mut Injected,
    out: &mut BytesMut,
) {
    let query = unit.frames().next().map(|f| f.body()).unwrap_or_default();
    write_unnamed(query.strip_suffix(&[0]).unwrap_or(query), &[0, 0], out);
    server.unnamed = None;
    injected.push_unnamed();
    frontend::write_bind(out, b"", &[], &[]);
    frontend::write_describe_portal(out);
}

/// PostgreSQL says that a plan no longer fits its table: by the SQLSTATE and by the function that raises it, as the message
/// is in the language of `lc_messages`.
pub(crate) fn is_stale_plan(error: &[u8]) -> bool {
    let is = |code, text| backend::error_field(error, code) == Some(text);
    is(b'C', "0A000") && is(b'R', "RevalidateCachedQuery")
}

/// What stands in front of an answer to `form`.
fn write_head(form: Form, out: &mut BytesMut) {
    form.write_parsed(out);
    if let Form::Extended { .. } = form {
        frame::write_empty(out, tag::BIND_COMPLETE);
    }
}

impl Form {
    /// Does an answer to it tell what columns its rows have, or that it has none?
    fn is_described(self, has_columns: bool) -> bool {
        match self {
            Self::Simple => has_columns,
            Self::Extended { describe, .. } => describe,
        }
    }

    /// It was prepared before: the client may know its columns from then.
    fn relies_on_parsed(self) -> bool {
        matches!(self, Self::Extended { parse: false, .. })
    }

    /// The answer to the client's own `Parse`, if it sent one.
    fn write_parsed(self, out: &mut BytesMut) {
        if let Self::Extended { parse: true, .. } = self {
            frame::write_empty(out, tag::PARSE_COMPLETE);
        }
    }
}

/// What ends an answer.
fn write_tail(out: &mut BytesMut) {
    Status::Idle.write(out);
}

/// The answer to `Describe` of a portal with these columns.
fn write_columns(fields: &[Field], formats: &[i16], out: &mut BytesMut) {
    match fields {
        [] => frame::write_empty(out, tag::NO_DATA),
        fields => backend::write_fields(out, fields, formats),
    }
}

/// Bit n - 1: parameter n of those that travel is in binary format; `carried` tells them, and which travel as text. `None`: the
/// unit has another number of parameters, an encoding in which text cannot be taken apart byte by byte, or in binary format
/// what travels as text.
fn parameter_bits(
    unit: &Unit,
    parameters: &[u32],
    carried: impl IntoIterator<Item = (u32, bool)>,
) -> Option<u64> {
    if unit.parameters().len() != parameters.len() || !unit.settings.is_utf8() {
        return None;
    }
    let mut bits = 0;
    for (number, as_text) in carried {
        let (binary, _) = unit.parameter(number)?;
        if binary && as_text {
            return None;
        }
        bits |= u64::from(binary) << (number - 1);
    }
    Some(bits)
}

/// Bit n: the unit wants column n in binary format. `None`: it says so of another number of columns, or its client takes its rows
/// for other columns, of which it was told when it prepared the statement.
fn result_bits(unit: &Unit, fields: &[Field]) -> Option<u64> {
    let told = unit.analysis.as_ref().and_then(|analysis| analysis.shape);
    let columns = fields
        .iter()
        .map(|field| (&*field.name, field.type_oid, field.type_modifier));
    if told.is_some_and(|told| told != Shape::of(columns)) {
        return None;
    }
    let (columns, bit) = (fields.len(), |n: usize, format: i16| {
        u64::from(format == 1) << n
    });
    match unit.result_formats() {
        [] => Some(0),
        [one] => Some((0..columns).map(|n| bit(n, *one)).sum()),
        all if all.len() == columns => Some(all.iter().enumerate().map(|(n, f)| bit(n, *f)).sum()),
        _ => None,
    }
}

/// The format in which the unit wants each column.
fn result_formats(unit: &Unit, columns: usize) -> Vec<i16> {
    match unit.result_formats() {
        [] => vec![0; columns],
        [one] => vec![*one; columns],
        all => all.to_vec(),
    }
}

/// SQLSTATE class 42: syntax error or access rule violation.
fn is_refusal(sqlstate: &str) -> bool {
    sqlstate.starts_with("42")
}

/// A lock was not granted in time. (What 57014 means, a time-out, a cancel request or autovacuum's, no field tells in every
/// language: it is an error like others.)
fn is_lock_timeout(sqlstate: &str) -> bool {
    sqlstate == "55P03"
}

/// Why the members of a group go again that this has undone.
fn why(sqlstate: &str) -> Fallback {
    match sqlstate {
        _ if is_refusal(sqlstate) => Fallback::Refused,
        _ if is_lock_timeout(sqlstate) => Fallback::Timeout,
        _ => Fallback::Error,
    }
}

/// The text of an `ErrorResponse`, header included. Only what Paceline's own statements put into it means the same in every
/// language.
fn message(error: &[u8]) -> Option<Cow<'_, str>> {
    let body = error.get(frame::HEADER_LEN..).unwrap_or_default();
    Some(String::from_utf8_lossy(backend::error_field_bytes(
        body, b'M',
    )?))
}

/// The SQLSTATE of an `ErrorResponse`.
fn sqlstate(body: &[u8]) -> &str {
    backend::error_field(body, b'C').unwrap_or("XX000")
}
