//! Limits of server connections and clients.

use super::*;
use paceline_config::Config;

/// Settings with these limits of a database and of a user, for servers and clients alike.
fn settings(of_database: usize, of_user: usize) -> PoolSettings {
    let text = format!(
        "[databases.app]\nprimary = \"postgres://db\"\n\
         max_db_connections = {of_database}\nmax_db_client_connections = {of_database}\n\
         [users.web]\nmax_user_connections = {of_user}\nmax_user_client_connections = {of_user}"
    );
    let config = Config::from_toml(&text, "").unwrap();
    config.pool_settings(&config.databases["app"], "web")
}

#[test]
fn pools_of_a_database_share_its_limit() {
    let book = QuotaBook::default();
    let [one, other] = ["web", "batch"].map(|user| book.of("app", user, user));
    let settings = settings(2, 0);
    let first = one.server_slot(&settings).unwrap();
    let second = other.server_slot(&settings).unwrap();
    assert_eq!(one.server_slot(&settings).unwrap_err(), Full::Database);
    assert!(book.of("else", "web", "web").server_slot(&settings).is_ok());
    drop(first);
    assert!(other.server_slot(&settings).is_ok());
    drop(second);
}

#[test]
fn a_slot_refused_by_the_user_limit_is_not_counted_for_the_database() {
    let book = QuotaBook::default();
    let (web, batch) = (
        book.of("app", "web", "web"),
        book.of("app", "batch", "batch"),
    );
    let settings = settings(2, 1);
    let first = web.server_slot(&settings).unwrap();
    assert_eq!(web.server_slot(&settings).unwrap_err(), Full::User);
    assert!(batch.server_slot(&settings).is_ok());
    assert_eq!(web.enter(&settings), Ok(()));
    assert_eq!(web.enter(&settings), Err(Full::User));
    assert_eq!(batch.enter(&settings), Ok(()));
    assert_eq!(batch.enter(&settings), Err(Full::Database));
    web.leave();
    assert_eq!(web.enter(&settings), Ok(()));
    drop(first);
}

/// Server connections count for the user who logs in to the server, clients for the user that they name.
#[test]
fn clients_and_servers_may_have_different_users() {
    let book = QuotaBook::default();
    let [web, batch] = ["web", "batch"].map(|user| book.of("app", user, "svc"));
    let settings = settings(0, 1);
    let _first = web.server_slot(&settings).unwrap();
    assert_eq!(batch.server_slot(&settings).unwrap_err(), Full::User);
    assert_eq!(
        (web.enter(&settings), batch.enter(&settings)),
        (Ok(()), Ok(()))
    );
    assert!(web.share(&batch, Full::User) && web.share(&batch, Full::Database));
    let elsewhere = book.of("else", "web", "web");
    assert!(!web.share(&elsewhere, Full::User) && !web.share(&elsewhere, Full::Database));
}

#[test]
fn starving_affects_pools_that_share_the_limit() {
    let book = QuotaBook::default();
    let (web, batch) = (
        book.of("app", "web", "web"),
        book.of("app", "batch", "batch"),
    );
    let elsewhere = book.of("else", "web", "web");
    let hunger = web.starving(Full::Database);
    assert!(batch.others_starve() && !elsewhere.others_starve());
    drop(hunger);
    assert!(!batch.others_starve());
    let hunger = web.starving(Full::User);
    assert!(!batch.others_starve() && elsewhere.others_starve());
    drop(hunger);
    assert!(!elsewhere.others_starve());
}

/// Clients may name any number of databases and users, and must not fill the memory with quotas.
#[test]
fn unused_quotas_are_dropped() {
    let book = QuotaBook::default();
    let settings = settings(1, 1);
    let place = book.of("app", "web", "web").server_slot(&settings);
    let kept: Vec<_> = (0..2 * FEW)
        .map(|n| book.of(&format!("kept {n}"), "web", "svc"))
        .collect();
    for n in 0..100 * FEW {
        let name = n.to_string();
        book.of(&name, &name, &name);
    }
    assert!(book.databases.lock().quotas.len() <= 2 * (kept.len() + FEW));
    assert!(book.users.lock().quotas.len() <= FEW);
    // Quotas in use are kept.
    let again = book.of("app", "batch", "batch");
    assert_eq!(again.server_slot(&settings).unwrap_err(), Full::Database);
    assert!(kept[0].share(&book.of("kept 0", "", ""), Full::Database));
    drop(place);
    assert!(again.server_slot(&settings).is_ok());
}

/// The URL of the database names another user.
#[test]
fn a_reload_may_change_the_server_user() {
    let book = QuotaBook::default();
    let [web, batch] = ["web", "batch"].map(|user| book.of("app", user, user));
    let settings = settings(0, 1);
    let before = web.server_slot(&settings).unwrap();
    book.change_user(&web, "batch");
    assert!(web.share(&batch, Full::User));
    let _after = web.server_slot(&settings).unwrap();
    assert_eq!(batch.server_slot(&settings).unwrap_err(), Full::User);
    drop(before);
    assert!(book.of("app", "web", "web").server_slot(&settings).is_ok());
}
