//! What may make a group come out otherwise than its members would have alone: settings, the language of messages, changes
//! of the catalog that do not touch a table, constraints that are deferred, what functions do unseen. In each case the
//! members get what bare PostgreSQL would have told them.

mod backslashes;
mod languages;
