//! Whether a logical subscriber has what the primary has: the tables of the publication, whole and defined alike, and nothing that
//! gives a statement another meaning there.

mod facts;
mod problem;
mod tables;
#[cfg(test)]
pub(crate) mod tests;

pub use facts::{
    CatalogFacts, ColumnFacts, PublicationFacts, SlotFacts, SubscribedState, SubscriberReport,
    SubscriptionFacts, TableFacts, TableName, UserDefinedNames, UserFacts,
};
pub use problem::{SUBSCRIBER_VERSION_MIN, SubscriberProblem};
pub use tables::{StatementNames, SubscribedTable, SubscribedTables};

const PRIMARY: &str = "the primary";
const SUBSCRIBER: &str = "the subscriber";

impl SubscriberReport {
    /// The tables of which the subscriber may answer reads.
    ///
    /// # Errors
    /// The first reason for which it may answer none.
    pub fn check(
        &self,
        slot: &str,
        tables: &[TableName],
    ) -> Result<SubscribedTables, SubscriberProblem> {
        self.check_servers()?;
        self.check_subscription(slot)?;
        let tables = tables.iter().enumerate();
        let tables = tables.map(|(at, name)| self.check_table(at, name));
        let tables: Vec<SubscribedTable> = tables.collect::<Result<_, _>>()?;
        let users = self.primary.users.iter().filter_map(|(name, primary)| {
            let own = self.own.users.get(name)?;
            let alike = own.settings == primary.settings;
            alike.then(|| (name.clone(), primary.may_read.clone()))
        });
        Ok(SubscribedTables {
            tables,
            names: [self.primary.names.clone(), self.own.names.clone()],
            users: users.collect(),
            fingerprint: self.fingerprint.clone(),
            last_ddl: self.last_ddl,
        })
    }

    fn check_servers(&self) -> Result<(), SubscriberProblem> {
        let (own, primary) = (&self.own, &self.primary);
        if own.in_recovery {
            return Err(SubscriberProblem::InRecovery);
        }
        if own.version != primary.version {
            return Err(SubscriberProblem::OtherVersion {
                own: own.version,
                primary: primary.version,
            });
        }
        if own.version < SUBSCRIBER_VERSION_MIN {
            return Err(SubscriberProblem::OldVersion);
        }
        if own.encoding != primary.encoding {
            return Err(SubscriberProblem::OtherEncoding {
                own: own.encoding.clone(),
                primary: primary.encoding.clone(),
            });
        }
        if own.collation != primary.collation {
            return Err(SubscriberProblem::OtherCollation {
                own: own.collation.clone(),
                primary: primary.collation.clone(),
            });
        }
        match (primary.converts, own.converts) {
            (true, _) => Err(SubscriberProblem::Converts(PRIMARY)),
            (false, true) => Err(SubscriberProblem::Converts(SUBSCRIBER)),
            (false, false) => Ok(()),
        }
    }

    fn check_subscription(&self, name: &str) -> Result<(), SubscriberProblem> {
        let no_slot = || SubscriberProblem::NoSlot(name.to_owned());
        let slot = self.slot.as_ref().ok_or_else(no_slot)?;
        let no_subscription = || SubscriberProblem::NoSubscription(name.to_owned());
        let subscription = self.subscription.as_ref().ok_or_else(no_subscription)?;
        if !slot.fits {
            return Err(SubscriberProblem::OtherSlot);
        }
        if !subscription.enabled {
            return Err(SubscriberProblem::Disabled);
        }
        if subscription.skips {
            return Err(SubscriberProblem::Skips);
        }
        if !slot.active {
            return Err(SubscriberProblem::SlotInactive);
        }
        match slot.confirmed {
            None => Err(SubscriberProblem::Unconfirmed),
            Some(_) => Ok(()),
        }
    }

    fn check_table(
        &self,
        at: usize,
        name: &TableName,
    ) -> Result<SubscribedTable, SubscriberProblem> {
        let name = || name.clone();
        let mut published = false;
        for publication in &self.publications {
            if publication.partial.contains(&at) {
                return Err(SubscriberProblem::Partial(name()));
            }
            let whole = publication.whole.contains(&at);
            if whole && !publication.all_changes {
                return Err(SubscriberProblem::Publishes(name()));
            }
            published |= whole;
        }
        let states = self.subscription.as_ref().map(|all| all.tables.as_slice());
        let state = states.and_then(|states| states.get(at));
        let state = state.copied().unwrap_or_default();
        match state {
            _ if !published => return Err(SubscriberProblem::NotPublished(name())),
            SubscribedState {
                subscriptions: 0, ..
            } => return Err(SubscriberProblem::NotSubscribed(name())),
            SubscribedState {
                subscriptions: 1, ..
            } => {}
            _ => return Err(SubscriberProblem::SubscribedTwice(name())),
        }
        if !state.ready {
            return Err(SubscriberProblem::NotReady(name()));
        }
        if !state.copied {
            return Err(SubscriberProblem::NotCopied(name()));
        }
        let on = |facts: &CatalogFacts, server| {
            let table = facts.tables.get(at).cloned().unwrap_or_default();
            match (table.oid, table.unfit.clone()) {
                (None, _) => Err(SubscriberProblem::NoTable(name(), server)),
                (Some(_), Some(why)) => Err(SubscriberProblem::Unfit {
                    table: name(),
                    server,
                    why,
                }),
                (Some(oid), None) => Ok((oid, table)),
            }
        };
        let (primary_oid, primary) = on(&self.primary, PRIMARY)?;
        let (own_oid, own) = on(&self.own, SUBSCRIBER)?;
        let definitions = |table: &TableFacts| {
            let columns = table.columns.iter();
            columns
                .map(|column| column.definition.clone())
                .collect::<Vec<_>>()
        };
        if definitions(&own) != definitions(&primary) {
            return Err(SubscriberProblem::OtherColumns(name()));
        }
        let columns = own.columns.iter().zip(&primary.columns);
        Ok(SubscribedTable {
            name: name(),
            ambiguous: own.ambiguous || primary.ambiguous,
            own: own_oid,
            primary: primary_oid,
            columns: columns
                .map(|(own, primary)| (own.number, primary.number))
                .collect(),
        })
    }
}
