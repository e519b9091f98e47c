//! Partitions of keys: the partition that the map finds is the one in which PostgreSQL stores the row.

use crate::harness::raw::RawClient;
use crate::harness::{Rng, cluster};
use paceline_cluster::TableName;
use paceline_shards::{
    ColumnFacts, CoordinatorFacts, DatabaseFacts, DefaultFacts, Definition, HASH_PROBE,
    KeyPartFacts, KeyType, KeyValue, PartitionFacts, PartitionKeyFacts, PartitionMap, Reason,
    RootFacts, Route, ShardMap, decode,
};
use std::collections::HashMap;

/// The settings under which values and bounds are read.
const PINNED: &str = "SET DateStyle = ISO; SET TimeZone = 'UTC'";

/// Values of each type for one table by hash.
const HASHED: usize = 1000;

/// Tables with random partitions, and rows for each.
const TABLES: usize = 60;
const ROWS: usize = 60;

fn name_of(key_type: KeyType) -> &'static str {
    match key_type {
        KeyType::Int2 => "int2",
        KeyType::Int4 => "int4",
        KeyType::Int8 => "int8",
        KeyType::Uuid => "uuid",
        KeyType::Bool => "bool",
        KeyType::Date => "date",
        KeyType::Timestamp => "timestamp",
        KeyType::Timestamptz => "timestamptz",
        KeyType::Text => "text",
    }
}

/// The function that writes the binary format.
fn send(key_type: KeyType) -> &'static str {
    match key_type {
        KeyType::Uuid => "uuid_send",
        KeyType::Date => "date_send",
        KeyType::Timestamp => "timestamp_send",
        KeyType::Timestamptz => "timestamptz_send",
        KeyType::Int2 => "int2send",
        KeyType::Int4 => "int4send",
        KeyType::Int8 => "int8send",
        KeyType::Bool => "boolsend",
        KeyType::Text => "textsend",
    }
}

/// A random value as an SQL expression; from a small set if `few`, so that values are equal.
fn value(rng: &mut Rng, key_type: KeyType, few: bool) -> String {
    let edges: &[i64] = match key_type {
        KeyType::Int2 => &[i16::MIN as i64, i16::MAX as i64, -1, 0],
        KeyType::Int4 => &[i32::MIN as i64, i32::MAX as i64, -1, 0],
        KeyType::Int8 => &[
            i64::MIN,
            i64::MAX,
            -1,
            0,
            1 << 32,
            -1 << 32,
            u32::MAX as i64,
        ],
        _ => &[0],
    };
    let number = match (few, key_type) {
        (true, _) => rng.between(-4, 4),
        (false, _) if rng.chance(10) => *rng.pick(edges),
        (false, KeyType::Int2) => rng.next() as i16 as i64,
        (false, KeyType::Int4) => rng.next() as i32 as i64,
        (false, _) => rng.next() as i64 >> rng.below(64),
    };
    let name = name_of(key_type);
    match key_type {
        KeyType::Int2 | KeyType::Int4 | KeyType::Int8 => format!("'{number}'::{name}"),
        KeyType::Bool => format!("{}", number & 1 == 0),
        KeyType::Uuid if few => {
            format!("'00000000-0000-0000-0000-00000000000{}'::uuid", number + 4)
        }
        KeyType::Uuid => format!("'{:016x}{:016x}'::uuid", rng.next(), rng.next()),
        KeyType::Date | KeyType::Timestamp | KeyType::Timestamptz if rng.chance(10) => {
            format!("'{}'::{name}", rng.pick(&["infinity", "-infinity"]))
        }
        KeyType::Date if few => format!("(date '2000-01-01' + {number})"),
        KeyType::Date => format!(
            "(date '2000-01-01' + {})",
            rng.between(-2_451_545, 4_000_000)
        ),
        KeyType::Timestamp | KeyType::Timestamptz if few => {
            format!("({name} '2000-01-01' + {number} * interval '1 hour')")
        }
        KeyType::Timestamp | KeyType::Timestamptz => {
            let days = rng.between(-2_451_545, 4_000_000);
            let microseconds = rng.between(0, 86_399_999_999);
            format!(
                "({name} '2000-01-01' + {days} * interval '1 day' + {microseconds} * interval '1 microsecond')"
            )
        }
        KeyType::Text if few => format!(
            "'{}'",
            ["", "a", "ä", "NULL", "it''s"][number.unsigned_abs() as usize]
        ),
        KeyType::Text => {
            let letters = [
                "a", "Z", "é", "漢", "😀", "''", "\\", " ", "\n", "0", "(", ",",
            ];
            let text = (0..rng.below(50)).map(|_| *rng.pick(&letters));
            format!("'{}'", text.collect::<String>())
        }
    }
}

/// A table with partitions on the server, and the map of them.
struct Mapped {
    map: PartitionMap,
    types: Vec<KeyType>,
}

impl Mapped {
    /// The map of the partitioned table `h`, whose columns `k0`, `k1`, … have these types.
    fn read(client: &mut RawClient, types: &[KeyType]) -> Self {
        let columns = types
            .iter()
            .enumerate()
            .map(|(number, key_type)| ColumnFacts {
                name: format!("k{number}"),
                number: number as i16 + 1,
                type_oid: key_type.oid(),
                type_modifier: -1,
                default: DefaultFacts::Null,
            });
        let keys = client.ok(
            "SELECT p.partrelid, p.partstrat, (SELECT string_agg(a.attname, ' ' ORDER BY k.place) FROM unnest(p.partattrs::int2[]) WITH ORDINALITY AS k(number, place) \
               JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = k.number) FROM pg_partitioned_table p",
        );
        let keys = keys.rows().into_iter().map(|row| {
            let [Some(table), Some(strategy), Some(parts)] = row.as_slice() else {
                panic!("{row:?}");
            };
            let parts = parts.split(' ').map(|column| KeyPartFacts {
                column: Some(column.to_owned()),
                default_class: true,
                deterministic: true,
            });
            let key = PartitionKeyFacts {
                strategy: strategy.chars().next().unwrap(),
                parts: parts.collect(),
            };
            (table.parse().unwrap(), key)
        });
        let keys: HashMap<u32, PartitionKeyFacts> = keys.collect();
        let root: u32 = client.value("SELECT 'h'::regclass::oid").parse().unwrap();
        let partitions = client.ok(
            "SELECT t.relid::oid, t.parentrelid::oid, c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_partition_tree('h') t \
             JOIN pg_class c ON c.oid = t.relid WHERE t.level > 0 ORDER BY t.level",
        );
        let partitions = partitions.rows().into_iter().map(|row| {
            let [Some(oid), Some(parent), Some(name), Some(bound)] = row.as_slice() else {
                panic!("{row:?}");
            };
            let oid = oid.parse().unwrap();
            PartitionFacts {
                oid,
                parent: parent.parse().unwrap(),
                name: table_name(name),
                bound: bound.clone(),
                detaching: false,
                unfit: None,
                lines: None,
                key: keys.get(&oid).cloned(),
                foreign: None,
            }
        });
        let root = RootFacts {
            oid: root,
            name: table_name("h"),
            ambiguous: false,
            columns: columns.collect(),
            definition: Definition::default(),
            key: keys[&root].clone(),
            partitions: partitions.collect(),
            truncated: false,
        };
        let facts = CoordinatorFacts {
            database: DatabaseFacts {
                version: 18,
                encoding: "UTF8".to_owned(),
                hashes: client.value(HASH_PROBE),
                ..DatabaseFacts::default()
            },
            roots: vec![root],
            ..CoordinatorFacts::default()
        };
        Self {
            map: PartitionMap::build(facts, Vec::new()),
            types: types.to_vec(),
        }
    }

    /// The partition for these values of the columns, or `none`. All partitions are on the server itself.
    fn partition(&self, values: &[KeyValue<'_>]) -> String {
        let table = self.map.table(None, "h").unwrap();
        let route = table.route(|column| {
            let number: usize = column.name[1..].parse().unwrap();
            Some(values[number].clone())
        });
        match route {
            Route::Coordinator(Reason::LocalLeaf(leaf)) => leaf.name,
            Route::Coordinator(Reason::NoPartition) => "none".to_owned(),
            other => panic!("{other:?}"),
        }
    }

    /// The values of a row: for each column its text and its binary format in hexadecimal digits, or NULL twice.
    fn values<'a>(&self, row: &'a [Option<String>]) -> Vec<KeyValue<'a>> {
        let (pairs, _) = row.as_chunks::<2>();
        let values = self.types.iter().zip(pairs).map(|(key_type, pair)| {
            let [Some(text), Some(binary)] = pair else {
                return KeyValue::Null;
            };
            let value = decode::text(*key_type, text);
            let value = value.unwrap_or_else(|| panic!("{key_type}: {text:?}"));
            let binary = from_hexadecimal(binary);
            assert_eq!(
                decode::binary(*key_type, &binary),
                Some(value.clone()),
                "{text}"
            );
            value
        });
        values.collect()
    }
}

fn table_name(name: &str) -> TableName {
    TableName {
        schema: "public".to_owned(),
        name: name.to_owned(),
    }
}

fn from_hexadecimal(text: &str) -> Vec<u8> {
    let (pairs, _) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.iter().map(byte).collect()
}

/// Both forms of the columns of a row.
fn forms(types: &[KeyType]) -> String {
    let forms = types.iter().enumerate().map(|(number, key_type)| {
        format!(
            "k{number}::text, encode({}(k{number}), 'hex')",
            send(*key_type)
        )
    });
    forms.collect::<Vec<_>>().join(", ")
}

fn definition(types: &[KeyType]) -> String {
    let columns = types.iter().enumerate();
    let columns = columns.map(|(number, key_type)| format!("k{number} {}", name_of(*key_type)));
    columns.collect::<Vec<_>>().join(", ")
}

fn client() -> RawClient {
    let server = cluster::shared();
    let mut client = server.client(&server.database());
    client.ok(PINNED);
    client
}

/// As by `satisfies_hash_partition`, for every type alone, and for keys of several columns with NULLs.
#[test]
fn hashes_are_those_of_postgresql() {
    let mut rng = Rng::new(paceline_testing::seed());
    let mut client = client();
    let mut keys: Vec<Vec<KeyType>> = KeyType::ALL
        .iter()
        .map(|key_type| vec![*key_type])
        .collect();
    keys.extend((0..10).map(|_| {
        let columns = 2 + rng.below(2);
        (0..columns).map(|_| *rng.pick(&KeyType::ALL)).collect()
    }));
    for types in &keys {
        const MODULUS: usize = 37;
        let columns: Vec<String> = (0..types.len())
            .map(|number| format!("k{number}"))
            .collect();
        client.ok(&format!(
            "DROP TABLE IF EXISTS h; CREATE TABLE h ({}) PARTITION BY HASH ({})",
            definition(types),
            columns.join(", ")
        ));
        for remainder in 0..MODULUS {
            client.ok(&format!(
                "CREATE TABLE h_{remainder} PARTITION OF h FOR VALUES WITH (MODULUS {MODULUS}, REMAINDER {remainder})"
            ));
        }
        let mapped = Mapped::read(&mut client, types);
        let rows = (0..HASHED / types.len()).map(|_| {
            let values = types.iter().map(|key_type| match rng.chance(3) {
                true => format!("NULL::{}", name_of(*key_type)),
                false => value(&mut rng, *key_type, false),
            });
            format!("({})", values.collect::<Vec<_>>().join(", "))
        });
        let rows: Vec<String> = rows.collect();
        let answer = client.ok(&format!(
            "SELECT {}, (SELECT 'h_' || r FROM generate_series(0, {MODULUS} - 1) r WHERE satisfies_hash_partition('h'::regclass, {MODULUS}, r, {list})) \
             FROM (VALUES {}) AS v({list})",
            forms(types),
            rows.join(", "),
            list = columns.join(", "),
        ));
        for row in answer.rows() {
            let (expected, forms) = row.split_last().unwrap();
            let found = mapped.partition(&mapped.values(forms));
            assert_eq!(Some(&found), expected.as_ref(), "{types:?}: {forms:?}");
        }
    }
}

/// Partitions by hash, list and range at two levels, with random bounds: each row is where the map finds it.
#[test]
fn rows_are_where_the_map_finds_them() {
    let mut rng = Rng::new(paceline_testing::seed());
    let mut client = client();
    let mut stored = 0;
    for _ in 0..TABLES {
        let types: Vec<KeyType> = (0..3).map(|_| *rng.pick(&KeyType::ALL)).collect();
        client.ok("DROP TABLE IF EXISTS h");
        client.ok(&format!(
            "CREATE TABLE h ({}) PARTITION BY {}",
            definition(&types),
            partition_by(&mut rng, &types)
        ));
        partitions(&mut rng, &mut client, &types, "h", 0);
        let mapped = Mapped::read(&mut client, &types);
        for _ in 0..ROWS {
            let values = types.iter().map(|key_type| match rng.chance(8) {
                true => "NULL".to_owned(),
                false => value(&mut rng, *key_type, true),
            });
            let values = values.collect::<Vec<_>>().join(", ");
            let typed = client.ok(&format!(
                "SELECT {} FROM (VALUES ({values}), ({})) AS v({}) LIMIT 1",
                forms(&types),
                types
                    .iter()
                    .map(|key_type| format!("NULL::{}", name_of(*key_type)))
                    .collect::<Vec<_>>()
                    .join(", "),
                (0..types.len())
                    .map(|number| format!("k{number}"))
                    .collect::<Vec<_>>()
                    .join(", "),
            ));
            let rows = typed.rows();
            let found = mapped.partition(&mapped.values(&rows[0]));
            let answer = client.simple(&format!(
                "INSERT INTO h VALUES ({values}) RETURNING tableoid::regclass::text"
            ));
            let expected = match answer.error() {
                None => answer.value(),
                Some(error) => {
                    assert_eq!(error.sqlstate(), "23514", "{}", error.text());
                    "none".to_owned()
                }
            };
            stored += usize::from(expected != "none");
            assert_eq!(found, expected, "{types:?}: {values}");
        }
    }
    assert!(stored > TABLES * ROWS / 4, "{stored}");
}

/// A random strategy and key.
fn partition_by(rng: &mut Rng, types: &[KeyType]) -> String {
    let all: Vec<usize> = (0..types.len()).collect();
    let ordered: Vec<usize> = all
        .iter()
        .copied()
        .filter(|column| types[*column].is_ordered())
        .collect();
    let (strategy, columns) = match rng.below(3) {
        0 => ("HASH", all),
        1 if !ordered.is_empty() => ("RANGE", ordered),
        _ => ("LIST", vec![rng.below(types.len())]),
    };
    let count = 1 + rng.below(columns.len());
    let list: Vec<String> = columns
        .iter()
        .take(count)
        .map(|column| format!("k{column}"))
        .collect();
    format!("{strategy} ({})", list.join(", "))
}

/// Creates partitions of a table that has none; bounds that PostgreSQL refuses are left out.
fn partitions(rng: &mut Rng, client: &mut RawClient, types: &[KeyType], table: &str, level: usize) {
    let key = client.value(&format!("SELECT pg_get_partkeydef('{table}'::regclass)"));
    let columns: Vec<usize> = key
        .split('k')
        .skip(1)
        .map(|text| {
            let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().unwrap()
        })
        .collect();
    for number in 0..6 {
        let bounds = match key.split(' ').next().unwrap() {
            "HASH" => {
                let modulus = *rng.pick(&[2, 4, 8]);
                format!(
                    "FOR VALUES WITH (MODULUS {modulus}, REMAINDER {})",
                    rng.below(modulus)
                )
            }
            _ if number == 5 => "DEFAULT".to_owned(),
            "LIST" => {
                let values = (0..1 + rng.below(3)).map(|_| match rng.chance(15) {
                    true => "NULL".to_owned(),
                    false => value(rng, types[columns[0]], true),
                });
                format!("FOR VALUES IN ({})", values.collect::<Vec<_>>().join(", "))
            }
            _ => {
                let mut edge = |end: &str| {
                    let mut ended = false;
                    let edges = columns.iter().map(|column| {
                        ended |= rng.chance(15);
                        if ended {
                            end.to_owned()
                        } else {
                            value(rng, types[*column], true)
                        }
                    });
                    edges.collect::<Vec<_>>().join(", ")
                };
                format!(
                    "FOR VALUES FROM ({}) TO ({})",
                    edge("MINVALUE"),
                    edge("MAXVALUE")
                )
            }
        };
        let name = format!("{table}_{number}");
        let below = (level == 0 && rng.chance(30)).then(|| partition_by(rng, types));
        let by = below
            .as_ref()
            .map(|by| format!(" PARTITION BY {by}"))
            .unwrap_or_default();
        let created = client.simple(&format!(
            "CREATE TABLE {name} PARTITION OF {table} {bounds}{by}"
        ));
        if created.error().is_none() && below.is_some() {
            partitions(rng, client, types, &name, level + 1);
        }
    }
}
