//! The shards of a database, for the statements of one user's clients: the map in force, the routes by it, and a pool for each server.
//!
//! A statement that may run on a shard joins a group on a server connection of the shard's own pool. In every other case it runs on
//! the coordinator, also if the shard has certainly done nothing: if it is not reachable, rejects the statement, or has another table
//! than the map says.

use crate::address::Address;
use crate::hosts::PrimaryState;
use crate::pool::{Pool, PoolConfig, ShardHost};
use crate::routing::{RouteRefusal, RoutedStatement, Routes};
use crate::shards::{ShardPlace, ShardSource};
use crate::shared::Shared;
use arc_swap::ArcSwapOption;
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::strategy::PlannedRequest;
use paceline_relay::request::Request;
use paceline_shards::{ShardMap, ShardServerId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The search path of all connections to shards. Statements name the shard's table with its schema.
const SEARCH_PATH: (&str, &str) = ("search_path", "pg_catalog");

/// Maximum number of statements of a user that the coordinator executes at a time because their shards cannot be reached. There they may
/// wait for as long as `postgres_fdw` does, and more of them would take all connections from statements for other shards.
const OUTAGE_STATEMENTS_MAX: usize = 4;

/// The shards of a database for one user; `None` if it has none. A reload may replace them.
pub type ShardsInForce = Arc<ArcSwapOption<Shards>>;

/// Makes the pools of shards beside the pool of the coordinator.
pub(crate) trait ShardPoolMaker: Send + Sync {
    /// What all pools share.
    fn shared(&self) -> &Shared;

    /// The pools that are made from now on follow this configuration of the coordinator's pool.
    fn set_config(&self, config: PoolConfig);

    /// Has `choose` return a pool, which it may make, under the lock of all pools: a new pool obeys the orders of operators from its
    /// beginning. `None`: the process ends.
    fn make(&self, choose: &dyn Fn(&PoolConfig, &NewPool<'_>) -> Arc<Pool>) -> Option<Arc<Pool>>;
}

/// Makes a pool.
pub(crate) type NewPool<'a> = dyn Fn(PoolConfig) -> Arc<Pool> + 'a;

/// The shards of a database for one user.
pub struct Shards {
    source: Arc<dyn ShardSource>,
    /// The user on the coordinator.
    role: String,
    routes: ArcSwapOption<Routes>,
    /// By the names of the foreign servers.
    pools: Mutex<HashMap<String, ShardPool>>,
    maker: Box<dyn ShardPoolMaker>,
    /// Statements that the coordinator executes because their shard cannot be reached.
    outage: Arc<Semaphore>,
}

/// A server's pool, and where it leads.
struct ShardPool {
    place: ShardPlace,
    host: ShardHost,
    pool: Arc<Pool>,
}

/// A statement for a shard, and the server connections to it.
pub struct ShardStatement {
    /// The connections.
    pub pool: Arc<Pool>,
    /// The statement on the shard's table.
    pub request: PlannedRequest,
}

impl Shards {
    pub(crate) fn new(
        source: Arc<dyn ShardSource>,
        role: String,
        maker: Box<dyn ShardPoolMaker>,
    ) -> Self {
        source.add_role(&role);
        Self {
            source,
            role,
            routes: ArcSwapOption::empty(),
            pools: Mutex::default(),
            maker,
            outage: Arc::new(Semaphore::new(OUTAGE_STATEMENTS_MAX)),
        }
    }

    /// Whether the monitor of these shards is this one, for this user on the coordinator.
    pub(crate) fn are_of(&self, source: &Arc<dyn ShardSource>, role: &str) -> bool {
        Arc::ptr_eq(&self.source, source) && self.role == role
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ShardPool>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pools that exist.
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        let pools = self.lock();
        pools
            .values()
            .map(|known| Arc::clone(&known.pool))
            .collect()
    }

    /// These shards are used no more.
    pub(crate) fn leave(&self) {
        self.pools().iter().for_each(|pool| pool.leave_shard());
    }

    /// The pools follow a new configuration of the coordinator's.
    pub(crate) fn reconfigure(&self, config: &PoolConfig) {
        self.maker.set_config(config.clone());
        for known in self.lock().values() {
            known
                .pool
                .reconfigure(config_of(config, &known.place, known.host));
        }
    }

    /// Where a statement runs whose template has this analysis on the coordinator.
    ///
    /// # Errors
    /// Why it runs on the coordinator.
    pub fn route(
        &self,
        request: &PlannedRequest,
        analysis: &TemplateAnalysis,
    ) -> Result<ShardStatement, RouteRefusal> {
        let routes = self.routes().ok_or(RouteRefusal::NoMap)?;
        let shared = self.maker.shared();
        let routed = routes.route(
            request,
            analysis,
            &shared.templates,
            &shared.settings_interner,
        )?;
        let RoutedStatement { server, request } = routed;
        let pool = self.pool(&**routes.map(), server);
        Ok(ShardStatement {
            pool: pool.ok_or(RouteRefusal::NoMap)?,
            request,
        })
    }

    /// Whether statements of the template may run on shards, if its analysis permits it.
    pub fn may_route(&self, request: &Request) -> bool {
        let routes = self.routes();
        routes.is_some_and(|routes| routes.has_table(request))
    }

    /// The permission to execute a statement on the coordinator while its shard cannot be reached, until it is dropped. `None`: there are
    /// too many such statements.
    pub fn outage_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.outage).try_acquire_owned().ok()
    }

    /// A shard had another table than the map says.
    pub fn suspect(&self) {
        self.source.suspect();
    }

    /// The routes by the map in force.
    fn routes(&self) -> Option<Arc<Routes>> {
        let map = self.source.map()?;
        let known = self.routes.load_full();
        if let Some(known) = known
            .as_ref()
            .filter(|known| Arc::ptr_eq(known.map(), &map))
        {
            return Some(Arc::clone(known));
        }
        // Two clients may do so at a time; then the routes of one of them are found once more.
        let routes = Arc::new(Routes::new(map, self.role.clone(), known.as_deref()));
        self.routes.store(Some(Arc::clone(&routes)));
        Some(routes)
    }

    /// The pool of a server. `None`: there is no login, or the process ends.
    fn pool(&self, map: &dyn ShardMap, id: ShardServerId) -> Option<Arc<Pool>> {
        let server = map.server(id)?;
        let host = ShardHost {
            system: server.system,
        };
        let place = self.source.place(map, id, &self.role)?;
        let known = |pools: &HashMap<String, ShardPool>| {
            let known = pools.get(&server.name)?;
            let is_same = known.place.is_same(&place) && known.host == host;
            is_same.then(|| Arc::clone(&known.pool))
        };
        if let Some(pool) = known(&self.lock()) {
            return Some(pool);
        }
        self.maker.make(&|config, new| {
            let mut pools = self.lock();
            if let Some(pool) = known(&pools) {
                return pool;
            }
            let config = config_of(config, &place, host);
            let present = pools
                .get(&server.name)
                .filter(|present| present.host == host);
            let pool = match present {
                // Statements that wait or are under way follow, too.
                Some(present) => {
                    present.pool.reconfigure(config);
                    Arc::clone(&present.pool)
                }
                None => new(config),
            };
            let of_server = ShardPool {
                place: place.clone(),
                host,
                pool: Arc::clone(&pool),
            };
            let before = pools.insert(server.name.clone(), of_server);
            if let Some(before) = before.filter(|before| !Arc::ptr_eq(&before.pool, &pool)) {
                before.pool.leave_shard();
            }
            pool
        })
    }
}

/// The configuration of a shard's pool: that of the coordinator's, with the address of the shard, or of its primary.
fn config_of(config: &PoolConfig, place: &ShardPlace, host: ShardHost) -> PoolConfig {
    let mut startup = config.address.startup.clone();
    startup.retain(|(name, _)| name != SEARCH_PATH.0);
    startup.push((SEARCH_PATH.0.to_owned(), SEARCH_PATH.1.to_owned()));
    let ShardPlace { upstream, hosts } = place;
    let (primary, no_primary) = PrimaryState::of(hosts.as_ref());
    let upstream = primary.map_or_else(|| upstream.clone(), |primary| upstream.on_host(&primary));
    let location = hosts.as_ref().and_then(|hosts| hosts.location(&upstream));
    let of_coordinator = &config.address;
    let user = upstream.user.as_ref();
    let dbname = upstream.dbname.as_ref();
    PoolConfig {
        address: Address {
            user: user.unwrap_or(&of_coordinator.user).clone(),
            database: dbname.unwrap_or(&of_coordinator.database).clone(),
            upstream,
            startup,
            connect_query: String::new(),
            location,
            ..of_coordinator.clone()
        },
        no_primary,
        hosts: hosts.clone(),
        replica: None,
        shard: Some(host),
        ..config.clone()
    }
}
