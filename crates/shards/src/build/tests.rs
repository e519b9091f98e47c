//! Maps from facts: the partitions of keys, and the reasons why statements run on the coordinator.

use super::*;
use crate::access::{Access, Columns, Command, Privileges};
use crate::facts::{
    DatabaseFacts, DefaultFacts, Definition, ForeignFacts, KeyPartFacts, PartitionFacts,
    PartitionKeyFacts, RoleFacts, ShardFacts, ShardTableFacts,
};
use crate::key::{KeyType, KeyValue};
use crate::map::ShardMap;
use crate::reason::{LeafProblem, Reason, RoleProblem};
use crate::server::ShardServerId;
use crate::table::{ColumnDefault, Fingerprint, Placement, Route, UniqueKey};
use paceline_cluster::{StatementNames, TableName};
use std::collections::HashMap;

fn name(name: &str) -> TableName {
    TableName {
        schema: "public".to_owned(),
        name: name.to_owned(),
    }
}

fn column(name: &str, number: i16, key_type: KeyType) -> ColumnFacts {
    ColumnFacts {
        name: name.to_owned(),
        number,
        type_oid: key_type.oid(),
        type_modifier: -1,
        default: DefaultFacts::Null,
    }
}

fn key(strategy: char, columns: &[&str]) -> PartitionKeyFacts {
    let parts = columns.iter().map(|column| KeyPartFacts {
        column: Some((*column).to_owned()),
        default_class: true,
        deterministic: true,
    });
    PartitionKeyFacts {
        strategy,
        parts: parts.collect(),
    }
}

fn database() -> DatabaseFacts {
    DatabaseFacts {
        version: 18,
        encoding: "UTF8".to_owned(),
        hashes: crate::hash::own_hashes(),
        ..DatabaseFacts::default()
    }
}

fn lines() -> Vec<String> {
    vec!["column id bigint".to_owned(), "column note text".to_owned()]
}

/// Partition number `oid` of the table `parent`, on server `s`.
fn partition(oid: u32, parent: u32, bound: &str) -> PartitionFacts {
    PartitionFacts {
        oid,
        parent,
        name: name(&format!("p{oid}")),
        bound: bound.to_owned(),
        detaching: false,
        unfit: None,
        lines: None,
        key: None,
        foreign: Some(ForeignFacts {
            server: "s".to_owned(),
            is_postgres_fdw: true,
            table: name(&format!("p{oid}")),
            unfit: None,
        }),
    }
}

/// A table by list of `id`, with a partition for 1 and one for 2 that is partitioned by list of `note`.
fn root() -> RootFacts {
    let mut below = partition(3, 1, "FOR VALUES IN ('2')");
    below.foreign = None;
    below.key = Some(key('l', &["note"]));
    RootFacts {
        oid: 1,
        name: name("t"),
        ambiguous: false,
        columns: vec![
            column("note", 1, KeyType::Text),
            column("id", 3, KeyType::Int8),
        ],
        definition: Definition::new(None, lines()),
        key: key('l', &["id"]),
        partitions: vec![
            partition(2, 1, "FOR VALUES IN ('1')"),
            below,
            partition(4, 3, "FOR VALUES IN ('a', NULL)"),
            partition(5, 3, "DEFAULT"),
        ],
        truncated: false,
    }
}

fn shard_table(oid: u32) -> ShardTableFacts {
    ShardTableFacts {
        oid,
        definition: Definition::new(None, lines()),
        columns: vec![
            column("note", 2, KeyType::Text),
            column("id", 4, KeyType::Int8),
        ],
        keys: vec![UniqueKey {
            columns: vec!["id".to_owned(), "note".to_owned()],
            name: format!("p{oid}_pkey"),
            is_constraint: true,
        }],
        fingerprint: Fingerprint {
            sql: "f".to_owned(),
            value: oid.to_string(),
        },
    }
}

fn shard() -> ShardFacts {
    let tables = [2, 4, 5].map(|oid| (name(&format!("p{oid}")), shard_table(oid)));
    ShardFacts {
        database: database(),
        tables: tables.into(),
    }
}

fn map_of(root: RootFacts, shard: ShardFacts) -> PartitionMap {
    let role = RoleFacts {
        privileges: HashMap::from([(
            1,
            Privileges {
                select: Columns::All,
                ..Privileges::default()
            },
        )]),
        logins: [("s".to_owned(), String::new())].into(),
        ..RoleFacts::default()
    };
    let coordinator = CoordinatorFacts {
        database: database(),
        problem: None,
        roots: vec![root],
        roles: [("app".to_owned(), role)].into(),
    };
    let server = ServerFacts {
        name: "s".to_owned(),
        address: "h:1/d".to_owned(),
        found: Ok(shard),
    };
    PartitionMap::build(coordinator, vec![server])
}

/// The leaf for this key, or why there is none.
fn route(map: &PartitionMap, id: Option<i64>, note: Option<KeyValue<'static>>) -> String {
    let table = map.table(None, "t").unwrap();
    let route = table.route(|column| match column.name.as_str() {
        "id" => id.map(KeyValue::Int),
        _ => note.clone(),
    });
    match route {
        Route::Shard(leaf) => table.leaf(leaf).unwrap().name.name.clone(),
        Route::Coordinator(reason) => reason.to_string(),
    }
}

#[test]
fn levels_ask_only_for_the_columns_on_the_way() {
    let map = map_of(root(), shard());
    let note = |text: &'static str| Some(KeyValue::Text(text.into()));
    assert_eq!(route(&map, Some(1), None), "p2");
    assert_eq!(route(&map, Some(2), note("a")), "p4");
    assert_eq!(route(&map, Some(2), Some(KeyValue::Null)), "p4");
    assert_eq!(route(&map, Some(2), note("b")), "p5");
    assert_eq!(route(&map, Some(3), None), "no partition has this key");
    let open = "the statement does not fix the key column note";
    assert_eq!(route(&map, Some(2), None), open);
    let open = "the statement does not fix the key column id";
    assert_eq!(route(&map, None, note("a")), open);
    let other = "the value for the key column note is not one of its type";
    assert_eq!(route(&map, Some(2), Some(KeyValue::Int(1))), other);
}

#[test]
fn columns_in_another_order_mean_the_coordinator() {
    let mut other = shard();
    for table in other.tables.values_mut() {
        table.columns.reverse();
    }
    let shown = route(&map_of(root(), other), Some(1), None);
    assert_eq!(
        shown,
        "partition public.p2: the shard has another column in the place of column note"
    );
}

#[test]
fn columns_have_the_numbers_of_both_sides() {
    let map = map_of(root(), shard());
    let table = map.table(Some("public"), "t").unwrap();
    let Placement::Shard(leaf) = &table.leaves()[0].placement else {
        panic!("{:?}", table.leaves());
    };
    assert_eq!(leaf.columns, [(2, 1), (4, 3)]);
    assert_eq!((leaf.server, leaf.oid), (ShardServerId(0), 2));
    assert!(map.table(Some("other"), "t").is_none());
}

#[test]
fn a_name_that_another_schema_has_needs_its_schema() {
    let ambiguous = RootFacts {
        ambiguous: true,
        ..root()
    };
    let map = map_of(ambiguous, shard());
    assert!(map.table(None, "t").is_none());
    assert!(map.table(Some("public"), "t").is_some());
}

#[test]
fn a_unique_key_counts_if_every_leaf_has_it() {
    let map = map_of(root(), shard());
    let table = map.table(None, "t").unwrap();
    let keys = table.unique_keys(&["note", "id"]).unwrap();
    let names: Vec<_> = keys.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(names, ["p2_pkey", "p4_pkey", "p5_pkey"]);
    assert!(table.unique_keys(&["id"]).is_none());
    let mut without = shard();
    without.tables.get_mut(&name("p4")).unwrap().keys.clear();
    let map = map_of(root(), without);
    assert!(
        map.table(None, "t")
            .unwrap()
            .unique_keys(&["id", "note"])
            .is_none()
    );
}

/// The placement of partition 2 if its table on the shard is changed so.
fn changed(change: impl FnOnce(&mut ShardTableFacts)) -> Placement {
    let mut shard = shard();
    change(shard.tables.get_mut(&name("p2")).unwrap());
    let map = map_of(root(), shard);
    map.tables()[0].leaves()[0].placement.clone()
}

#[test]
fn every_difference_means_the_coordinator() {
    let unfit = |placement| match placement {
        Placement::Unfit(problem) => problem,
        other => panic!("{other:?}"),
    };
    let line = || "column note text not null".to_owned();
    let more = unfit(changed(|table| table.definition.lines.push(line())));
    assert_eq!(more, LeafProblem::OnlyShard(line()));
    let less = unfit(changed(|table| {
        table.definition.lines.pop();
    }));
    assert_eq!(
        less,
        LeafProblem::OnlyCoordinator("column note text".to_owned())
    );
    let triggers = unfit(changed(|table| {
        table.definition.unfit = Some("x".to_owned())
    }));
    assert!(matches!(triggers, LeafProblem::Unfit { .. }));
    let default = unfit(changed(|table| {
        table.columns[1].default = DefaultFacts::IdentityByDefault
    }));
    assert!(matches!(default, LeafProblem::OtherDefault { .. }));
}

#[test]
fn a_default_of_the_coordinator_alone_is_no_difference() {
    for (default, found) in [
        (DefaultFacts::IdentityByDefault, ColumnDefault::Coordinator),
        (DefaultFacts::IdentityAlways, ColumnDefault::Identity),
        (
            DefaultFacts::Expression {
                text: "nextval('s'::regclass)".to_owned(),
                portable: false,
            },
            ColumnDefault::Coordinator,
        ),
    ] {
        let mut root = root();
        root.columns[1].default = default;
        let map = map_of(root, shard());
        let table = map.table(None, "t").unwrap();
        assert_eq!(table.column("id").unwrap().default, found);
        assert_eq!(route(&map, Some(1), None), "p2");
    }
    let mut root = root();
    root.columns[1].default = DefaultFacts::Expression {
        text: "1".to_owned(),
        portable: true,
    };
    let reason = route(&map_of(root, shard()), Some(1), None);
    assert_eq!(
        reason,
        "partition public.p2: the default of column id is 1, on the shard NULL"
    );
}

#[test]
fn a_partition_that_is_detached_makes_its_level_unknown() {
    let mut root = root();
    root.partitions[3].detaching = true;
    let map = map_of(root, shard());
    assert_eq!(route(&map, Some(1), None), "p2");
    let detaching = "partition public.p5 is being detached";
    assert_eq!(route(&map, Some(2), Some(KeyValue::Null)), detaching);
}

#[test]
fn keys_must_be_stored_and_compared_as_paceline_knows() {
    type Change = fn(&mut RootFacts);
    let changes: [(Change, &str); 6] = [
        (
            |root| root.columns[1].type_modifier = 3,
            "the type of key column id has a precision or length",
        ),
        (
            |root| root.columns[1].type_oid = 1700,
            "the key column id has a type that Paceline does not compare",
        ),
        (
            |root| root.key.parts[0].column = None,
            "the partition key of public.t has an expression",
        ),
        (
            |root| root.key.parts[0].default_class = false,
            "key column id has another operator class than the default",
        ),
        (
            |root| root.key.parts[0].deterministic = false,
            "the collation of key column id is not deterministic",
        ),
        (
            |root| root.partitions[0].bound = "FOR VALUES IN ('x')".to_owned(),
            "the bounds of partition public.p2 cannot be read",
        ),
    ];
    for (change, shown) in changes {
        let mut root = root();
        change(&mut root);
        let map = map_of(root, shard());
        assert_eq!(route(&map, Some(1), None), shown);
        let table = map.table(None, "t").unwrap();
        let problems: Vec<_> = table.key_problems().map(ToString::to_string).collect();
        assert_eq!(problems, [shown]);
    }
}

#[test]
fn servers_must_be_alike() {
    type Change = fn(&mut DatabaseFacts);
    let changes: [(Change, &str); 6] = [
        (
            |facts| facts.version = 17,
            "the server has major version 17, the coordinator 18",
        ),
        (
            |facts| facts.in_recovery = true,
            "the server is in recovery",
        ),
        (
            |facts| facts.encoding = "LATIN1".to_owned(),
            "the encoding of the database is LATIN1, not UTF8",
        ),
        (
            |facts| facts.collation = "C".to_owned(),
            "the default collation of the database is C, on the coordinator ",
        ),
        (
            |facts| facts.hashes = "1".to_owned(),
            "the server computes other hashes than Paceline",
        ),
        (
            |facts| {
                facts
                    .settings
                    .insert("TimeZone".to_owned(), Some("UTC".to_owned()));
            },
            "the setting TimeZone is UTC, on the coordinator not known",
        ),
    ];
    for (change, shown) in changes {
        let mut shard = shard();
        change(&mut shard.database);
        let map = map_of(root(), shard);
        let problem = map.servers()[0].problem.as_ref().unwrap();
        assert_eq!(problem.to_string(), shown);
        assert_eq!(
            route(&map, Some(1), None),
            format!("partition public.p2: shard s: {shown}")
        );
    }
}

#[test]
fn roles_need_privileges_and_a_login() {
    let map = map_of(root(), shard());
    let table = map.table(None, "t").unwrap();
    let access = |command| Access {
        command,
        reads: vec!["id"],
        inserts: Vec::new(),
        updates: Vec::new(),
    };
    let check =
        |role: &str, command| map.check_role(role, table, ShardServerId(0), &access(command));
    assert_eq!(check("app", Command::Select), Ok(()));
    let problem = |checked: Result<(), Reason>| match checked.unwrap_err() {
        Reason::Role(problem) => problem,
        other => panic!("{other:?}"),
    };
    assert!(matches!(
        problem(check("app", Command::Delete)),
        RoleProblem::Privilege { .. }
    ));
    assert!(matches!(
        problem(check("else", Command::Select)),
        RoleProblem::Unknown(_)
    ));
    let mut other = map_of(root(), shard());
    let role = other.roles.get_mut("app").unwrap();
    role.settings = "statement_timeout=1s".to_owned();
    let table = other.table(None, "t").unwrap();
    let checked = other.check_role("app", table, ShardServerId(0), &access(Command::Select));
    assert!(matches!(problem(checked), RoleProblem::Settings { .. }));
    for setting in [
        "client_encoding=latin1",
        "default_transaction_isolation=serializable",
    ] {
        let mut other = map_of(root(), shard());
        let role = other.roles.get_mut("app").unwrap();
        role.settings = setting.to_owned();
        role.logins.insert("s".to_owned(), setting.to_owned());
        let table = other.table(None, "t").unwrap();
        let checked = other.check_role("app", table, ShardServerId(0), &access(Command::Select));
        assert!(matches!(problem(checked), RoleProblem::Setting { .. }));
    }
    let checked = other.check_role("app", table, ShardServerId(7), &access(Command::Select));
    assert!(matches!(problem(checked), RoleProblem::NoLogin { .. }));
}

#[test]
fn names_that_users_have_defined_mean_the_coordinator() {
    let mut shard = shard();
    shard.database.names.functions.insert("lower".to_owned());
    let map = map_of(root(), shard);
    let names = |functions| StatementNames {
        functions,
        ..StatementNames::default()
    };
    assert_eq!(
        map.check_names(ShardServerId(0), &names(vec!["upper"])),
        Ok(())
    );
    let found = map.check_names(ShardServerId(0), &names(vec!["upper", "lower"]));
    assert_eq!(found, Err(Reason::Name("lower".to_owned())));
}
