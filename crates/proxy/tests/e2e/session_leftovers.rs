//! What a client leaves on its server connection without its text telling, and what the next client must not find.

use crate::harness::Stage;

fn stage() -> Stage {
    Stage::on_shared().set("default_pool_size=1").open()
}

#[test]
fn what_a_function_or_do_has_prepared_is_nobody_elses() {
    let stage = stage();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok(
        "CREATE FUNCTION prepares() RETURNS int LANGUAGE plpgsql AS \
        $$ BEGIN EXECUTE 'PREPARE p AS SELECT 1'; RETURN 1; END $$",
    );
    client.ok("SELECT prepares()");
    assert_eq!(neighbour.simple("EXECUTE p").sqlstate(), "26000");
    // The client keeps its server as long as the statement is there.
    client.ok("DO $$ BEGIN EXECUTE 'PREPARE q AS SELECT 2'; END $$");
    assert_eq!(client.value("EXECUTE q"), "2");
    client.ok("DEALLOCATE q");
    assert_eq!(neighbour.simple("EXECUTE q").sqlstate(), "26000");
}

#[test]
fn what_is_made_under_a_temporary_path_is_nobody_elses() {
    let stage = stage();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok("SET search_path TO nowhere, pg_temp");
    assert_eq!(client.value("SHOW search_path"), "nowhere, pg_temp");
    assert_eq!(neighbour.value("SHOW search_path"), "\"$user\", public");
    client.ok("CREATE TABLE mine (a int)");
    assert_eq!(client.value("SELECT count(*) FROM mine"), "0");
    client.ok("DROP TABLE mine");
    client.ok("BEGIN");
    client.ok("SET LOCAL search_path TO pg_temp");
    client.ok("CREATE TABLE also_mine (a int) ON COMMIT DELETE ROWS");
    client.ok("COMMIT");
    client.ok("DROP TABLE pg_temp.also_mine");
    let found = "SELECT to_regclass('mine') IS NULL AND to_regclass('also_mine') IS NULL";
    assert_eq!(neighbour.value(found), "t");
}

#[test]
fn what_a_stable_function_has_set_is_nobody_elses() {
    let stage = stage();
    let (mut client, mut neighbour) = (stage.client(), stage.client());
    client.ok(
        "CREATE FUNCTION sets() RETURNS text STABLE LANGUAGE sql AS \
        $$ SELECT set_config('custom.flag', 'x', false) $$",
    );
    for _ in 0..4 {
        client.ok("SELECT sets()");
        let flag = "SELECT coalesce(current_setting('custom.flag', true), '')";
        assert_eq!(neighbour.value(flag), "");
    }
}

#[test]
fn a_new_application_name_needs_no_server() {
    let stage = stage();
    let mut client = stage.client_with(&[("application_name", "first")]);
    client.ok("BEGIN");
    let mut other = stage.client_with(&[("application_name", "second")]);
    client.ok("COMMIT");
    assert_eq!(other.value("SHOW application_name"), "second");
}
