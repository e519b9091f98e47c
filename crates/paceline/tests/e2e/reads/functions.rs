//! Functions whose volatility in the catalog does not show which server may execute them: the configuration declares them.

use crate::failover::Pair;
use crate::harness::message::unit;

const FUNCTIONS: &str = "
    CREATE FUNCTION price(int) RETURNS int VOLATILE LANGUAGE plpgsql AS
      $$ BEGIN RETURN 10 * n + 1 FROM t WHERE id = $1; END $$;
    CREATE FUNCTION other(int) RETURNS int STABLE LANGUAGE plpgsql AS
      $$ BEGIN RETURN n FROM t WHERE id = $1; END $$;
    CREATE FUNCTION lies(int) RETURNS int VOLATILE LANGUAGE plpgsql AS
      $$ BEGIN UPDATE t SET n = n + 1 WHERE id = $1; RETURN 7; END $$;
    CREATE FUNCTION twice_named(int) RETURNS int STABLE LANGUAGE sql AS 'SELECT 1';
    CREATE SCHEMA app;
    CREATE FUNCTION app.tax(int) RETURNS int LANGUAGE sql AS 'SELECT n FROM public.t WHERE id = $1'";

const DECLARED: &str = "
    [[replica]]
    function = \"price\"
    [[replica]]
    function = \"lies\"
    [[replica]]
    function = \"app.tax\"
    [[primary]]
    function = \"abs\"
    [[replica]]
    function = \"twice_named\"
    [[primary]]
    function = \"public.twice_named\"";

fn pair() -> Option<Pair> {
    let pair = Pair::with_lines("reads = \"session\"", DECLARED)?;
    pair.primary.client("postgres").ok(FUNCTIONS);
    pair.await_readable();
    Some(pair)
}

#[test]
fn a_replica_executes_functions_that_are_declared_to_only_read() {
    let Some(pair) = pair() else {
        return;
    };
    let mut client = pair.client();
    client.ok("UPDATE t SET n = 4 WHERE id = 1");
    for sql in [
        "SELECT price(1)",
        "SELECT price(id) FROM t WHERE id = 1",
        "SELECT * FROM price(1)",
    ] {
        pair.await_replica(&mut client, sql);
        assert_eq!(client.number(sql), 41, "{sql}");
    }
    pair.await_replica(&mut client, "SELECT app.tax(1)");
    let by_parameter = unit("SELECT price($1::int)", &[Some("1")]);
    let (before, mut answers) = (pair.reads(), 0);
    while pair.reads() == before {
        assert!(answers < 1_000, "no replica answers the extended protocol");
        assert_eq!(client.ask(&by_parameter).expect_ok("a call").value(), "41");
        answers += 1;
    }
    // The client reads its own writes.
    for n in 5..30 {
        client.ok(&format!("UPDATE t SET n = {n} WHERE id = 1"));
        assert_eq!(client.number("SELECT price(1)"), 10 * n + 1);
    }
}

#[test]
fn a_reload_without_the_declaration_counts_at_once() {
    let Some(pair) = pair() else {
        return;
    };
    let mut client = pair.client();
    pair.await_replica(&mut client, "SELECT price(1)");
    pair.reload("reads = \"session\"");
    let before = pair.reads();
    for _ in 0..5 {
        client.ok("SELECT price(1)");
    }
    assert_eq!(pair.reads(), before);
    pair.await_replica(&mut client, "SELECT abs(n) FROM t WHERE id = 1");
}

/// A replica rejects the write; the primary executes the call, once.
#[test]
fn a_declared_function_that_writes_runs_on_the_primary() {
    let Some(pair) = pair() else {
        return;
    };
    let mut client = pair.client();
    let before = pair.reads();
    for _ in 0..20 {
        assert_eq!(client.number("SELECT lies(2)"), 7);
    }
    assert_eq!(pair.reads(), before);
    assert_eq!(client.number("SELECT n FROM t WHERE id = 2"), 20);
}

#[test]
fn the_primary_executes_all_other_functions() {
    let Some(pair) = pair() else {
        return;
    };
    let mut client = pair.client();
    pair.await_replica(&mut client, "SELECT upper('a') FROM t WHERE id = 1");
    let before = pair.reads();
    for _ in 0..5 {
        client.ok("SELECT other(1)");
        client.ok("SELECT price(other(1))");
        client.ok("SELECT abs(n) FROM t WHERE id = 1");
        client.ok("SELECT price(abs(1))");
        client.ok("SELECT twice_named(1)");
    }
    assert_eq!(pair.reads(), before);
    // Another function of the declared name, earlier in the client's search path.
    client.ok("CREATE SCHEMA mine; CREATE FUNCTION mine.price(int) RETURNS int LANGUAGE sql AS 'SELECT 0'");
    client.ok("CREATE FUNCTION mine.tax(int) RETURNS int LANGUAGE sql AS 'SELECT 0'");
    for _ in 0..5 {
        client.ok("SELECT mine.price(1)");
        client.ok("SELECT mine.tax(1)");
    }
    assert_eq!(pair.reads(), before);
}
