//! Resolves the arguments of `explain`: the server, the user, and the settings that the client would have.

use super::arguments::ExplainArguments;
use super::command::Explain;
use super::error::CliError;
use paceline_config::{ANY_DATABASE, Config, Database, Upstream};
use std::path::Path;

impl ExplainArguments {
    pub(super) fn resolve(self) -> Result<Explain, CliError> {
        let mut config = match &self.config {
            Some(file) => Config::load(file)?,
            None => Config::default(),
        };
        for assignment in &self.set {
            config.set(assignment)?;
        }
        let chosen = match &self.config {
            Some(file) => self.database(&config, file)?,
            None => None,
        };
        let mut settings = config.paceline.clone();
        if let Some((database, _)) = chosen {
            let user = self.user.as_deref().or(database.primary.user.as_deref());
            let of_pool = config.pool_settings(database, user.unwrap_or_default());
            settings.grouping.hotspot_for_autocommit = of_pool.grouping.hotspot_for_autocommit;
            settings.servers = of_pool.servers.clone();
        }
        let database = chosen.as_ref().map(|(database, _)| *database);
        let of_file = chosen.map(|(database, on_server)| Upstream {
            dbname: Some(on_server),
            ..database.primary.clone()
        });
        let given = self.upstream.as_deref();
        let given = given.map(|url| Config::upstream("--upstream", url));
        let mut upstream = given.transpose()?.or(of_file);
        if let Some(upstream) = &mut upstream
            && upstream.user.is_none()
        {
            upstream.user = self.user;
        }
        Ok(Explain {
            sql: self.sql,
            upstream,
            shard_servers: database.map_or_else(Vec::new, |own| own.shard_servers.clone()),
            connect_query: database.map_or_else(String::new, |own| own.connect_query.clone()),
            settings,
            declared: config.declared,
            verbose: self.verbose,
        })
    }

    /// The database of the file, and its name on the server. `None`: the file names none, or `--upstream` names the server.
    fn database<'a>(
        &self,
        config: &'a Config,
        file: &Path,
    ) -> Result<Option<(&'a Database, String)>, CliError> {
        let file = || file.display().to_string();
        if let Some(name) = &self.database {
            let found = config.database(name);
            let missing = || CliError::NoDatabase {
                file: file(),
                name: name.clone(),
            };
            return found.map(Some).ok_or_else(missing);
        }
        let mut names = config.databases.keys().filter(|name| *name != ANY_DATABASE);
        let databases = match (names.next(), names.next()) {
            (Some(only), None) => return Ok(config.database(only)),
            (Some(_), Some(_)) => "several databases",
            (None, _) => "no database by its name",
        };
        if self.upstream.is_some() || config.databases.is_empty() {
            return Ok(None);
        }
        let file = file();
        Err(CliError::WhichDatabase { file, databases })
    }
}
