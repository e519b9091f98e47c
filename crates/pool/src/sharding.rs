//! The shards of a database, for the statements of one user's clients: the map in force, the routes by it, and a pool for each server.
//!
//! A statement that may run on a shard joins a group on a server connection of the shard's own pool. In every other case it runs on
//! the coordinator, also if the shard has certainly done nothing: if it is not reachable, rejects the statement, or has another table
//! than the map says.

use crate::address::Address;
use crate::hosts::PrimaryState;
use crate::pool::{Pool, PoolConfig, ShardHost};
use crate::replicas::{Replicas, ShardsSeen};
use crate::routing::{RouteRefusal, RoutedStatement, Routes};
use crate::shards::{ShardPlace, ShardSource};
use crate::shared::Shared;
use arc_swap::ArcSwapOption;
use paceline_batch::analysis::TemplateAnalysis;
use paceline_batch::strategy::PlannedRequest;
use paceline_relay::request::Request;
use paceline_shards::{ShardMap, ShardServerId};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
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
    /// The state that all pools share.
    fn shared(&self) -> &Shared;

    /// The pools that are made from now on follow this configuration of the coordinator's pool.
    fn set_config(&self, config: PoolConfig);

    /// Has `choose` return pools, which it may make, under the lock of all pools: a new pool obeys the orders of operators from its
    /// beginning. `None`: the process ends.
    fn make(&self, choose: &dyn Fn(&PoolConfig, &NewPool<'_>) -> ShardPools) -> Option<ShardPools>;
}

/// Makes a pool.
pub(crate) type NewPool<'a> = dyn Fn(PoolConfig) -> Arc<Pool> + 'a;

/// The shards of a database for one user.
pub struct Shards {
    source: Arc<dyn ShardSource>,
    /// The user on the coordinator.
    role: String,
    routes: ArcSwapOption<NumberedRoutes>,
    /// By the names of the foreign servers.
    pools: Mutex<HashMap<String, PlacedPools>>,
    maker: Box<dyn ShardPoolMaker>,
    /// Statements that the coordinator executes because their shard cannot be reached.
    outage: Arc<Semaphore>,
}

/// The routes by a map.
struct NumberedRoutes {
    routes: Routes,
    /// No two `NumberedRoutes` of the process have the same number. It is also the number of questions for positions that had begun:
    /// the answer to a later one includes the whole state in the map.
    number: u64,
}

/// A server's pools, and where they lead.
struct PlacedPools {
    place: ShardPlace,
    host: ShardHost,
    pools: ShardPools,
}

/// The pools of a server.
#[derive(Clone)]
pub(crate) struct ShardPools {
    /// That of the primary.
    pool: Arc<Pool>,
    /// The replicas, if there are several hosts.
    replicas: Option<Arc<Replicas>>,
}

impl ShardPools {
    fn new(config: PoolConfig, new: &NewPool<'_>) -> Self {
        Self {
            replicas: replicas_of(&config, None, new),
            pool: new(config),
        }
    }

    /// The same pools with another configuration; the replicas may be others.
    fn reconfigured(&self, config: PoolConfig, new: &NewPool<'_>) -> Self {
        let replicas = replicas_of(&config, self.replicas.as_ref(), new);
        self.pool.reconfigure(config);
        Self {
            pool: Arc::clone(&self.pool),
            replicas,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Pool>> {
        let replicas = self.replicas.iter();
        let replicas = replicas.flat_map(|replicas| replicas.pools());
        [&self.pool].into_iter().chain(replicas)
    }

    /// Leaves the pools that are not among `others`.
    fn leave_except(&self, others: &Self) {
        let is_left = |pool: &&Arc<Pool>| !others.all().any(|other| Arc::ptr_eq(other, pool));
        self.all()
            .filter(is_left)
            .for_each(|pool| pool.leave_shard());
    }
}

/// A statement for a shard, and the server connections to it.
pub struct ShardStatement {
    /// The connections.
    pub pool: Arc<Pool>,
    /// The statement on the shard's table.
    pub request: PlannedRequest,
    /// The replicas of the shard, if it has several hosts.
    pub replicas: Option<Arc<Replicas>>,
    /// The number of the map by which it was routed.
    pub map: u64,
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

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PlacedPools>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pools that exist.
    pub(crate) fn pools(&self) -> Vec<Arc<Pool>> {
        let pools = self.lock();
        pools
            .values()
            .flat_map(|known| known.pools.all())
            .map(Arc::clone)
            .collect()
    }

    /// The replicas of the shards that have several hosts.
    pub(crate) fn replicas(&self) -> Vec<Arc<Replicas>> {
        let pools = self.lock();
        let replicas = pools
            .values()
            .filter_map(|known| known.pools.replicas.as_ref());
        replicas.map(Arc::clone).collect()
    }

    /// These shards are used no more.
    pub(crate) fn leave(&self) {
        self.pools().iter().for_each(|pool| pool.leave_shard());
    }

    /// The pools follow a new configuration of the coordinator's.
    pub(crate) fn reconfigure(&self, config: &PoolConfig) {
        self.maker.set_config(config.clone());
        for known in self.lock().values() {
            let config = config_of(config, &known.place, known.host);
            if let Some(replicas) = &known.pools.replicas {
                replicas.reconfigure(&config);
            }
            known.pools.pool.reconfigure(config);
        }
    }

    /// Routes a statement whose template has this analysis on the coordinator to a shard.
    ///
    /// # Errors
    /// The reason why it runs on the coordinator.
    pub fn route(
        &self,
        request: &PlannedRequest,
        analysis: &TemplateAnalysis,
    ) -> Result<ShardStatement, RouteRefusal> {
        let known = self.routes().ok_or(RouteRefusal::NoMap)?;
        let NumberedRoutes { routes, number } = &*known;
        let shared = self.maker.shared();
        let routed = routes.route(
            request,
            analysis,
            &shared.templates,
            &shared.settings_interner,
        )?;
        let RoutedStatement { server, request } = routed;
        let pools = self.pools_of(&**routes.map(), server);
        let ShardPools { pool, replicas } = pools.ok_or(RouteRefusal::NoMap)?;
        Ok(ShardStatement {
            pool,
            request,
            replicas,
            map: *number,
        })
    }

    /// The coordinator has served the client, or a shard that has no replicas.
    pub fn other_served(&self, seen: &mut ShardsSeen) {
        let questions = &self.maker.shared().positions_asked;
        seen.all_served(questions.load(Ordering::SeqCst));
    }

    /// Whether statements of the template may run on shards, if its analysis permits it.
    pub fn may_route(&self, request: &Request) -> bool {
        let routes = self.routes();
        routes.is_some_and(|known| known.routes.has_table(request))
    }

    /// The permission to execute a statement on the coordinator while its shard cannot be reached, until it is dropped. `None`: there are
    /// too many such statements.
    pub fn outage_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.outage).try_acquire_owned().ok()
    }

    /// A shard had another table than the map.
    pub fn suspect(&self) {
        self.source.suspect();
    }

    /// The routes by the map in force.
    fn routes(&self) -> Option<Arc<NumberedRoutes>> {
        let map = self.source.map()?;
        let known = self.routes.load_full();
        if let Some(known) = known
            .as_ref()
            .filter(|known| Arc::ptr_eq(known.routes.map(), &map))
        {
            return Some(Arc::clone(known));
        }
        // Two clients may do so at a time; then the routes of one of them are found once more.
        let before = known.as_ref().map(|known| &known.routes);
        let questions = &self.maker.shared().positions_asked;
        let routes = Arc::new(NumberedRoutes {
            routes: Routes::new(map, self.role.clone(), before),
            number: questions.fetch_add(1, Ordering::SeqCst) + 1,
        });
        self.routes.store(Some(Arc::clone(&routes)));
        Some(routes)
    }

    /// The pools of a server. `None`: there is no login, or the process ends.
    fn pools_of(&self, map: &dyn ShardMap, id: ShardServerId) -> Option<ShardPools> {
        let server = map.server(id)?;
        let host = ShardHost {
            system: server.system,
        };
        let place = self.source.place(map, id, &self.role)?;
        let known = |pools: &HashMap<String, PlacedPools>| {
            let known = pools.get(&server.name)?;
            let is_same = known.place.is_same(&place) && known.host == host;
            is_same.then(|| known.pools.clone())
        };
        if let Some(pools) = known(&self.lock()) {
            return Some(pools);
        }
        self.maker.make(&|config, new| {
            let mut pools = self.lock();
            if let Some(known) = known(&pools) {
                return known;
            }
            let config = config_of(config, &place, host);
            let present = pools
                .get(&server.name)
                .filter(|present| present.host == host);
            let of_server = match present {
                // Statements that wait or are under way follow, too.
                Some(present) => present.pools.reconfigured(config, new),
                None => ShardPools::new(config, new),
            };
            let placed = PlacedPools {
                place: place.clone(),
                host,
                pools: of_server.clone(),
            };
            let before = pools.insert(server.name.clone(), placed);
            if let Some(before) = before {
                before.pools.leave_except(&of_server);
            }
            of_server
        })
    }
}

/// The replicas beside the pool with this configuration: those before, if they are of the same hosts. `None`: there is one host.
fn replicas_of(
    config: &PoolConfig,
    before: Option<&Arc<Replicas>>,
    new: &NewPool<'_>,
) -> Option<Arc<Replicas>> {
    let hosts = config.hosts.as_ref()?;
    if let Some(same) = before.filter(|before| before.are_of(hosts)) {
        same.reconfigure(config);
        return Some(Arc::clone(same));
    }
    Some(Arc::new(Replicas::new(hosts, config, new)))
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
