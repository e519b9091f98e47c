//! The configurations of pools, by that of the process.

use super::{DatabaseOnServer, Pools};
use crate::address::Address;
use crate::compression::ServerCompression;
use crate::hosts::PrimaryState;
use crate::pool::PoolConfig;
use paceline_batch::group_limit::GroupsMax;
use paceline_batch::line::Limits;
use paceline_batch::policy::Policy;
use paceline_config::Config;
use std::sync::Arc;

/// Maximum number of reads in a pipeline.
const PIPELINE_DEPTH_MAX: usize = 32;

impl Pools {
    /// The configuration of a pool for `auth_query`, in which nothing is grouped.
    pub(super) fn auth_pool_config(
        &self,
        config: &Config,
        database: DatabaseOnServer<'_>,
        user: &str,
    ) -> PoolConfig {
        let mut pool_config = self.pool_config(config, database, user);
        user.clone_into(&mut pool_config.address.user);
        pool_config.policy = Policy {
            hotspot: false,
            for_autocommit: false,
            lock_type: false,
            pipeline: false,
        };
        pool_config
    }

    /// The configuration of the pool of a database and the user that clients name.
    pub(super) fn pool_config(
        &self,
        config: &Config,
        database: DatabaseOnServer<'_>,
        user: &str,
    ) -> PoolConfig {
        let DatabaseOnServer {
            database,
            on_server,
            hosts,
            grouping: decisions,
        } = database;
        let (known, no_primary) = PrimaryState::of(hosts.as_ref());
        let upstream = known.unwrap_or_else(|| database.primary.clone());
        let grouping = &config.paceline.grouping;
        let settings = config.pool_settings(database, user);
        let location = hosts.as_ref().and_then(|hosts| hosts.location(&upstream));
        PoolConfig {
            hosts,
            no_primary,
            replica: None,
            shard: None,
            address: Address {
                user: upstream.user.clone().unwrap_or_else(|| user.to_owned()),
                upstream,
                database: on_server,
                startup: database.startup.clone(),
                connect_query: database.connect_query.clone(),
                tcp: config.paceline.tcp.clone(),
                keyring: Arc::clone(&self.shared.keyring),
                compression: ServerCompression::new(
                    &settings.compression,
                    &self.shared.compressors,
                ),
                location,
            },
            policy: Policy {
                hotspot: grouping.hotspot,
                for_autocommit: settings.grouping.hotspot_for_autocommit,
                lock_type: grouping.hotspot_lock_type,
                pipeline: grouping.pipeline,
            },
            grouping: decisions,
            limits: Limits {
                group_size_max: grouping.group_size_max,
                pipeline_depth_max: PIPELINE_DEPTH_MAX,
                groups_max: settings
                    .grouping
                    .max_groups_in_flight
                    .map_or(GroupsMax::Auto, GroupsMax::Fixed),
                connections_max: settings.size,
                max_wait: grouping.hotspot_update_max_wait_time,
                query_timeout: settings.timeouts.query_timeout,
            },
            settings: settings.into(),
        }
    }
}
