//! The monitor of a database's hosts: the databases that have one, its login, and its database on the server.

use crate::config::{ANY_DATABASE, Config, Database};
use crate::error::ConfigProblem;
use crate::hosts::ServerHost;
use crate::pool_settings::PoolSettings;
use crate::settings::Shards;
use crate::subscriber::Subscriber;
use crate::upstream::Upstream;

/// The database that a monitor connects to if the entry is for every name.
const MONITOR_DATABASE: &str = "postgres";

impl Database {
    /// Whether Paceline monitors the hosts: if there are several, if there are subscribers, or if Patroni must agree. `settings` are those of the database
    /// ([`Config::database_settings`]).
    #[must_use]
    pub fn is_monitored(&self, settings: &PoolSettings) -> bool {
        !self.hosts.others.is_empty()
            || !self.subscribers.is_empty()
            || !settings.servers.patroni.is_empty()
    }

    /// The server at one of the hosts, with the login of the monitor: that of `monitor_user` if it is set, else that of the URL.
    /// Its database is that of the URL; see [`Config::monitor_database`].
    #[must_use]
    pub fn monitor_upstream(&self, at: &ServerHost, settings: &PoolSettings) -> Upstream {
        self.with_monitor_login(self.upstream_at(at), settings)
    }

    /// The server of a subscriber, with the login and the TLS settings of the URL.
    #[must_use]
    pub fn subscriber_upstream(&self, subscriber: &Subscriber) -> Upstream {
        let upstream = self.upstream_at(&subscriber.at);
        Upstream {
            dbname: subscriber.dbname.clone().or(upstream.dbname),
            ..upstream
        }
    }

    /// The same server with the login of the monitor.
    #[must_use]
    pub fn with_monitor_login(&self, upstream: Upstream, settings: &PoolSettings) -> Upstream {
        let servers = &settings.servers;
        if servers.monitor_user.is_empty() {
            return upstream;
        }
        Upstream {
            user: Some(servers.monitor_user.clone()),
            password: servers.monitor_password_source(),
            ..upstream
        }
    }
}

impl Config {
    /// Whether any database has logical subscribers.
    #[must_use]
    pub fn has_subscribers(&self) -> bool {
        let mut databases = self.databases.values();
        databases.any(|database| !database.subscribers.is_empty())
    }

    /// The database of a subscriber: its own name, or that of the database that the monitor connects to.
    #[must_use]
    pub fn subscriber_database(
        &self,
        entry_name: &str,
        database: &Database,
        subscriber: &Subscriber,
    ) -> String {
        let own = subscriber.dbname.clone();
        own.unwrap_or_else(|| self.monitor_database(entry_name, database))
    }

    /// The database on the server that the monitor connects to: the one of the URL, else the one with the name of the entry. The
    /// entry for every name has none, so the monitor connects to `postgres`.
    #[must_use]
    pub fn monitor_database(&self, entry_name: &str, database: &Database) -> String {
        if entry_name == ANY_DATABASE {
            return MONITOR_DATABASE.to_owned();
        }
        let on_server = database.primary.dbname.as_deref();
        on_server.unwrap_or(entry_name).to_owned()
    }

    /// A monitored database without a user as whom the monitor could log in.
    pub(crate) fn without_monitor_user(&self) -> Option<ConfigProblem> {
        let mut databases = self.databases.iter();
        let without = databases.find(|(_, database)| {
            let settings = self.database_settings(database);
            database.is_monitored(&settings)
                && database.primary.user.is_none()
                && settings.servers.monitor_user.is_empty()
        });
        without.map(|(name, _)| ConfigProblem::NoMonitorUser(name.clone()))
    }

    /// A database with a password of the monitor in the configuration and in a file.
    pub(crate) fn with_two_monitor_passwords(&self) -> Option<ConfigProblem> {
        let mut databases = self.databases.iter();
        let with_two = databases.find(|(_, database)| {
            let servers = &self.database_settings(database).servers;
            servers.monitor_password.is_some() && servers.monitor_password_file.is_some()
        });
        with_two.map(|(name, _)| ConfigProblem::TwoMonitorPasswords(name.clone()))
    }

    /// A database with shards but without a user who could read its catalog.
    pub(crate) fn without_shards_user(&self) -> Option<ConfigProblem> {
        let mut databases = self.databases.iter();
        let without = databases.find(|(_, database)| {
            let settings = self.database_settings(database);
            settings.servers.shards == Shards::Auto
                && database.primary.user.is_none()
                && settings.servers.monitor_user.is_empty()
        });
        without.map(|(name, _)| ConfigProblem::NoShardsUser(name.clone()))
    }

    /// A database whose number of zones is not that of its hosts.
    pub(crate) fn with_other_zones(&self) -> Option<ConfigProblem> {
        self.databases.iter().find_map(|(name, database)| {
            let settings = self.database_settings(database);
            let zones = settings.servers.zones.len();
            let hosts = database.all_hosts().count();
            (hosts > 1 && zones > 0 && zones != hosts).then(|| ConfigProblem::ZonesOfHosts {
                database: name.clone(),
                zones,
                hosts,
            })
        })
    }

    /// A subscriber that cannot be one: of the entry for every name, or also a host of the URL.
    pub(crate) fn with_other_subscribers(&self) -> Option<ConfigProblem> {
        self.databases.iter().find_map(|(name, database)| {
            let subscribers = &database.subscribers;
            if name == ANY_DATABASE && !subscribers.is_empty() {
                return Some(ConfigProblem::SubscribersOfAny);
            }
            let is_host = |at: &ServerHost| database.all_hosts().any(|host| host == *at);
            let host = subscribers.iter().find(|other| is_host(&other.at))?;
            Some(ConfigProblem::SubscriberIsHost {
                database: name.clone(),
                host: host.at.to_string(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::password::PasswordSource;

    fn read(text: &str) -> Config {
        Config::from_toml(text, "test").unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    fn refused(text: &str) -> Option<String> {
        let refused = read(text).check_access("test").err();
        refused.map(|error| error.to_string())
    }

    const SEVERAL: &str = "[databases.app]\nprimary = \"postgres://pg1,pg2\"\n";
    const SINGLE: &str = "[databases.app]\nprimary = \"postgres://pg1\"\n";
    const PATRONI: &str = "patroni = \"http://pg1:8008\"\n";

    #[test]
    fn the_monitor_needs_a_user() {
        for text in [
            SEVERAL.to_owned(),
            format!("{SINGLE}{PATRONI}"),
            format!("[paceline]\n{PATRONI}{SINGLE}"),
        ] {
            let message = refused(&text).unwrap();
            assert!(
                message.starts_with("test: Paceline monitors the hosts of database app, but")
                    && message.contains("set monitor_user"),
                "{message}"
            );
        }
        assert_eq!(refused(SINGLE), None);
        let everywhere = format!("[paceline]\nmonitor_user = \"mon\"\n{SEVERAL}");
        assert_eq!(refused(&everywhere), None);
        assert_eq!(refused(&format!("{SEVERAL}monitor_user = \"mon\"\n")), None);
        assert_eq!(refused(&SEVERAL.replace("pg1,", "app@pg1,")), None);
        let overridden = format!("[paceline]\n{PATRONI}{SINGLE}patroni = \"\"\n");
        assert_eq!(refused(&overridden), None);
    }

    #[test]
    fn the_reader_of_the_map_needs_a_user() {
        let auto = "shards = \"auto\"\n";
        let message = refused(&format!("{SINGLE}{auto}")).unwrap();
        assert!(
            message.starts_with("test: shards is auto for database app, but no user"),
            "{message}"
        );
        let everywhere = format!("[paceline]\n{auto}{SINGLE}");
        assert!(refused(&everywhere).is_some());
        assert_eq!(
            refused(&format!("{SINGLE}{auto}monitor_user = \"mon\"\n")),
            None
        );
        let any = everywhere.replace("app", "\"*\"");
        assert!(refused(&any).is_some());
    }

    #[test]
    fn each_host_has_a_zone_or_none_has() {
        let app = SEVERAL.replace("pg1,", "app@pg1,");
        assert_eq!(refused(&format!("{app}zones = [\"a\", \"b\"]\n")), None);
        let message = refused(&format!("{app}zones = [\"a\"]\n")).unwrap();
        assert_eq!(
            message,
            "test: zones names 1 zones, but the URL of database app names 2 hosts"
        );
    }

    #[test]
    fn a_user_of_its_own_has_a_password_of_its_own() {
        let login = |text: &str| {
            let config = read(text);
            let (_, database) = config.databases.iter().next().unwrap();
            let settings = config.database_settings(database);
            let second = database.all_hosts().nth(1).unwrap();
            let upstream = database.monitor_upstream(&second, &settings);
            assert_eq!((upstream.port, database.is_monitored(&settings)), (2, true));
            let password = upstream
                .password
                .map(|source| source.read_without_command());
            let password = password.map(|secret| secret.unwrap().reveal().to_owned());
            (upstream.user.unwrap(), password.unwrap_or_default())
        };
        let own = |user: &str, password: &str| (user.to_owned(), password.to_owned());
        let url = "[databases.app]\nprimary = \"postgres://app:pw@pg1:1,pg2:2\"\n";
        assert_eq!(login(url), own("app", "pw"));
        let text = format!("{url}monitor_user = \"mon\"\n");
        assert_eq!(login(&text), own("mon", ""));
        let text = format!("{text}monitor_password = \"secret\"\n");
        assert_eq!(login(&text), own("mon", "secret"));
    }

    #[test]
    fn the_password_of_the_monitor_may_be_in_a_file() {
        let text = format!(
            "[paceline]\nmonitor_user = \"mon\"\nmonitor_password_file = \"/p\"\n{SEVERAL}"
        );
        let config = read(&text);
        let database = &config.databases["app"];
        let settings = config.database_settings(database);
        let first = database.all_hosts().next().unwrap();
        let password = database.monitor_upstream(&first, &settings).password;
        assert_eq!(password, Some(PasswordSource::File("/p".into())));
        assert_eq!(refused(&text), None);
        let two = format!("{text}monitor_password = \"x\"\n");
        let message = refused(&two).unwrap();
        assert!(
            message.contains("database app has monitor_password and monitor_password_file"),
            "{message}"
        );
        assert_eq!(
            refused(&format!("{two}monitor_password_file = \"\"\n")),
            None
        );
    }

    #[test]
    fn the_monitor_connects_to_a_database_that_exists() {
        let config = read(
            "[databases.app]\nprimary = \"postgres://db\"\n[databases.shop]\nprimary = \"postgres://db/sales\"\n\
             [databases.\"*\"]\nprimary = \"postgres://db/ignored\"\n",
        );
        let databases = config.databases.iter();
        let names: Vec<_> = databases
            .map(|(name, database)| config.monitor_database(name, database))
            .collect();
        assert_eq!(names, ["postgres", "app", "sales"]);
    }
}
