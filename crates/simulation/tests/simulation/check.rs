//! Compares a history with the model: lists to which elements are appended, in one order for each list.

use crate::client::{Event, Outcome, Request};
use crate::history::History;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Requests that arrive within this time arrive together.
const MOMENT: Duration = Duration::from_millis(2);

/// Maximum time of a request that waits for no transaction: some groups in front of it. Transactions that are long take 3 seconds.
const WAIT_MAX: Duration = Duration::from_millis(1_500);

pub(crate) fn check(history: &History) -> Result<(), String> {
    let model = Model::of(history)?;
    for event in &history.events {
        model
            .check_answer(event)
            .map_err(|why| format!("{why}: {event:?}"))?;
    }
    model.check_order(history)?;
    check_waits(history)?;
    model.check_events(history)?;
    model.check_jobs(history)
}

/// Whether an element must be in its list at the end of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// It must be there.
    Written,
    /// It must not be there.
    Refused,
    Unknown,
}

struct Model {
    /// The elements of each list, in their order.
    lists: BTreeMap<i32, Vec<u64>>,
    /// Whether transactions must have been committed, by number.
    transactions: BTreeMap<u64, Expected>,
}

impl Model {
    fn of(history: &History) -> Result<Self, String> {
        let mut lists = BTreeMap::new();
        for row in &history.tables[0] {
            let elements = elements(&row[1])?;
            if row[2] != elements.len().to_string() {
                return Err(format!(
                    "list {} has the size {} and the elements {elements:?}",
                    row[0], row[2]
                ));
            }
            lists.insert(row[0].parse().unwrap(), elements);
        }
        let mut transactions = BTreeMap::new();
        for event in &history.events {
            if let Request::End {
                transaction,
                commits,
            } = event.request
            {
                transactions.insert(transaction, expected_of_end(event, commits));
            }
        }
        Ok(Self {
            lists,
            transactions,
        })
    }

    fn list(&self, list: i32) -> &[u64] {
        self.lists.get(&list).map_or(&[], Vec::as_slice)
    }

    fn check_answer(&self, event: &Event) -> Result<(), String> {
        match &event.request {
            Request::Append {
                list,
                element,
                size_max,
            } => self.check_append(event, *list, *element, *size_max),
            Request::Upsert { list, element } => self.check_append(event, *list, *element, None),
            Request::Member {
                transaction,
                list,
                element,
            } => {
                let expected = self.transactions.get(transaction).copied();
                let expected = match event.outcome {
                    Outcome::Failed { .. } => Expected::Refused,
                    // Without its end, the transaction was rolled back.
                    _ => expected.unwrap_or(Expected::Refused),
                };
                self.check_presence(*list, *element, expected)?;
                match rows(event) {
                    Some(rows) => self.check_own_append(rows, *list, *element, expected),
                    None => Ok(()),
                }
            }
            Request::Read { list } => self.check_read(event, *list),
            Request::Insert { .. } | Request::Take | Request::End { .. } | Request::Begin => Ok(()),
        }
    }

    fn check_append(
        &self,
        event: &Event,
        list: i32,
        element: u64,
        size_max: Option<i32>,
    ) -> Result<(), String> {
        let size_max = size_max.map(|max| usize::try_from(max).unwrap());
        match (rows(event), size_max) {
            (Some([]), None) => Err("the list exists".to_owned()),
            (Some([]), Some(max)) => {
                self.check_presence(list, element, Expected::Refused)?;
                match self.list(list).len() >= max {
                    true => Ok(()),
                    false => Err("the list never had so many elements".to_owned()),
                }
            }
            (Some(rows), _) => {
                self.check_own_append(rows, list, element, Expected::Written)?;
                match size_max {
                    Some(max) if elements(&rows[0][0])?.len() > max => {
                        Err("the list had too many elements".to_owned())
                    }
                    _ => Ok(()),
                }
            }
            (None, _) => self.check_presence(list, element, expected(event)),
        }
    }

    /// The answer of an append: the list up to and with the element.
    fn check_own_append(
        &self,
        rows: &[Vec<String>],
        list: i32,
        element: u64,
        expected: Expected,
    ) -> Result<(), String> {
        let [row] = rows else {
            return Err("one row is changed".to_owned());
        };
        let mut answer = elements(&row[0])?;
        if answer.last() != Some(&element) {
            return Err("the answer is that of another request".to_owned());
        }
        let present = self.list(list);
        if expected == Expected::Written {
            self.check_presence(list, element, expected)?;
        } else if !present.contains(&element) {
            // It was undone; the answers of earlier requests of its transaction were, too.
            return Ok(());
        }
        answer.truncate(present.len());
        match present.starts_with(&answer) {
            true => Ok(()),
            false => Err(format!("the list is {present:?} in the end")),
        }
    }

    fn check_presence(&self, list: i32, element: u64, expected: Expected) -> Result<(), String> {
        let times = self
            .list(list)
            .iter()
            .filter(|other| **other == element)
            .count();
        match (times, expected) {
            (0, Expected::Written) => Err("it was acknowledged and is lost".to_owned()),
            (1.., Expected::Refused) => Err("it was refused and is there".to_owned()),
            (2.., _) => Err("it is there twice".to_owned()),
            _ => Ok(()),
        }
    }

    fn check_read(&self, event: &Event, list: i32) -> Result<(), String> {
        let Some(rows) = rows(event) else {
            return Ok(());
        };
        let read = match rows {
            [] => Vec::new(),
            [row] => elements(&row[0])?,
            _ => return Err("a list is there twice".to_owned()),
        };
        match self.list(list).starts_with(&read) {
            true => Ok(()),
            false => Err(format!("the list is {:?} in the end", self.list(list))),
        }
    }

    /// The order of each list is one in which the requests may have been executed.
    fn check_order(&self, history: &History) -> Result<(), String> {
        for (list, elements) in &self.lists {
            self.check_order_of(history, *list, elements)?;
        }
        Ok(())
    }

    fn check_order_of(&self, history: &History, list: i32, elements: &[u64]) -> Result<(), String> {
        let places: BTreeMap<u64, usize> = elements
            .iter()
            .enumerate()
            .map(|(place, element)| (*element, place))
            .collect();
        if places.len() != elements.len() {
            return Err(format!("list {list} has an element twice: {elements:?}"));
        }
        let mut writes = Vec::new();
        let mut reads = Vec::new();
        for event in &history.events {
            match &event.request {
                Request::Append {
                    list: of, element, ..
                }
                | Request::Upsert { list: of, element }
                    if *of == list =>
                {
                    writes.extend(Write::of(event, *element, &places, event.answered));
                }
                Request::Member {
                    transaction,
                    list: of,
                    element,
                } if *of == list => {
                    let end = end_of(history, *transaction);
                    let write = Write::of(event, *element, &places, Duration::ZERO);
                    writes.extend(write.map(|write| Write {
                        acknowledged: end,
                        ..write
                    }));
                }
                Request::Read { list: of } if *of == list => reads.push(event),
                _ => {}
            }
        }
        let known: BTreeSet<u64> = writes.iter().map(|write| write.element).collect();
        if let Some(unknown) = elements.iter().find(|element| !known.contains(element)) {
            return Err(format!("element {unknown} of list {list} is of no client"));
        }
        check_times(&writes)?;
        if !history.has_faults {
            check_arrivals(&writes)?;
        }
        reads
            .iter()
            .try_for_each(|read| check_freshness(read, &writes))
    }

    /// Each event is there as often as its INSERT was executed.
    fn check_events(&self, history: &History) -> Result<(), String> {
        let mut times: BTreeMap<u64, usize> = BTreeMap::new();
        for row in &history.tables[1] {
            for element in elements(&row[0])? {
                *times.entry(element).or_default() += 1;
            }
        }
        for event in &history.events {
            let Request::Insert { element } = event.request else {
                continue;
            };
            let times = times.remove(&element).unwrap_or(0);
            let holds = match expected(event) {
                Expected::Written => times == 1,
                Expected::Refused => times == 0,
                Expected::Unknown => times <= 1,
            };
            if !holds {
                return Err(format!("it is there {times} times: {event:?}"));
            }
        }
        match times.is_empty() {
            true => Ok(()),
            false => Err(format!("rows of no client: {times:?}")),
        }
    }

    /// Each job is taken by one client, or is left; one whose client does not know may be gone.
    fn check_jobs(&self, history: &History) -> Result<(), String> {
        let left: BTreeSet<i32> = history.tables[2]
            .iter()
            .map(|row| row[0].parse().unwrap())
            .collect();
        let mut taken = BTreeSet::new();
        let mut unknown = 0;
        for event in history
            .events
            .iter()
            .filter(|event| event.request == Request::Take)
        {
            match rows(event) {
                Some(rows) => {
                    for row in rows {
                        let job: i32 = row[0].parse().unwrap();
                        if !taken.insert(job) || left.contains(&job) || row[1] != "job" {
                            return Err(format!("a job is taken twice, or is left: {event:?}"));
                        }
                    }
                }
                None => unknown += usize::from(event.outcome == Outcome::Unknown),
            }
        }
        let gone = usize::try_from(history.jobs).unwrap() - left.len() - taken.len();
        match gone <= unknown {
            true => Ok(()),
            false => Err(format!(
                "{gone} jobs are gone, and {unknown} clients do not know what they have taken"
            )),
        }
    }
}

/// The time at which the client of a transaction got the answer to its end.
fn end_of(history: &History, transaction: u64) -> Option<Duration> {
    let is_end = |end: &&Event| matches!(end.request, Request::End { transaction: of, .. } if of == transaction);
    let end = history.events.iter().find(is_end)?;
    (end.outcome != Outcome::Unknown).then_some(end.answered)
}

/// An append that was executed.
struct Write {
    element: u64,
    /// An append in autocommit, which always finds its row: its place in the order is that of its arrival.
    in_line: bool,
    place: usize,
    sent: Duration,
    /// The time at which its client got the answer; `None` without one.
    acknowledged: Option<Duration>,
}

impl Write {
    fn of(
        event: &Event,
        element: u64,
        places: &BTreeMap<u64, usize>,
        end: Duration,
    ) -> Option<Self> {
        Some(Self {
            element,
            in_line: matches!(event.request, Request::Append { size_max: None, .. }),
            place: *places.get(&element)?,
            sent: event.sent,
            acknowledged: (event.outcome != Outcome::Unknown).then_some(end),
        })
    }
}

/// If a write was acknowledged before another one was sent, it is before it.
fn check_times(writes: &[Write]) -> Result<(), String> {
    for early in writes {
        for late in writes {
            let is_before = early.acknowledged.is_some_and(|at| at < late.sent);
            if is_before && early.place > late.place {
                let (early, late) = (early.element, late.element);
                return Err(format!(
                    "element {early} was acknowledged before {late} was sent, and is behind it"
                ));
            }
        }
    }
    Ok(())
}

/// Requests that wait for the same row are executed in order of their arrival. Those that arrive at the same moment have no order.
fn check_arrivals(writes: &[Write]) -> Result<(), String> {
    let writes: Vec<&Write> = writes.iter().filter(|write| write.in_line).collect();
    for early in &writes {
        for late in &writes {
            if early.sent + MOMENT < late.sent && early.place > late.place {
                let (early, late) = (early.element, late.element);
                return Err(format!(
                    "element {early} arrived before {late}, and is behind it"
                ));
            }
        }
    }
    Ok(())
}

/// A request that needs no row of a transaction in progress does not wait for its end.
fn check_waits(history: &History) -> Result<(), String> {
    if !history.is_roomy {
        return Ok(());
    }
    let held = held(history);
    for event in &history.events {
        let needs = match event.request {
            // The condition is never true: PostgreSQL answers without the lock.
            Request::Append {
                size_max: Some(0), ..
            } => None,
            Request::Append { list, .. } | Request::Upsert { list, .. } => Some(list),
            Request::Insert { .. } | Request::Read { .. } | Request::Take => None,
            Request::Member { .. } | Request::End { .. } | Request::Begin => continue,
        };
        let overlaps = |(list, from, to): &(i32, Duration, Duration)| {
            needs == Some(*list) && *from <= event.answered && event.sent <= *to
        };
        if event.answered - event.sent > WAIT_MAX && !held.iter().any(overlaps) {
            return Err(format!(
                "it waits although nothing is in its way: {event:?}"
            ));
        }
    }
    Ok(())
}

/// The lists that transactions have locked, and when.
fn held(history: &History) -> Vec<(i32, Duration, Duration)> {
    let mut held = Vec::new();
    for event in &history.events {
        if let Request::Member {
            transaction, list, ..
        } = event.request
        {
            let end = end_of(history, transaction).unwrap_or(Duration::MAX);
            held.push((list, event.sent, end));
        }
    }
    held
}

/// A read returns what was acknowledged before it was sent, and nothing that was sent after its answer.
fn check_freshness(read: &Event, writes: &[Write]) -> Result<(), String> {
    let Some(rows) = rows(read) else {
        return Ok(());
    };
    let len = match rows.first() {
        Some(row) => elements(&row[0])?.len(),
        None => 0,
    };
    for write in writes {
        let is_old = write.acknowledged.is_some_and(|at| at < read.sent);
        if is_old && write.place >= len {
            return Err(format!(
                "element {} was acknowledged before: {read:?}",
                write.element
            ));
        }
        if write.sent > read.answered && write.place < len {
            return Err(format!(
                "element {} was sent after it: {read:?}",
                write.element
            ));
        }
    }
    Ok(())
}

fn rows(event: &Event) -> Option<&[Vec<String>]> {
    match &event.outcome {
        Outcome::Done { rows, .. } => Some(rows),
        _ => None,
    }
}

fn expected(event: &Event) -> Expected {
    match event.outcome {
        Outcome::Done { .. } => Expected::Written,
        Outcome::Failed { .. } => Expected::Refused,
        Outcome::Unknown => Expected::Unknown,
    }
}

fn expected_of_end(event: &Event, commits: bool) -> Expected {
    match commits {
        true => expected(event),
        false => Expected::Refused,
    }
}

/// The elements of a list, which is written as `,1,2,3`.
fn elements(list: &str) -> Result<Vec<u64>, String> {
    let items = list.split(',').skip(1);
    let items = items.map(|item| item.parse().map_err(|_| format!("the list {list:?}")));
    items.collect()
}
