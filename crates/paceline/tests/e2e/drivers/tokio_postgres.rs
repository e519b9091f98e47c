//! tokio-postgres: pipelined queries, portals, COPY, savepoints, cancelling, notifications.

use std::fmt::Debug;
use std::future::poll_fn;
use std::time::SystemTime;

use ::tokio_postgres::{AsyncMessage, Client, Error, NoTls, SimpleQueryMessage};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, pin_mut};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

use super::compare::check;
use crate::harness::wait::ended;

const CLIENTS: usize = 4;
const BIG: usize = 1 << 20;
const SLEEP: &str = "SELECT pg_sleep(600)";

/// The report of a client, line by line.
struct Report(String);

#[test]
fn tokio_postgres() {
    check(1, |url| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(all_clients(url))
    });
}

async fn all_clients(url: &str) -> String {
    let (setup, _) = connect(url).await;
    let shared = "CREATE TABLE shared (id int PRIMARY KEY, hits int NOT NULL); INSERT INTO shared VALUES (1, 0)";
    setup.batch_execute(shared).await.unwrap();
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let url = url.to_owned();
        clients.spawn(async move { client(&url, number).await });
    }
    let mut said = ended("all clients are done", clients).await;
    said.sort();
    said.push(alone(url).await);
    said.concat()
}

/// A client, and the asynchronous messages of the server.
async fn connect(url: &str) -> (Client, UnboundedReceiver<String>) {
    let (client, mut connection) = ::tokio_postgres::connect(url, NoTls).await.unwrap();
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            let text = match message {
                AsyncMessage::Notice(notice) => notice.to_string(),
                AsyncMessage::Notification(heard) => {
                    format!("{}: {}", heard.channel(), heard.payload())
                }
                _ => continue,
            };
            // When the client is gone, the receiver is, too.
            let _ = sender.send(text);
        }
    });
    (client, receiver)
}

async fn client(url: &str, number: usize) -> String {
    let (mut client, mut unasked) = connect(url).await;
    let mut report = Report(String::new());
    report.say("client", number);
    let table = format!("rows{number}");
    let create = format!("CREATE TABLE {table} (id int PRIMARY KEY, note text)");
    client.batch_execute(&create).await.unwrap();
    types(&client, &mut report).await;
    transactions(&mut client, &mut report, &table).await;
    pipelined(&client, &mut report, &table).await;
    copies(&client, &mut report, &table).await;
    session(&client, &mut report, &mut unasked).await;
    for _ in 0..20 {
        let hit = "UPDATE shared SET hits = hits + $1 WHERE id = $2";
        client.execute(hit, &[&1, &1]).await.unwrap();
    }
    report.0
}

impl Report {
    fn say(&mut self, section: &str, value: impl Debug) {
        self.0.push_str(&format!("{section}: {value:?}\n"));
    }

    #[track_caller]
    fn error<T>(&mut self, result: Result<T, Error>) {
        let error = result.err().unwrap();
        let told = error.as_db_error().unwrap();
        self.say("error", (told.code(), told.message(), told.position()));
    }
}

async fn types(client: &Client, report: &mut Report) {
    let text = "Grüße, 世界 'quoted' \\ \n";
    let document = r#"{"a": [1, null, "ü"]}"#;
    let numbers = vec![Some(1_i32), None, Some(3)];
    let row = client
        .query_one(
            "SELECT $1::int8, $2::text, $3::bytea, $4::float8, $5::bool, $6::timestamptz, $7::int4[], $8::text::jsonb::text, $9::int4",
            &[&i64::MIN, &text, &[0_u8, 255].as_slice(), &1.5, &true, &SystemTime::UNIX_EPOCH, &numbers, &document, &None::<i32>],
        )
        .await
        .unwrap();
    report.say(
        "types",
        (
            row.get::<_, i64>(0),
            row.get::<_, String>(1),
            row.get::<_, Vec<u8>>(2),
        ),
    );
    report.say(
        "types",
        (
            row.get::<_, f64>(3),
            row.get::<_, bool>(4),
            row.get::<_, SystemTime>(5),
        ),
    );
    report.say(
        "types",
        (
            row.get::<_, Vec<Option<i32>>>(6),
            row.get::<_, String>(7),
            row.get::<_, Option<i32>>(8),
        ),
    );
    let (text, data) = ("ü".repeat(BIG / 2), vec![7_u8; BIG]);
    let big = client
        .query_one("SELECT $1::text, $2::bytea", &[&text, &data])
        .await
        .unwrap();
    report.say(
        "big",
        (
            big.get::<_, &str>(0) == text,
            big.get::<_, &[u8]>(1) == data,
        ),
    );
}

async fn transactions(client: &mut Client, report: &mut Report, table: &str) {
    let insert = format!("INSERT INTO {table} VALUES ($1, $2)");
    let transaction = client.transaction().await.unwrap();
    transaction
        .execute(&insert, &[&1, &"undone"])
        .await
        .unwrap();
    report.error(transaction.execute("SELECT 1 / $1::int", &[&0]).await);
    report.error(transaction.execute("SELECT 1", &[]).await);
    transaction.rollback().await.unwrap();
    let mut transaction = client.transaction().await.unwrap();
    transaction.execute(&insert, &[&1, &"kept"]).await.unwrap();
    let savepoint = transaction.savepoint("here").await.unwrap();
    report.error(savepoint.execute(&insert, &[&1, &"twice"]).await);
    savepoint.rollback().await.unwrap();
    let portal = transaction
        .bind("SELECT generate_series(1, 10)", &[])
        .await
        .unwrap();
    for rows_max in [3, 3, 0] {
        let rows = transaction.query_portal(&portal, rows_max).await.unwrap();
        report.say(
            "portal",
            rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>(),
        );
    }
    transaction.commit().await.unwrap();
}

/// Twenty queries under way at once on one connection, one of which fails.
async fn pipelined(client: &Client, report: &mut Report, table: &str) {
    let statement = format!("SELECT 10 / ($1::int - 7) + count(*) FROM {table}");
    let statement = client.prepare(&statement).await.unwrap();
    report.say("prepared", (statement.params(), statement.columns()));
    let asked = (0..20).map(|number| {
        let statement = &statement;
        async move { client.query_one(statement, &[&number]).await }
    });
    for answer in futures_util::future::join_all(asked).await {
        match answer {
            Ok(row) => report.say("pipelined", row.get::<_, i64>(0)),
            error => report.error(error),
        }
    }
}

async fn copies(client: &Client, report: &mut Report, table: &str) {
    let sink = client
        .copy_in(&format!("COPY {table} FROM STDIN"))
        .await
        .unwrap();
    pin_mut!(sink);
    for number in 1000..4000 {
        sink.send(Bytes::from(format!("{number}\tü\n")))
            .await
            .unwrap();
    }
    report.say("copied", sink.finish().await.unwrap());
    let out = client
        .copy_out(&format!(
            "COPY (SELECT * FROM {table} ORDER BY id) TO STDOUT"
        ))
        .await
        .unwrap();
    let blocks: Vec<Bytes> = out.map(Result::unwrap).collect().await;
    report.say("copy", blocks.concat());
    let sink = client
        .copy_in::<_, Bytes>(&format!("COPY {table} FROM STDIN"))
        .await
        .unwrap();
    pin_mut!(sink);
    sink.send(Bytes::from_static(b"not a number\tx\n"))
        .await
        .unwrap();
    report.error(sink.finish().await);
}

async fn session(client: &Client, report: &mut Report, unasked: &mut UnboundedReceiver<String>) {
    let raise = "DO $$ BEGIN RAISE NOTICE 'heard'; RAISE WARNING 'twice'; END $$";
    client.batch_execute(raise).await.unwrap();
    report.say("notice", (unasked.recv().await, unasked.recv().await));
    client
        .batch_execute("SET TimeZone = 'Asia/Tokyo'")
        .await
        .unwrap();
    let zone = client.query_one("SHOW TimeZone", &[]).await.unwrap();
    report.say("setting", zone.get::<_, String>(0));
    client.batch_execute("RESET TimeZone").await.unwrap();
    report.say("empty", client.execute("", &[]).await.unwrap());
    for message in client
        .simple_query("SELECT 1, NULL; ; SELECT 'two' WHERE false")
        .await
        .unwrap()
    {
        match message {
            SimpleQueryMessage::Row(row) => report.say("several", (row.get(0), row.get(1))),
            SimpleQueryMessage::CommandComplete(rows) => report.say("several", rows),
            _ => {}
        }
    }
    report.error(client.simple_query("SELECT 1; SELECT 1 / 0").await);
}

async fn alone(url: &str) -> String {
    let mut report = Report("alone:\n".to_owned());
    let ((client, mut unasked), (observer, _)) = (connect(url).await, connect(url).await);
    let token = client.cancel_token();
    let sleeping = client.batch_execute(SLEEP);
    let cancelling = async {
        while !is_sleeping(&observer).await {}
        token.cancel_query(NoTls).await.unwrap();
    };
    report.error(tokio::join!(sleeping, cancelling).0);
    client.batch_execute("LISTEN news").await.unwrap();
    observer
        .batch_execute("NOTIFY news, 'hello'")
        .await
        .unwrap();
    report.say("heard", unasked.recv().await);
    let sum = observer
        .query_one("SELECT hits FROM shared", &[])
        .await
        .unwrap();
    report.say("sum", sum.get::<_, i32>(0));
    report.0
}

async fn is_sleeping(observer: &Client) -> bool {
    let asks = "SELECT EXISTS (SELECT FROM pg_stat_activity \
        WHERE datname = current_database() AND query = $1 AND state = 'active')";
    observer.query_one(asks, &[&SLEEP]).await.unwrap().get(0)
}
