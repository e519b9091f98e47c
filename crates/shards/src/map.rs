//! The map as routing sees it.

use crate::access::Access;
use crate::facts::RoleFacts;
use crate::reason::{Reason, RoleProblem};
use crate::server::{ShardServer, ShardServerId};
use crate::table::ShardedTable;
use paceline_cluster::{StatementNames, TableName, UserDefinedNames};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

/// The sharded tables, and the conditions for statements on them. All answers of one map agree with one another.
///
/// A statement runs on a shard if its table is of the map, [`ShardedTable::route`] finds a leaf there, [`ShardMap::check_role`] and
/// [`ShardMap::check_names`] do not object, and the transaction finds the [`Fingerprint`](crate::Fingerprint) behind the statement.
pub trait ShardMap: fmt::Debug + Send + Sync {
    /// The tables, by name.
    fn tables(&self) -> &[ShardedTable];

    /// The only sharded table that the name can mean, whatever the search path; `None` if there is none. Without a schema, the caller
    /// makes sure that the search path finds the table, which the coordinator's analysis shows.
    fn table(&self, schema: Option<&str>, name: &str) -> Option<&ShardedTable>;

    /// A server of this map.
    fn server(&self, id: ShardServerId) -> Option<&ShardServer>;

    /// All servers, in the order of their numbers.
    fn servers(&self) -> &[ShardServer];

    /// Whether the role may do this with the table, and finds on the server the settings that it has on the coordinator.
    ///
    /// # Errors
    /// The reason why the statement must run on the coordinator.
    fn check_role(
        &self,
        role: &str,
        table: &ShardedTable,
        server: ShardServerId,
        access: &Access<'_>,
    ) -> Result<(), Reason>;

    /// Whether no name of the statement means an object that users have defined, on the coordinator or on the server. The names of the
    /// relations do not matter.
    ///
    /// # Errors
    /// The reason why the statement must run on the coordinator.
    fn check_names(&self, server: ShardServerId, names: &StatementNames<'_>) -> Result<(), Reason>;
}

/// Settings that may differ from what shards need if a role has defaults of its own for them.
const UNFIT_SETTINGS: [&str; 2] = ["default_transaction_isolation", "client_encoding"];

/// The map of the partitioned tables of a coordinator.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PartitionMap {
    pub(crate) tables: Vec<ShardedTable>,
    pub(crate) by_name: HashMap<TableName, usize>,
    /// Names that need no schema.
    pub(crate) by_bare_name: HashMap<String, usize>,
    pub(crate) servers: Vec<ShardServer>,
    pub(crate) roles: BTreeMap<String, RoleFacts>,
    pub(crate) coordinator_names: UserDefinedNames,
    /// In the order of the servers.
    pub(crate) shard_names: Vec<UserDefinedNames>,
}

impl ShardMap for PartitionMap {
    fn tables(&self) -> &[ShardedTable] {
        &self.tables
    }

    fn table(&self, schema: Option<&str>, name: &str) -> Option<&ShardedTable> {
        let place = match schema {
            Some(schema) => self.by_name.get(&TableName {
                schema: schema.to_owned(),
                name: name.to_owned(),
            }),
            None => self.by_bare_name.get(name),
        };
        self.tables.get(*place?)
    }

    fn server(&self, ShardServerId(id): ShardServerId) -> Option<&ShardServer> {
        self.servers.get(id)
    }

    fn servers(&self) -> &[ShardServer] {
        &self.servers
    }

    fn check_role(
        &self,
        role: &str,
        table: &ShardedTable,
        server: ShardServerId,
        access: &Access<'_>,
    ) -> Result<(), Reason> {
        let unknown = || RoleProblem::Unknown(role.to_owned());
        let facts = self.roles.get(role).ok_or_else(unknown)?;
        let privileges = facts.privileges.get(&table.oid);
        if !privileges.is_some_and(|privileges| privileges.allow(access)) {
            return Err(Reason::Role(RoleProblem::Privilege {
                role: role.to_owned(),
                table: table.name.clone(),
            }));
        }
        let mut unfit = UNFIT_SETTINGS.iter();
        if let Some(name) = unfit.find(|name| facts.settings.contains(**name)) {
            return Err(Reason::Role(RoleProblem::Setting {
                role: role.to_owned(),
                name,
            }));
        }
        let server = self.server(server).map_or("", |server| &server.name);
        match facts.logins.get(server) {
            Some(mapped) if *mapped == facts.settings => Ok(()),
            Some(mapped) => Err(Reason::Role(RoleProblem::Settings {
                role: role.to_owned(),
                server: server.to_owned(),
                own: facts.settings.clone(),
                mapped: mapped.clone(),
            })),
            None => Err(Reason::Role(RoleProblem::NoLogin {
                role: role.to_owned(),
                server: server.to_owned(),
            })),
        }
    }

    fn check_names(
        &self,
        ShardServerId(server): ShardServerId,
        names: &StatementNames<'_>,
    ) -> Result<(), Reason> {
        let of_shard = self.shard_names.get(server);
        let mut defined = of_shard.into_iter().chain([&self.coordinator_names]);
        match defined.find_map(|defined| first_defined(defined, names)) {
            Some(name) => Err(Reason::Name(name.to_owned())),
            None => Ok(()),
        }
    }
}

/// The first name of the statement that may mean one of these objects.
fn first_defined<'a>(
    defined: &UserDefinedNames,
    statement: &StatementNames<'a>,
) -> Option<&'a str> {
    let first = |names: &[&'a str], defined: &HashSet<String>| {
        let mut names = names.iter().copied();
        names.find(|name| defined.contains(*name))
    };
    first(&statement.functions, &defined.functions)
        .or_else(|| first(&statement.fields, &defined.functions))
        .or_else(|| first(&statement.operators, &defined.operators))
        .or_else(|| first(&statement.types, &defined.types))
}
