//! `[[databases.NAME.shard_servers]]`: addresses of shards and logins there, if Paceline cannot read them in the coordinator's catalog.

use super::passwords;
use super::peers::{host, port_number};
use super::reader::Reader;
use crate::error::ConfigProblem;
use crate::password::PasswordSource;
use crate::shard_server::ShardServer;
use crate::value::{self, ValueError, Written};
use toml::Spanned;
use toml::de::DeValue;

/// The keys of such a table.
pub(crate) const SHARD_SERVER_KEYS: [&str; 8] = [
    "server",
    "host",
    "port",
    "dbname",
    "user",
    "password",
    "password_file",
    "password_command",
];
/// The keys that each of them needs.
pub(crate) const SHARD_SERVER_REQUIRED: [&str; 1] = ["server"];

/// The servers in the list called `path`.
pub(super) fn read(
    reader: &mut Reader,
    path: &str,
    content: &Spanned<DeValue<'_>>,
) -> Vec<ShardServer> {
    let DeValue::Array(items) = content.get_ref() else {
        let path = path.to_owned();
        reader.note(content.span().start, ConfigProblem::NotAList(path));
        return Vec::new();
    };
    let mut found = Vec::<ShardServer>::new();
    for item in items.iter() {
        let Some(shard) = shard_server(reader, path, item) else {
            continue;
        };
        match found.iter().any(|other| other.server == shard.server) {
            true => reader.note(
                item.span().start,
                ConfigProblem::ShardServerTwice(shard.server),
            ),
            false => found.push(shard),
        }
    }
    found
}

fn shard_server(
    reader: &mut Reader,
    path: &str,
    item: &Spanned<DeValue<'_>>,
) -> Option<ShardServer> {
    let table = format!("[{path}]");
    let start = item.span().start;
    let before = reader.problems.len();
    let (mut server, mut hosts, mut ports, mut dbname) = (None, None, None, None);
    let (mut user, mut password) = (None, None);
    for (key, written) in reader.entries(&table, item) {
        match key.get_ref().as_ref() {
            "server" => server = reader.value("server", written, value::text),
            "host" => hosts = reader.value("host", written, |value| one_or_more(value, host)),
            "port" => {
                ports = reader.value("port", written, |value| one_or_more(value, port_number))
            }
            "dbname" => dbname = reader.value("dbname", written, value::text),
            "user" => user = reader.value("user", written, value::text),
            "password" | "password_file" | "password_command" if password.is_some() => {
                reader.note(start, ConfigProblem::TwoShardPasswords(table.clone()));
            }
            "password" => {
                let written = reader.value("password", written, value::secret).flatten();
                password = written.map(PasswordSource::Written);
            }
            key @ ("password_file" | "password_command") => {
                password = passwords::source(reader, key, written);
            }
            _ => reader.unknown_key(key, &table, &SHARD_SERVER_KEYS),
        }
    }
    let said = |text: &String| !text.is_empty();
    let user: Option<String> = user.filter(said);
    let server: Option<String> = server.filter(said);
    let is_complete = server.is_some() && (password.is_none() || user.is_some());
    if reader.problems.len() == before && !is_complete {
        reader.note(start, ConfigProblem::ShardServerKeys(table.clone()));
    }
    let count = |hosts: &Option<Vec<_>>| hosts.as_ref().map(Vec::len);
    if let (Some(hosts), Some(ports)) = (count(&hosts), ports.as_ref().map(Vec::len))
        && ![1, hosts].contains(&ports)
    {
        reader.note(start, ConfigProblem::ShardServerPorts(table));
    }
    Some(ShardServer {
        server: server?,
        hosts,
        ports,
        dbname: dbname.filter(said),
        user,
        password,
    })
}

/// One value, or a list of at least one.
fn one_or_more<T>(
    written: Written<'_>,
    one: impl Fn(Written<'_>) -> Result<T, ValueError>,
) -> Result<Vec<T>, ValueError> {
    match written {
        Written::List(list) if !list.is_empty() => {
            let items = list.iter();
            items
                .map(|item| one(Written::in_toml(item.get_ref())))
                .collect()
        }
        other => Ok(vec![one(other)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::hosts::Host;
    use crate::secret::Secret;

    const APP: &str = "[databases.app]\nprimary = \"postgres://app@pg1\"\n";

    fn read(text: &str) -> Result<Vec<ShardServer>, String> {
        let config = Config::from_toml(&format!("{APP}{text}"), "p.toml");
        let config = config.map_err(|error| error.to_string())?;
        Ok(config.databases["app"].shard_servers.clone())
    }

    #[test]
    fn what_is_not_said_is_left_to_the_catalog() {
        let found = read(
            "[[databases.app.shard_servers]]\nserver = \"s1\"\n\
             [[databases.app.shard_servers]]\nserver = \"s2\"\nhost = \"::1\"\nport = 7000\ndbname = \"d\"\nuser = \"u\"\npassword = \"pw\"",
        );
        let found = found.expect("servers");
        let [one, two] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(
            (one.server.as_str(), one.ports.clone(), &one.user),
            ("s1", None, &None)
        );
        assert_eq!(two.hosts, Some(vec![Host::Tcp("::1".to_owned())]));
        assert_eq!(two.ports, Some(vec![7000]));
        let password = Secret::new("pw".to_owned());
        let password = Some(PasswordSource::Written(password));
        assert_eq!((two.user.as_deref(), &two.password), (Some("u"), &password));
    }

    #[test]
    fn a_server_may_have_several_hosts() {
        let several = |ports: &str| {
            read(&format!(
                "[[databases.app.shard_servers]]\nserver = \"s\"\nhost = [\"a\", \"/run\"]\nport = {ports}"
            ))
        };
        let hosts = vec![Host::Tcp("a".to_owned()), Host::Unix("/run".into())];
        for (ports, wanted) in [("7", vec![7]), ("[7, 8]", vec![7, 8])] {
            let found = several(ports).expect("servers");
            assert_eq!(found[0].hosts.as_ref(), Some(&hosts));
            assert_eq!(found[0].ports, Some(wanted));
        }
        for (ports, message) in [
            ("[7, 8, 9]", "as many ports as hosts"),
            ("[]", "a list is not a whole number"),
        ] {
            let error = several(ports).expect_err(ports);
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let list = "[[databases.app.shard_servers]]\n";
        for (text, message) in [
            (
                format!("{list}host = \"a\""),
                "p.toml:3: [databases.app.shard_servers] needs server, and user if it has a password",
            ),
            (
                format!("{list}server = \"s\"\npassword = \"x\""),
                "needs server, and user if it has a password",
            ),
            (
                format!(
                    "{list}server = \"s\"\nuser = \"u\"\npassword = \"x\"\npassword_file = \"/x\""
                ),
                "[databases.app.shard_servers] has more than one of password, password_file and password_command; keep one",
            ),
            (
                format!("{list}server = \"s\"\n{list}server = \"s\""),
                "p.toml:5: foreign server s is named more than once",
            ),
            (
                format!("{list}server = \"s\"\nslot = \"x\""),
                "unknown key \"slot\"",
            ),
            (
                "shard_servers = 1".to_owned(),
                "\"databases.app.shard_servers\" must be a list of tables",
            ),
        ] {
            let error = read(&text).expect_err(&text);
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
