//! The environment of most tests: a fresh database, and Paceline in front of its server. Also the one place that knows which target is
//! being tested.

use std::sync::Arc;

use super::cluster::{self, Cluster};
use super::http;
use super::message;
use super::open_metrics::Scrape;
use super::paceline::{Builder, Paceline};
use super::raw::RawClient;
use super::wait::until;

/// The place of the column `reason` in `SHOW GROUPS`.
pub(crate) const REASON: usize = 11;

/// The server to which the clients of a test connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Bare,
    Paceline,
}

impl Target {
    /// Paceline, unless `PACELINE_E2E_TARGET=bare` asks for a test of the tests.
    pub(crate) fn chosen() -> Self {
        match std::env::var("PACELINE_E2E_TARGET").as_deref() {
            Ok("bare") => Self::Bare,
            _ => Self::Paceline,
        }
    }
}

/// A database with Paceline in front of it. With `PACELINE_E2E_LINK` in the environment, a second Paceline is beside the server, and the
/// connections between both are compressed.
pub(crate) struct Stage {
    pub(crate) database: String,
    pub(crate) cluster: Arc<Cluster>,
    paceline: Option<Paceline>,
    _far: Option<Paceline>,
}

/// The settings of a stage that is not open yet.
pub(crate) struct StageBuilder {
    cluster: Arc<Cluster>,
    settings: Vec<String>,
    declared: String,
}

/// The counters that Paceline shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counters {
    pub(crate) groups: i64,
    pub(crate) members: i64,
    pub(crate) largest_group: i64,
    pub(crate) fallbacks: i64,
    pub(crate) would_have_grouped: i64,
    pub(crate) waiting: i64,
}

impl Stage {
    /// On the shared server.
    pub(crate) fn on_shared() -> StageBuilder {
        Self::on(cluster::shared())
    }

    /// On a given server.
    pub(crate) fn on(cluster: Arc<Cluster>) -> StageBuilder {
        StageBuilder {
            cluster,
            settings: Vec::new(),
            declared: String::new(),
        }
    }

    /// One server connection, and groups also without hints, as forced groups need.
    pub(crate) fn for_groups() -> Stage {
        Self::for_groups_on(cluster::shared())
    }

    /// [`Self::for_groups`] on a given server.
    pub(crate) fn for_groups_on(cluster: Arc<Cluster>) -> Stage {
        Self::on(cluster)
            .set("default_pool_size=1")
            .set("hotspot_for_autocommit=true")
            .open()
    }

    pub(crate) fn target(&self) -> Target {
        match self.paceline {
            Some(_) => Target::Paceline,
            None => Target::Bare,
        }
    }

    /// Paceline itself; `None` when PostgreSQL is the target.
    pub(crate) fn paceline(&mut self) -> Option<&mut Paceline> {
        self.paceline.as_mut()
    }

    /// The number of times that a client has kept a server connection for its state, if `metrics_listen` is set. `None` when PostgreSQL is
    /// the target.
    #[track_caller]
    pub(crate) fn pins(&self) -> Option<u64> {
        let metrics = self.paceline.as_ref()?.metrics();
        let scrape = Scrape::read(&http::get(&metrics, "/metrics").body);
        Some(scrape.sum("paceline_pins_total", &[]) as u64)
    }

    /// Paceline itself, which the test ends; clients connect to its port no more.
    pub(crate) fn take_paceline(&mut self) -> Option<Paceline> {
        self.paceline.take()
    }

    /// Ends all sessions of the database in PostgreSQL except this one; returns when they have ended, so that no request gets a
    /// connection that is about to be lost.
    #[track_caller]
    pub(crate) fn end_other_sessions(direct: &mut RawClient) {
        const OTHERS: &str = "FROM pg_stat_activity WHERE datname = current_database() \
                              AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
        direct.ok(&format!("SELECT pg_terminate_backend(pid) {OTHERS}"));
        until("the other sessions have ended", || {
            direct.number(&format!("SELECT count(*) {OTHERS}")) == 0
        });
    }

    /// The port that clients connect to.
    pub(crate) fn port(&self) -> u16 {
        self.paceline
            .as_ref()
            .map_or(self.cluster.port(), Paceline::port)
    }

    /// The URL for clients.
    pub(crate) fn url(&self) -> String {
        url(self.port(), &self.database)
    }

    /// The URL of PostgreSQL itself.
    pub(crate) fn direct_url(&self) -> String {
        url(self.cluster.port(), &self.database)
    }

    /// A client of the target.
    #[track_caller]
    pub(crate) fn client(&self) -> RawClient {
        self.client_with(&[])
    }

    /// Many clients of the target.
    #[track_caller]
    pub(crate) fn clients(&self, count: usize) -> Vec<RawClient> {
        (0..count).map(|_| self.client()).collect()
    }

    /// A client of the target with more startup parameters.
    #[track_caller]
    pub(crate) fn client_with(&self, more: &[(&str, &str)]) -> RawClient {
        let mut parameters = vec![("user", "postgres"), ("database", self.database.as_str())];
        parameters.extend(more);
        RawClient::connect(self.port(), &parameters)
    }

    /// A client straight to PostgreSQL: the outsider, the oracle, the observer.
    #[track_caller]
    pub(crate) fn direct(&self) -> RawClient {
        self.cluster.client(&self.database)
    }

    /// Paceline's counters, asked for on a connection of its own. All zero when PostgreSQL is the target.
    #[track_caller]
    pub(crate) fn counters(&self) -> Counters {
        match self.target() {
            Target::Bare => Counters::read(|_| 0),
            Target::Paceline => counters(&mut self.client()),
        }
    }

    /// Returns when Paceline has analyzed every statement that it has received.
    #[track_caller]
    pub(crate) fn await_analysis(&self) {
        if self.target() == Target::Bare {
            return;
        }
        let mut client = self.client();
        until("the analysis has ended", || {
            let rows = client.ok("SHOW GROUPS").rows();
            let mut reasons = rows.iter().map(|row| row[REASON].clone());
            !reasons.any(|reason| reason.is_some_and(|why| why.contains("has not been asked")))
        });
    }

    /// Fails the test unless at least `members` requests ran in groups, the largest of at least `largest`.
    #[track_caller]
    pub(crate) fn assert_grouped(&self, members: i64, largest: i64) {
        let counters = self.counters();
        let enough = counters.members >= members && counters.largest_group >= largest;
        if !enough && self.target() == Target::Paceline {
            let groups = self.client().ok("SHOW GROUPS").rows();
            panic!("{counters:?}\n{groups:#?}");
        }
    }
}

impl StageBuilder {
    /// A setting of Paceline, `key=value`.
    pub(crate) fn set(mut self, setting: &str) -> Self {
        self.settings.push(setting.to_owned());
        self
    }

    /// Lists of declared functions, as a configuration file has them.
    pub(crate) fn declare(mut self, lists: &str) -> Self {
        self.declared.push_str(lists);
        self
    }

    #[track_caller]
    pub(crate) fn open(self) -> Stage {
        let far = far(&self.cluster);
        let paceline = match Target::chosen() {
            Target::Bare => None,
            Target::Paceline => {
                let port = far.as_ref().map_or(self.cluster.port(), Paceline::port);
                let upstream = format!("postgres://127.0.0.1:{port}");
                let start = match self.declared.as_str() {
                    "" => Paceline::start(&upstream),
                    declared => Paceline::configured(&format!(
                        "[databases.\"*\"]\nprimary = \"{upstream}\"\n{declared}"
                    )),
                };
                let link = far.as_ref().map(|_| "server_compression=zstd");
                let start = link.into_iter().fold(start, Builder::set);
                let start = self
                    .settings
                    .iter()
                    .map(String::as_str)
                    .fold(start, Builder::set);
                Some(start.spawn())
            }
        };
        Stage {
            database: self.cluster.database(),
            cluster: self.cluster,
            paceline,
            _far: far,
        }
    }
}

/// A Paceline beside the server that gives each of its clients a server connection, and groups nothing: it only compresses.
fn far(cluster: &Cluster) -> Option<Paceline> {
    std::env::var_os("PACELINE_E2E_LINK")?;
    let far = Paceline::start(&format!("postgres://127.0.0.1:{}", cluster.port()))
        .set("client_compression=zstd")
        .set("pool_mode=session")
        .set("default_pool_size=100");
    Some(far.spawn())
}

impl Counters {
    fn read(value: impl Fn(&str) -> i64) -> Self {
        Self {
            groups: value("Group_update_groups"),
            members: value("Group_update_members"),
            largest_group: value("Group_update_largest_group"),
            fallbacks: value("Group_update_fallbacks"),
            would_have_grouped: value("Group_update_would_have_grouped"),
            waiting: value("Group_update_waiting"),
        }
    }
}

/// Paceline's counters, asked for on this connection to it.
#[track_caller]
pub(crate) fn counters(client: &mut RawClient) -> Counters {
    let reply = client.ask(&message::query("SHOW GLOBAL STATUS LIKE 'Group_update%'"));
    let rows = reply.clone().expect_ok("counters").rows();
    Counters::read(|name| {
        let row = rows.iter().find(|row| row[0].as_deref() == Some(name));
        let value = row.and_then(|row| row[1].as_deref()?.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {reply:#?}"))
    })
}

/// The URL for clients of a database on this port.
pub(crate) fn url(port: u16, database: &str) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/{database}")
}
