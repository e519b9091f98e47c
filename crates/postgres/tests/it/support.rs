//! Helpers of the tests: a temporary data folder that the user of the server can reach, and SQL. They panic on any failure.

use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use paceline_postgres::{Options, Server};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// A data folder that is removed on drop.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Self(tempfile::Builder::new().prefix("pg").tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().to_path_buf()
    }

    pub(crate) fn options(&self) -> Options {
        Options::new(self.0.path())
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work)
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Runs statements as the superuser.
pub(crate) fn execute(server: &Server, sql: &str) {
    block_on(async {
        connect(&server.url("postgres"))
            .await
            .batch_execute(sql)
            .await
            .unwrap()
    });
}

/// Returns when this is so; fails after a minute.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not so: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a query and returns its only value as text.
pub(crate) fn ask(server: &Server, sql: &str) -> String {
    block_on(async {
        connect(&server.url("postgres"))
            .await
            .query_one(sql, &[])
            .await
            .unwrap()
            .get(0)
    })
}
