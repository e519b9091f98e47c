//! The problems that exclude a subscriber from reads, and the statements that it may answer.

use std::collections::{BTreeMap, HashSet};

use super::*;
use crate::position::{Lsn, SystemId};

fn name(name: &str) -> TableName {
    TableName {
        schema: "public".to_owned(),
        name: name.to_owned(),
    }
}

fn table(oid: u32, first: i16) -> TableFacts {
    let column = |(number, definition): (i16, &str)| ColumnFacts {
        number,
        definition: definition.to_owned(),
    };
    let columns = [(first, "id 23 -1"), (first + 1, "n 25 -1 default")];
    TableFacts {
        oid: Some(oid),
        columns: columns.map(column).to_vec(),
        ..TableFacts::default()
    }
}

fn catalog(system: u64, oid: u32) -> CatalogFacts {
    let app = UserFacts {
        may_read: HashSet::from([0, 1]),
        settings: String::new(),
    };
    CatalogFacts {
        system: Some(SystemId(system)),
        version: 15,
        encoding: "UTF8".to_owned(),
        collation: "c C C".to_owned(),
        tables: vec![table(oid, 1), table(oid + 1, 3)],
        users: BTreeMap::from([("app".to_owned(), app)]),
        ..CatalogFacts::default()
    }
}

/// A subscriber that has two tables, `orders` and `items`.
pub(crate) fn report() -> SubscriberReport {
    let state = SubscribedState {
        subscriptions: 1,
        ready: true,
        copied: true,
    };
    let mut primary = catalog(7, 20_000);
    primary.tables[1] = table(20_001, 1);
    SubscriberReport {
        primary,
        slot: Some(SlotFacts {
            active: true,
            fits: true,
            confirmed: Some(Lsn(90)),
        }),
        written: Some(Lsn(100)),
        publications: vec![PublicationFacts {
            all_changes: true,
            whole: HashSet::from([0, 1]),
            partial: HashSet::new(),
        }],
        own: catalog(8, 30_000),
        subscription: Some(SubscriptionFacts {
            enabled: true,
            skips: false,
            tables: vec![state; 2],
        }),
        fingerprint: "f".to_owned(),
        last_ddl: 0,
    }
}

pub(crate) fn tables() -> [TableName; 2] {
    [name("orders"), name("items")]
}

fn check(
    change: impl FnOnce(&mut SubscriberReport),
) -> Result<SubscribedTables, SubscriberProblem> {
    let mut report = report();
    change(&mut report);
    report.check("slot", &tables())
}

fn problem(change: impl FnOnce(&mut SubscriberReport)) -> String {
    check(change).unwrap_err().to_string()
}

#[test]
fn oids_and_numbers_of_columns_lead_to_those_of_the_primary() {
    let found = check(|_| {}).unwrap();
    let [orders, items] = found.tables() else {
        panic!("two tables");
    };
    assert_eq!((orders.own, orders.primary), (30_000, 20_000));
    assert_eq!(items.columns, [(3, 1), (4, 2)]);
}

#[test]
fn each_difference_is_a_reason() {
    type Change = fn(&mut SubscriberReport);
    let changes: [(Change, &str); 27] = [
        (|r| r.own.in_recovery = true, "in recovery"),
        (|r| r.own.version = 16, "major version 16, the primary 15"),
        (
            |r| (r.own.version, r.primary.version) = (14, 14),
            "PostgreSQL 15 or later",
        ),
        (|r| r.own.encoding = "LATIN1".to_owned(), "encoding"),
        (|r| r.own.collation = "c de de".to_owned(), "collation"),
        (|r| r.own.converts = true, "on the subscriber"),
        (|r| r.primary.converts = true, "on the primary"),
        (|r| r.slot = None, "no replication slot slot"),
        (|r| r.subscription = None, "no subscription"),
        (|r| slot(r).fits = false, "pgoutput"),
        (|r| slot(r).active = false, "not active"),
        (|r| slot(r).confirmed = None, "confirmed no position"),
        (|r| subscription(r).enabled = false, "disabled"),
        (|r| subscription(r).skips = true, "skips changes"),
        (|r| r.publications[0].all_changes = false, "truncate"),
        (
            |r| r.publications[0].partial.extend([1]),
            "column list for public.items",
        ),
        (
            |r| r.publications[0].whole.retain(|place| *place != 0),
            "no publication of the subscription has public.orders",
        ),
        (
            |r| state(r).subscriptions = 0,
            "not part of the subscription",
        ),
        (|r| state(r).subscriptions = 2, "several subscriptions"),
        (|r| state(r).ready = false, "has not caught up"),
        (|r| state(r).copied = false, "copy_data"),
        (
            |r| r.own.tables[0].oid = None,
            "does not exist on the subscriber",
        ),
        (
            |r| r.primary.tables[0].oid = None,
            "does not exist on the primary",
        ),
        (
            |r| r.own.tables[0].unfit = Some("row security".to_owned()),
            "public.orders on the subscriber: row security",
        ),
        (
            |r| r.primary.tables[1].columns[1].definition.push('2'),
            "columns of public.items",
        ),
        (
            |r| drop(r.primary.tables[0].columns.pop()),
            "columns of public.orders",
        ),
        (
            |r| r.own.tables[0].columns.reverse(),
            "columns of public.orders",
        ),
    ];
    for (change, expected) in changes {
        let problem = problem(change);
        assert!(problem.contains(expected), "{expected}: {problem}");
    }
}

fn slot(report: &mut SubscriberReport) -> &mut SlotFacts {
    report.slot.as_mut().unwrap()
}

fn subscription(report: &mut SubscriberReport) -> &mut SubscriptionFacts {
    report.subscription.as_mut().unwrap()
}

fn state(report: &mut SubscriberReport) -> &mut SubscribedState {
    &mut subscription(report).tables[0]
}

#[test]
fn a_second_publication_counts_if_it_has_the_table() {
    let without = |r: &mut SubscriberReport| r.publications.push(PublicationFacts::default());
    assert!(check(without).is_ok());
    let partial = |r: &mut SubscriberReport| {
        r.publications.push(PublicationFacts {
            whole: HashSet::from([0]),
            ..PublicationFacts::default()
        });
    };
    assert!(problem(partial).contains("truncate"));
}

fn read<'a>(relations: &[(Option<&'a str>, &'a str)]) -> StatementNames<'a> {
    StatementNames {
        relations: relations.to_vec(),
        ..StatementNames::default()
    }
}

#[test]
fn every_relation_must_be_one_of_the_tables() {
    let found = check(|_| {}).unwrap();
    let may = |relations: &[(Option<&str>, &str)]| found.may_answer("app", &read(relations));
    assert!(may(&[(None, "orders"), (Some("public"), "items")]));
    assert!(!may(&[]), "no table");
    assert!(!may(&[(None, "orders"), (None, "other")]));
    assert!(!may(&[(Some("app"), "orders")]));
}

#[test]
fn a_name_in_two_schemas_needs_its_schema() {
    for side in [0, 1] {
        let found = check(|r| {
            let facts = [&mut r.own, &mut r.primary];
            facts[side].tables[0].ambiguous = true;
        });
        let found = found.unwrap();
        assert!(!found.may_answer("app", &read(&[(None, "orders")])));
        assert!(found.may_answer("app", &read(&[(Some("public"), "orders")])));
    }
}

#[test]
fn a_user_needs_the_privilege_on_the_primary_and_the_same_settings() {
    let orders = read(&[(None, "orders")]);
    let revoked = check(|r| {
        let app = r.primary.users.get_mut("app").unwrap();
        app.may_read.remove(&0);
    });
    let revoked = revoked.unwrap();
    assert!(!revoked.may_answer("app", &orders));
    assert!(revoked.may_answer("app", &read(&[(None, "items")])));
    assert!(!revoked.may_answer("other", &orders));
    let set = check(|r| {
        let app = r.own.users.get_mut("app").unwrap();
        app.settings = "search_path=x".to_owned();
    });
    assert!(!set.unwrap().may_answer("app", &orders));
}

#[test]
fn names_that_users_have_defined_on_either_server_are_not_answered() {
    let orders = || read(&[(None, "orders")]);
    let statements = [
        StatementNames {
            functions: vec!["lower"],
            ..orders()
        },
        StatementNames {
            fields: vec!["lower"],
            ..orders()
        },
        StatementNames {
            operators: vec!["+"],
            ..orders()
        },
        StatementNames {
            types: vec!["date"],
            ..orders()
        },
    ];
    let own = UserDefinedNames {
        functions: HashSet::from(["lower".to_owned()]),
        operators: HashSet::from(["+".to_owned()]),
        types: HashSet::from(["date".to_owned()]),
    };
    let plain = check(|_| {}).unwrap();
    let on_primary = check(|r| r.primary.names = own.clone()).unwrap();
    let on_subscriber = check(|r| r.own.names = own.clone()).unwrap();
    for statement in &statements {
        assert!(plain.may_answer("app", statement));
        assert!(!on_primary.may_answer("app", statement), "{statement:?}");
        assert!(!on_subscriber.may_answer("app", statement), "{statement:?}");
    }
    assert!(on_primary.may_answer("app", &orders()));
}
