//! Settings that decide the meaning of a statement: the objects that its names denote, the values of its constants, the types of its
//! parameters.

#[cfg(test)]
mod tests;

/// Whether a setting is a customized option (PostgreSQL documentation, section "Customized Options"). PostgreSQL
/// defines such an option when it is first set, and the session keeps it; or an extension defines it.
pub fn is_custom_option(name: &str) -> bool {
    name.contains('.')
}

/// Settings that decide how a statement is planned, executed, limited and logged, but not what it means.
const WITHOUT_MEANING: [&str; 42] = [
    "application_name",
    "bonjour_name",
    "client_connection_check_interval",
    "client_min_messages",
    "commit_delay",
    "commit_siblings",
    "constraint_exclusion",
    "cpu_index_tuple_cost",
    "cpu_operator_cost",
    "cpu_tuple_cost",
    "cursor_tuple_fraction",
    "deadlock_timeout",
    "default_statistics_target",
    "default_transaction_deferrable",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "effective_cache_size",
    "effective_io_concurrency",
    "from_collapse_limit",
    "gin_fuzzy_search_limit",
    "hash_mem_multiplier",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "join_collapse_limit",
    "lock_timeout",
    "logical_decoding_work_mem",
    "maintenance_io_concurrency",
    "maintenance_work_mem",
    "plan_cache_mode",
    "random_page_cost",
    "row_security",
    "seed",
    "seq_page_cost",
    "statement_timeout",
    "synchronous_commit",
    "temp_buffers",
    "temp_file_limit",
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
    "transaction_timeout",
    "work_mem",
];

/// The beginnings of the names of further such settings.
const WITHOUT_MEANING_BEGINNINGS: [&str; 9] = [
    "enable_",
    "geqo",
    "jit",
    "log_",
    "max_parallel_",
    "min_parallel_",
    "parallel_",
    "tcp_",
    "track_",
];

/// Whether a statement may have another meaning if PostgreSQL parses it with another value of this setting (in lower case). An unknown
/// setting counts as one that may decide the meaning; the options that users define do not.
pub(super) fn decides_meaning(name: &str) -> bool {
    let mut beginnings = WITHOUT_MEANING_BEGINNINGS.iter();
    !is_custom_option(name)
        && !WITHOUT_MEANING.contains(&name)
        && !beginnings.any(|beginning| name.starts_with(beginning))
}
