//! Routes by a map of three partitions.

use super::*;
use bytes::{Bytes, BytesMut};
use paceline_batch::analysis::TemplateAnalysis;
use paceline_cluster::TableName;
use paceline_relay::local_show::{ShowSource, ShowTable};
use paceline_relay::session::{ClientSession, RequestPlan};
use paceline_shards::{
    ColumnFacts, Columns, CoordinatorFacts, DatabaseFacts, DefaultFacts, Definition, Fingerprint,
    ForeignFacts, KeyPartFacts, PartitionFacts, PartitionKeyFacts, PartitionMap, Privileges,
    RoleFacts, RootFacts, ServerFacts, ShardFacts, ShardTableFacts, UniqueKey, own_hashes,
};
use paceline_wire::frontend;
use std::collections::{BTreeMap, HashMap};

const ACCOUNTS: u32 = 20_000;

fn name(schema: &str, name: &str) -> TableName {
    TableName {
        schema: schema.to_owned(),
        name: name.to_owned(),
    }
}

fn column(place: i16, name: &str, type_oid: u32) -> ColumnFacts {
    ColumnFacts {
        name: name.to_owned(),
        number: place,
        type_oid,
        type_modifier: -1,
        default: DefaultFacts::Null,
    }
}

/// `accounts (id bigint, v int)` by list of `id`: 1 on the first shard, 2 and NULL on the second, all others on the coordinator.
fn map() -> PartitionMap {
    let columns = vec![column(1, "id", 20), column(2, "v", 23)];
    let database = DatabaseFacts {
        version: 17,
        encoding: "UTF8".to_owned(),
        hashes: own_hashes(),
        ..DatabaseFacts::default()
    };
    let partition = |number: u32, bound: &str, shard: Option<&str>| PartitionFacts {
        oid: ACCOUNTS + number,
        parent: ACCOUNTS,
        name: name("public", &format!("accounts_{number}")),
        bound: bound.to_owned(),
        detaching: false,
        unfit: None,
        lines: None,
        key: None,
        foreign: shard.map(|server| ForeignFacts {
            server: server.to_owned(),
            is_postgres_fdw: true,
            table: name("s", &format!("a{number}")),
            unfit: None,
        }),
    };
    let root = RootFacts {
        oid: ACCOUNTS,
        name: name("public", "accounts"),
        ambiguous: false,
        columns: columns.clone(),
        definition: Definition::default(),
        key: PartitionKeyFacts {
            strategy: 'l',
            parts: vec![KeyPartFacts {
                column: Some("id".to_owned()),
                default_class: true,
                deterministic: true,
            }],
        },
        partitions: vec![
            partition(1, "FOR VALUES IN ('1')", Some("one")),
            partition(2, "FOR VALUES IN ('2', NULL)", Some("two")),
            partition(3, "DEFAULT", None),
        ],
        truncated: false,
    };
    let all = Privileges {
        select: Columns::All,
        insert: Columns::All,
        update: Columns::All,
        delete: true,
    };
    let logins = ["one", "two"].map(|server| (server.to_owned(), String::new()));
    let role = RoleFacts {
        settings: String::new(),
        privileges: HashMap::from([(ACCOUNTS, all)]),
        logins: BTreeMap::from(logins),
    };
    let coordinator = CoordinatorFacts {
        database: database.clone(),
        problem: None,
        roots: vec![root],
        roles: BTreeMap::from([("app".to_owned(), role)]),
    };
    let server = |server: &str, number: u32| ServerFacts {
        name: server.to_owned(),
        address: "h:1/d".to_owned(),
        found: Ok(ShardFacts {
            database: database.clone(),
            tables: HashMap::from([(
                name("s", &format!("a{number}")),
                ShardTableFacts {
                    oid: 30_000 + number,
                    definition: Definition::default(),
                    columns: columns.clone(),
                    keys: vec![UniqueKey {
                        columns: vec!["id".to_owned()],
                        name: format!("a{number}_pkey"),
                        is_constraint: true,
                    }],
                    fingerprint: Fingerprint {
                        sql: "'x'".to_owned(),
                        value: "x".to_owned(),
                    },
                },
            )]),
        }),
    };
    PartitionMap::build(coordinator, vec![server("one", 1), server("two", 2)])
}

struct NoShow;

impl ShowSource for NoShow {
    fn variables(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn status(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn groups(&self) -> ShowTable {
        ShowTable {
            command: "SHOW",
            columns: Vec::new(),
            rows: Vec::new(),
        }
    }
}

struct Router {
    routes: Routes,
    templates: Templates,
    settings: SettingsInterner,
}

impl Router {
    fn new() -> Self {
        Self::of(map(), "app")
    }

    fn of(map: PartitionMap, role: &str) -> Self {
        Self {
            routes: Routes::new(Arc::new(map), role.to_owned(), None),
            templates: Templates::default(),
            settings: SettingsInterner::default(),
        }
    }

    fn request(&self, bytes: Bytes) -> PlannedRequest {
        let mut session = ClientSession::new(self.settings.none());
        match session.plan(&bytes, &self.templates, &NoShow) {
            RequestPlan::Group(request) => PlannedRequest::from(request),
            other => panic!("{other:?}"),
        }
    }

    fn route_bytes(&self, bytes: Bytes) -> Result<(usize, String), RouteRefusal> {
        let analysis = TemplateAnalysis {
            portable_table: Some(ACCOUNTS),
            ..TemplateAnalysis::refused("")
        };
        let request = self.request(bytes);
        let routed = self
            .routes
            .route(&request, &analysis, &self.templates, &self.settings)?;
        let text = match routed.request.query() {
            Some(query) => query.to_owned(),
            None => routed.request.template.text.clone(),
        };
        Ok((routed.server.0, text))
    }

    /// A simple query.
    fn simple(&self, sql: &str) -> Result<(usize, String), RouteRefusal> {
        let mut out = BytesMut::new();
        frontend::write_query(&mut out, sql);
        self.route_bytes(out.freeze())
    }

    /// A statement with parameters of these declared types (0: none).
    fn bound(
        &self,
        sql: &str,
        types: &[u32],
        values: &[(bool, Option<&[u8]>)],
    ) -> Result<(usize, String), RouteRefusal> {
        let mut out = BytesMut::new();
        frontend::Parse {
            name: b"",
            text: sql.as_bytes(),
            types: &frontend::parameter_types(types),
        }
        .write(&mut out);
        frontend::write_bind(&mut out, b"", values, &[]);
        frontend::write_execute(&mut out);
        frontend::write_sync(&mut out);
        self.route_bytes(out.freeze())
    }
}

#[track_caller]
fn assert_open(found: Result<(usize, String), RouteRefusal>) {
    match found {
        Err(RouteRefusal::Map(why)) => assert!(why.to_string().contains("key column"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_literal_key_finds_its_shard() {
    let router = Router::new();
    let found = router.simple("UPDATE accounts SET v = 'it''s' WHERE id = 2 AND v > 1");
    let text = "UPDATE \"s\".\"a2\" AS \"accounts\" SET v = 'it''s' WHERE id = 2 AND v > 1";
    assert_eq!(found, Ok((1, text.to_owned())));
    let found = router.simple("SELECT 'some literal', v FROM public.accounts a WHERE '1' = a.id");
    let text = "SELECT 'some literal', v FROM \"s\".\"a1\" a WHERE '1' = a.id";
    assert_eq!(found, Ok((0, text.to_owned())));
    for sql in [
        "DELETE FROM accounts WHERE id = 1::int",
        "SELECT 1 FROM accounts WHERE id IN (1)",
    ] {
        assert_eq!(router.simple(sql).map(|(server, _)| server), Ok(0), "{sql}");
    }
}

#[test]
fn values_of_other_types_stay_on_the_coordinator() {
    let router = Router::new();
    for value in [
        "1.0",
        "' 1'",
        "'1'::text",
        "1::numeric",
        "'one'",
        "99999999999999999999",
        "NULL",
        "1 + 0",
    ] {
        let found = router.simple(&format!("SELECT * FROM accounts WHERE id = {value}"));
        match found {
            Err(RouteRefusal::Form(_)) if value.contains('+') || value.contains("::") => {}
            other => assert_open(other),
        }
    }
    assert!(matches!(
        router.simple("SELECT * FROM accounts WHERE id = 3"),
        Err(RouteRefusal::Map(_))
    ));
}

#[test]
fn parameters_are_read_by_their_types() {
    let router = Router::new();
    let sql = "SELECT v FROM accounts WHERE id = $1";
    let server = |types: &[u32], value: (bool, Option<&[u8]>)| {
        router.bound(sql, types, &[value]).map(|(server, _)| server)
    };
    assert_eq!(server(&[], (false, Some(b"1"))), Ok(0));
    assert_eq!(server(&[0], (true, Some(&2_i64.to_be_bytes()))), Ok(1));
    assert_eq!(server(&[23], (true, Some(&2_i32.to_be_bytes()))), Ok(1));
    assert_eq!(server(&[21], (false, Some(b"2"))), Ok(1));
    assert_eq!(
        router
            .bound(sql, &[], &[(false, Some(b"1"))])
            .map(|(_, text)| text),
        Ok("SELECT v FROM \"s\".\"a1\" AS \"accounts\" WHERE id = $1".to_owned())
    );
    for (types, value) in [
        (&[23][..], (true, Some(&2_i64.to_be_bytes()[..]))),
        (&[1700], (false, Some(&b"2"[..]))),
        (&[25], (false, Some(b"2"))),
        (&[], (false, None)),
        (&[], (false, Some(b"x"))),
    ] {
        assert_open(router.bound(sql, types, &[value]));
    }
    // The first place gives the parameter its type.
    let twice = "UPDATE accounts SET v = $1 WHERE id = $1";
    assert_open(router.bound(twice, &[], &[(false, Some(b"1"))]));
    let declared = router.bound(twice, &[20], &[(false, Some(b"1"))]);
    assert_eq!(declared.map(|(server, _)| server), Ok(0));
}

#[test]
fn rows_of_an_insert_must_be_of_one_partition() {
    let router = Router::new();
    let server = |sql: &str| router.simple(sql).map(|(server, _)| server);
    assert_eq!(server("INSERT INTO accounts VALUES (1, 2)"), Ok(0));
    assert_eq!(
        server("INSERT INTO accounts (v, id) VALUES (1, NULL), (2, 2)"),
        Ok(1)
    );
    assert_eq!(
        server("INSERT INTO accounts VALUES (1, 2), (2, 2)"),
        Err(RouteRefusal::SeveralPartitions)
    );
    assert_open(router.simple("INSERT INTO accounts (v) VALUES (1)"));
    assert_open(router.simple("INSERT INTO accounts VALUES (DEFAULT, 1)"));
    let null = router.bound("INSERT INTO accounts VALUES ($1, 1)", &[], &[(false, None)]);
    assert_eq!(null.map(|(server, _)| server), Ok(1));
}

#[test]
fn what_the_map_cannot_promise_stays_on_the_coordinator() {
    let router = Router::new();
    for (sql, why) in [
        (
            "UPDATE accounts SET id = 2 WHERE id = 1",
            RouteRefusal::MovesRow,
        ),
        ("SELECT * FROM other WHERE id = 1", RouteRefusal::NotSharded),
        (
            "SELECT accounts.f FROM accounts WHERE id = 1",
            RouteRefusal::NoColumn("f".to_owned()),
        ),
        (
            "/*+ TARGET_AFFECT_ROW(1) */ UPDATE accounts SET v = 1 WHERE id = 1",
            RouteRefusal::Target,
        ),
    ] {
        assert_eq!(router.simple(sql), Err(why), "{sql}");
    }
    // The coordinator does not have all keys of the shards.
    assert_eq!(
        router.simple("INSERT INTO accounts VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET v = 2"),
        Err(RouteRefusal::NoKey)
    );
    let stranger = Router::of(map(), "stranger");
    assert!(matches!(
        stranger.simple("SELECT * FROM accounts WHERE id = 1"),
        Err(RouteRefusal::Map(_))
    ));
}

#[test]
fn a_new_map_keeps_what_is_the_same() {
    let router = Router::new();
    let templates = &router.templates;
    let table = |routes: &Routes| {
        let map = routes.map();
        let table = map.tables().first().unwrap();
        let leaf = table.leaves().first().unwrap();
        let paceline_shards::Placement::Shard(own) = &leaf.placement else {
            panic!("not on a shard");
        };
        routes.tables.of(table, leaf, own, templates)
    };
    let before = table(&router.routes);
    let next = Routes::new(Arc::new(map()), "app".to_owned(), Some(&router.routes));
    assert!(Arc::ptr_eq(&before, &table(&next)));
}
