//! Users that no file knows: `auth_user` asks the server for them.

use super::*;

fn asking(cluster: &Cluster) -> Builder {
    start(cluster)
        .set("auth_type=scram-sha-256")
        .set(&format!(
            "auth_file={}",
            userlist(&[("asker", "asks")]).display()
        ))
        .set("auth_user=asker")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_server_is_asked_for_whom_the_file_does_not_know() {
    let Some(cluster) = cluster() else { return };
    let paceline = asking(&cluster).spawn();
    let port = paceline.port();
    assert_let_in(port, "by_scram", SCRAM_PASSWORD).await;
    for (user, password) in [
        ("by_scram", "another"),
        ("nobody", "x"),
        // NULL: expired, and without a password.
        ("expired", "late"),
        ("postgres", "x"),
        ("sleeper", "asleep"),
    ] {
        assert_eq!(told(port, user, password).await, wrong_password(user));
    }
    // By md5 who has nothing better; whoever cannot get in is asked for what most are asked for.
    let paceline = asking(&cluster).set("auth_type=md5").spawn();
    let (_, asked) = knock(paceline.port(), "by_scram");
    for user in ["nobody", "expired", "postgres"] {
        assert_eq!(knock(paceline.port(), user).1, asked, "{user}");
    }
    assert_let_in(paceline.port(), "by_md5", MD5_PASSWORD).await;
    assert_let_in(paceline.port(), "by_scram", SCRAM_PASSWORD).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_new_password_counts_at_once() {
    let Some(cluster) = cluster() else { return };
    let paceline = asking(&cluster).set("auth_type=plain").spawn();
    let port = paceline.port();
    let mut superuser = cluster.client("postgres");
    assert_let_in(port, "changing", "before").await;
    superuser.ok("SET password_encryption = 'scram-sha-256'; ALTER ROLE changing PASSWORD 'after'");
    assert_eq!(
        told(port, "changing", "before").await,
        wrong_password("changing")
    );
    assert_let_in(port, "changing", "after").await;
}

/// Whatever search_path a client asks for, and whatever is to be found there.
#[test]
fn nothing_that_a_client_says_reaches_the_question() {
    let Some(cluster) = cluster() else { return };
    let query = "SELECT $1::text, CASE WHEN current_setting('search_path') = 'pg_catalog, pg_temp' \
                 AND current_setting('application_name') = '' THEN 'the word' END";
    let paceline = asking(&cluster)
        .set("auth_type=plain")
        .set(&format!("auth_query={query}"))
        .spawn();
    let mut client = RawClient::open(paceline.port());
    client.send(&startup(
        PROTOCOL,
        &[
            ("user", "postgres"),
            ("database", "postgres"),
            ("search_path", "evil"),
            ("application_name", "evil"),
        ],
    ));
    assert_eq!(client.receive().tag, b'R');
    client.send(&proof(b"the word\0"));
    client.reply();
    assert_eq!(client.value("SHOW search_path"), "evil");
    assert_eq!(client.value("SHOW application_name"), "evil");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_question_that_fails_lets_nobody_in_and_tells_nothing() {
    let Some(cluster) = cluster() else { return };
    for query in [
        "SELECT nonsense",
        "SELECT 'by_scram', 'one', 'too many'",
        "SELECT 'somebody else', 'x' WHERE $1 <> ''",
    ] {
        let paceline = asking(&cluster).set(&format!("auth_query={query}")).spawn();
        for _ in 0..3 {
            let told = refusal(paceline.port(), "by_scram");
            assert_eq!(told.text(), "bouncer config error", "{query}");
        }
    }
}

/// As PgBouncer: an operator who has disabled a database wants nothing to go there.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_disabled_database_is_not_asked() {
    let Some(cluster) = cluster() else { return };
    let paceline = asking(&cluster)
        .set("auth_type=plain")
        .set("auth_dbname=template1")
        .set("admin_users=asker")
        .spawn();
    assert_let_in(paceline.port(), "by_scram", SCRAM_PASSWORD).await;
    let mut operator = RawClient::open(paceline.port());
    let console = [("user", "asker"), ("database", "pgbouncer")];
    operator.send(&startup(PROTOCOL, &console));
    assert_eq!(operator.receive().tag, b'R');
    operator.send(&proof(b"asks\0"));
    operator.reply();
    operator.ok("DISABLE template1");
    let told = refusal(paceline.port(), "by_scram");
    let message = "authentication database \"template1\" is disabled";
    assert_eq!((told.sqlstate(), told.text()), ("08P01", message));
    operator.ok("ENABLE template1");
    assert_let_in(paceline.port(), "by_scram", SCRAM_PASSWORD).await;
}

/// Who it is that asks, and that it is not let in, is for the operator alone.
#[test]
fn whoever_asks_stays_unnamed() {
    let Some(cluster) = cluster() else { return };
    let users = userlist(&[("asker", "not its password")]);
    let paceline = asking(&cluster)
        .set(&format!("auth_file={}", users.display()))
        .spawn();
    let told = refusal(paceline.port(), "by_scram");
    assert_eq!(
        (told.sqlstate(), told.text()),
        ("08P01", "bouncer config error")
    );
}

/// Another user asks for one database, in another one; a database may have nobody to ask.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_database_may_have_its_own_way() {
    let Some(cluster) = cluster() else { return };
    let users = userlist(&[("asker", "asks")]);
    let at = format!(
        "primary = \"postgres://127.0.0.1:{}/postgres\"",
        cluster.port()
    );
    let forced = format!(
        "primary = \"postgres://postgres@127.0.0.1:{}/postgres\"",
        cluster.port()
    );
    let paceline = Paceline::configured(&format!(
        "[paceline]\nauth_type = \"scram-sha-256\"\nauth_file = \"{}\"\nauth_user = \"no_such_role\"\n\
         [databases.postgres]\n{at}\nauth_user = \"asker\"\nauth_dbname = \"elsewhere\"\n\
         [databases.elsewhere]\n{forced}\nauth_query = \"SELECT 'never asked'\"\n\
         [databases.by_scram]\n{at}\nauth_user = \"\"\n",
        users.display()
    ))
    .spawn();
    assert_let_in(paceline.port(), "by_scram", SCRAM_PASSWORD).await;
    let mut config = tokio_postgres::Config::new();
    config
        .host("127.0.0.1")
        .port(paceline.port())
        .user("by_scram")
        .password(SCRAM_PASSWORD);
    let nobody = config
        .connect(tokio_postgres::NoTls)
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!(nobody.code().unwrap().code(), "28P01");
}
