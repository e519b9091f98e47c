//! Checks of several keys: whether the listening addresses are safe with the kind of login, and whether clients, and the monitor
//! of several hosts, can log in.

use super::config::{ANY_DATABASE, Config, Database};
use super::error::{ConfigError, ConfigProblem, Problem};
use super::settings::AuthType;
use std::net::SocketAddr;

impl Config {
    /// Rejects a configuration that lets any client of another machine log in, or no client at all, or that names no user for the
    /// monitor of several hosts. `place` names it in messages.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`], with what to do instead.
    pub fn check_access(&self, place: &str) -> Result<(), ConfigError> {
        refuse(place, self.misfit())
    }

    /// Rejects an address that other machines can reach if the login requires no password or certificate.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`], as [`Config::check_access`].
    pub fn check_address(&self, place: &str, listen: SocketAddr) -> Result<(), ConfigError> {
        refuse(place, self.opened_to_all(listen))
    }

    fn opened_to_all(&self, listen: SocketAddr) -> Option<ConfigProblem> {
        let login = &self.paceline.login;
        let unproved = matches!(login.auth_type, AuthType::Trust | AuthType::Any);
        let remote = !listen.ip().to_canonical().is_loopback();
        (unproved && remote && !login.auth_trust_remote).then(|| ConfigProblem::OpenToAll {
            listen,
            auth_type: login.auth_type.name(),
        })
    }

    fn misfit(&self) -> Option<ConfigProblem> {
        self.opened_to_all(self.paceline.listening.listen)
            .or_else(|| self.closed_to_all())
            .or_else(|| self.asks_the_console())
            .or_else(|| self.without_monitor_user())
            .or_else(|| self.with_two_monitor_passwords())
            .or_else(|| self.without_shards_user())
            .or_else(|| self.with_other_zones())
            .or_else(|| self.with_other_subscribers())
    }

    /// The console has no users to look up.
    fn asks_the_console(&self) -> Option<ConfigProblem> {
        let special = self.databases.values();
        let special = special.filter_map(|database| database.login.auth_dbname.as_ref());
        let mut all = special.chain([&self.paceline.login.auth_dbname]);
        let name = all.find(|name| self.is_console(name))?;
        Some(ConfigProblem::ConsoleAsked(name.clone()))
    }

    fn closed_to_all(&self) -> Option<ConfigProblem> {
        let login = &self.paceline.login;
        let auth_type = login.auth_type.name();
        match login.auth_type {
            AuthType::Any => self.without_user().map(ConfigProblem::NoForcedUser),
            AuthType::Hba if login.auth_hba_file.is_none() => Some(ConfigProblem::NoHbaFile),
            AuthType::Md5 | AuthType::ScramSha256 | AuthType::Plain if !self.knows_users() => {
                Some(ConfigProblem::NoUsers(auth_type))
            }
            _ => None,
        }
    }

    /// A database without a configured user; the embedded PostgreSQL has none for any database.
    fn without_user(&self) -> Option<String> {
        let mut databases = self.databases.iter();
        let without = databases.find(|(_, database)| database.primary.user.is_none());
        let embedded = || self.databases.is_empty().then_some(ANY_DATABASE);
        without
            .map(|(name, _)| name.as_str())
            .or_else(embedded)
            .map(str::to_owned)
    }

    /// Whether Paceline can look up users anywhere.
    fn knows_users(&self) -> bool {
        let login = &self.paceline.login;
        let asks = |database: &Database| {
            let auth_user = database.login.auth_user.as_ref();
            auth_user.is_some_and(|user| !user.is_empty())
        };
        login.auth_file.is_some()
            || !login.auth_user.is_empty()
            || self.databases.values().any(asks)
    }
}

fn refuse(place: &str, problem: Option<ConfigProblem>) -> Result<(), ConfigError> {
    match problem {
        None => Ok(()),
        Some(problem) => Err(ConfigError::one(Problem::at(place.to_owned(), problem))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: &str = "[databases.app]\nprimary = \"postgres://app@h/app\"\n";

    fn misfit(text: &str, databases: &str) -> Option<String> {
        let text = format!("[paceline]\n{text}\n{databases}");
        let config = Config::from_toml(&text, "test").unwrap_or_else(|error| panic!("{error}"));
        config
            .check_access("test")
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn without_a_proof_only_loopback_is_listened_on() {
        for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
            for auth_type in ["trust", "any"] {
                let text = format!("listen = \"{address}\"\nauth_type = \"{auth_type}\"");
                let error = misfit(&text, DATABASE).unwrap();
                let what = format!("refusing to listen on {address}: client login is {auth_type}");
                assert!(
                    error.contains(&what) && error.contains("scram-sha-256"),
                    "{error}"
                );
                let wanted = format!("{text}\nauth_trust_remote = true");
                assert_eq!(misfit(&wanted, DATABASE), None);
            }
            let text = format!(
                "listen = \"{address}\"\nauth_type = \"scram-sha-256\"\nauth_file = \"/u\""
            );
            assert_eq!(misfit(&text, DATABASE), None);
            let text =
                format!("listen = \"{address}\"\nauth_type = \"hba\"\nauth_hba_file = \"/h\"");
            assert_eq!(misfit(&text, DATABASE), None);
        }
        for address in ["127.0.0.2:0", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(misfit(&format!("listen = \"{address}\""), DATABASE), None);
        }
    }

    #[test]
    fn the_console_is_not_asked_for_users() {
        for database in [
            "auth_dbname = \"pgbouncer\"".to_owned() + "\n" + DATABASE,
            DATABASE.to_owned() + "auth_dbname = \"pgbouncer\"\n",
        ] {
            let error = misfit(&database, "").unwrap();
            let what = "cannot use the reserved \"pgbouncer\" database as an auth_dbname";
            assert!(error.contains(what), "{error}");
        }
        assert_eq!(misfit("auth_dbname = \"app\"", DATABASE), None);
    }

    /// Also one that systemd has opened.
    #[test]
    fn an_address_is_good_if_a_proof_is_asked_for_there() {
        let may = |text: &str, address: &str| {
            let config = Config::from_toml(&format!("[paceline]\n{text}"), "test").unwrap();
            let address = address.parse().unwrap();
            config.check_address("a socket of systemd", address).is_ok()
        };
        assert!(!may("", "0.0.0.0:1") && may("", "127.0.0.1:1"));
        assert!(may("auth_trust_remote = true", "0.0.0.0:1"));
        assert!(may("auth_type = \"cert\"", "0.0.0.0:1"));
    }

    #[test]
    fn a_login_that_no_client_could_pass_is_refused() {
        for (text, what) in [
            ("auth_type = \"md5\"", "set auth_file or auth_user"),
            (
                "auth_type = \"scram-sha-256\"",
                "set auth_file or auth_user",
            ),
            ("auth_type = \"plain\"", "set auth_file or auth_user"),
            ("auth_type = \"hba\"", "set auth_hba_file"),
        ] {
            let error = misfit(text, DATABASE).unwrap();
            assert!(error.contains(what), "{error}");
        }
        let asked = format!("{DATABASE}auth_user = \"asker\"");
        assert_eq!(misfit("auth_type = \"md5\"", &asked), None);
        let no_user = format!("{DATABASE}auth_user = \"\"");
        assert!(misfit("auth_type = \"md5\"", &no_user).is_some());
        assert_eq!(
            misfit("auth_type = \"md5\"\nauth_user = \"a\"", DATABASE),
            None
        );
    }

    #[test]
    fn any_needs_a_user_for_every_database() {
        assert_eq!(misfit("auth_type = \"any\"", DATABASE), None);
        for databases in ["", "[databases.\"*\"]\nprimary = \"postgres://h\""] {
            let error = misfit("auth_type = \"any\"", databases).unwrap();
            assert!(error.contains("database * names no other"), "{error}");
        }
    }
}
