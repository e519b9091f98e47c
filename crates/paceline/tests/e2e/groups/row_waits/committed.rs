//! If the committed version of a row decides the answer, the request is answered at once, although the row is locked: a guard that is
//! false, a key that exists.

use super::*;

/// The template's first request leaves alone and is answered; the others would have waited behind each other.
#[test]
fn a_false_guard_is_answered_while_the_row_is_locked() {
    for servers in [1, 2] {
        let stage = stage(servers, &[&take(SPARE, 1)]);
        let mut outsider = outsider(&stage);
        let (mut clients, gate) = together(&stage, servers, &vec![take(1, 1); 20]);
        gate.open();
        all_get(&mut clients, "UPDATE 0");
        for request in both_protocols(&take(1, 1)) {
            let mut client = stage.client();
            assert_eq!(client.ask(&request).expect_ok("a guard").tag(), "UPDATE 0");
        }
        outsider.ok("COMMIT");
    }
}

/// Requests whose guard holds wait; neither before nor behind them does a request with a false guard.
#[test]
fn only_requests_with_a_true_guard_wait() {
    let stage = stage(2, &[&take(SPARE, 1)]);
    let mut outsider = outsider(&stage);
    let requests: Vec<String> = (0..12).map(|n| take(1, n % 3)).collect();
    let (clients, gate) = together(&stage, 2, &requests);
    gate.open();
    let (mut waiting, mut answered): (Vec<_>, Vec<_>) =
        (0..).zip(clients).partition(|(number, _)| number % 3 == 0);
    for (number, client) in &mut answered {
        let tag = client.reply().expect_ok("a false guard").tag();
        assert_eq!(tag, "UPDATE 0", "request {number}");
    }
    // Later requests are answered, too, while the others wait.
    await_lock_waiters(&stage, 1);
    assert_eq!(stage.client().ok(&take(1, 1)).tag(), "UPDATE 0");
    outsider.ok("UPDATE stock SET qty = 4 WHERE id = 1; COMMIT");
    for (_, client) in &mut waiting {
        assert_eq!(client.reply().expect_ok("after the lock").tag(), "UPDATE 1");
    }
    assert_eq!(
        stage.direct().number("SELECT qty FROM stock WHERE id = 1"),
        0
    );
}

/// The analysis of the table no longer holds when a request looks at the committed version.
#[test]
fn a_false_guard_is_answered_after_the_table_has_changed() {
    let stage = stage(2, &[&take(SPARE, 1)]);
    stage.direct().ok("ALTER TABLE stock ADD COLUMN note text");
    let mut outsider = outsider(&stage);
    let mut waiting = stage.client();
    waiting.send(&query(&take(1, 0)));
    await_lock_waiters(&stage, 1);
    let mut clients = stage.clients(5);
    for client in &mut clients {
        client.send(&query(&take(1, 1)));
    }
    all_get(&mut clients, "UPDATE 0");
    outsider.ok("COMMIT");
    all_get(&mut [waiting], "UPDATE 1");
}

/// PostgreSQL reports an invalid value at once. Requests that are probed together with it are answered as ever.
#[test]
fn a_request_that_cannot_be_executed_is_refused_while_the_row_is_locked() {
    let take_by = |by: &str, from: &str| {
        format!("UPDATE stock SET qty = qty - {by} WHERE id = 1 AND qty >= {from}")
    };
    let learned = take(SPARE, 1);
    let stage = stage(2, &[&learned]);
    let sql = "UPDATE stock SET qty = qty - $1 WHERE id = $2 AND qty >= $3";
    let prepared = |from: &str| unit(sql, &[Some("1"), Some("1"), Some(from)]);
    let spare = unit(sql, &[Some("1"), Some("9"), Some("1")]);
    stage.client().ask(&spare).expect_ok("analyzed");
    stage.await_analysis();
    let mut outsider = outsider(&stage);
    let mut waiting = stage.client();
    waiting.send(&query(&take(1, 0)));
    await_lock_waiters(&stage, 1);
    let requests = [
        (query(&take_by("1", "1")), Ok("UPDATE 0")),
        (query(&take_by("1", "10/0")), Err("22012")),
        (query(&take_by("1", "3 * 2000000000")), Err("22003")),
        (query(&take_by("'x'", "1")), Err("22P02")),
        (prepared("1"), Ok("UPDATE 0")),
        (prepared("abc"), Err("22P02")),
        (prepared("99999999999"), Err("22003")),
        (prepared("2"), Ok("UPDATE 0")),
    ];
    let mut clients = stage.clients(requests.len());
    for (client, (request, _)) in clients.iter_mut().zip(&requests) {
        client.send(request);
    }
    for (client, (_, answer)) in clients.iter_mut().zip(&requests) {
        match answer {
            Ok(tag) => assert_eq!(client.reply().expect_ok(tag).tag(), *tag),
            Err(sqlstate) => drop(client.reply().expect_error(sqlstate)),
        }
    }
    outsider.ok("COMMIT");
    all_get(&mut [waiting], "UPDATE 1");
}

/// The guard applies to the committed version, not to the one that the outsider is about to commit.
#[test]
fn an_uncommitted_change_does_not_count() {
    let stage = stage(2, &[&take(SPARE, 1)]);
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; UPDATE stock SET qty = 100 WHERE id = 1");
    let (mut clients, gate) = together(&stage, 2, &vec![take(1, 1); 6]);
    gate.open();
    all_get(&mut clients, "UPDATE 0");
    outsider.ok("COMMIT");
    let mut client = stage.client();
    assert_eq!(client.ok(&take(1, 1)).tag(), "UPDATE 1");
}

/// `TARGET_AFFECT_ROW(1)` makes an error of a false guard, which needs no lock, either.
#[test]
fn a_hint_that_demands_a_row_fails_at_once() {
    let hinted = |id: usize| {
        let update = take(id, 1);
        update.replacen(
            "UPDATE",
            "UPDATE /*+ COMMIT_ON_SUCCESS TARGET_AFFECT_ROW(1) */",
            1,
        )
    };
    let stage = stage(2, &[]);
    if stage.target() == Target::Bare {
        return;
    }
    stage.client().simple(&hinted(SPARE)).expect_error("21000");
    stage.await_analysis();
    let mut outsider = outsider(&stage);
    let (mut clients, gate) = together(&stage, 2, &vec![hinted(1); 6]);
    gate.open();
    for client in &mut clients {
        client.reply().expect_error("21000");
    }
    outsider.ok("COMMIT");
}

/// A request that arrives while another one waits for the row is answered without the lock if the key exists.
#[test]
fn do_nothing_is_answered_while_the_row_is_locked() {
    for servers in [2, 3] {
        let stage = stage(servers, &[&add(SPARE), &insert(SPARE)]);
        let mut outsider = outsider(&stage);
        let mut waiting = stage.clients(5);
        for client in &mut waiting {
            client.send(&query(&add(1)));
        }
        await_lock_waiters(&stage, 1);
        let mut clients = stage.clients(8);
        for client in &mut clients {
            client.send(&query(&insert(1)));
        }
        all_get(&mut clients, "INSERT 0 0");
        outsider.ok("COMMIT");
        all_get(&mut waiting, "UPDATE 1");
    }
}

#[test]
fn do_nothing_of_several_rows_is_answered_while_one_is_locked() {
    let both = |id: usize| {
        format!("INSERT INTO stock VALUES ({id}, 5), (2, 5) ON CONFLICT (id) DO NOTHING")
    };
    let stage = stage(2, &[&add(SPARE), &both(SPARE)]);
    let mut outsider = outsider(&stage);
    let mut waiting = stage.clients(3);
    for client in &mut waiting {
        client.send(&query(&add(1)));
    }
    await_lock_waiters(&stage, 1);
    let mut clients = stage.clients(4);
    for client in &mut clients {
        client.send(&query(&both(1)));
    }
    all_get(&mut clients, "INSERT 0 0");
    outsider.ok("COMMIT");
    all_get(&mut waiting, "UPDATE 1");
}

/// An upsert that changes the row waits, as it does alone; one that arrives later and needs no lock does not.
#[test]
fn do_update_waits_and_lets_others_pass() {
    let stage = stage(2, &[&upsert(SPARE), &take(SPARE, 1)]);
    let mut outsider = outsider(&stage);
    let (mut waiting, gate) = together(&stage, 2, &vec![upsert(1); 5]);
    gate.open();
    await_lock_waiters(&stage, 1);
    let mut others = stage.clients(5);
    for client in &mut others {
        client.send(&query(&take(1, 1)));
    }
    all_get(&mut others, "UPDATE 0");
    outsider.ok("COMMIT");
    all_get(&mut waiting, "INSERT 0 1");
    assert_eq!(
        stage.direct().number("SELECT qty FROM stock WHERE id = 1"),
        5
    );
}

/// The outsider has inserted the key and not committed: all upserts of it wait, then find the row.
#[test]
fn an_uncommitted_key_is_waited_for() {
    let stage = stage(2, &[&upsert(SPARE), &insert(SPARE)]);
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; INSERT INTO stock VALUES (77, 0)");
    let (mut changing, gate) = together(&stage, 2, &vec![upsert(77); 5]);
    gate.open();
    await_lock_waiters(&stage, 1);
    let mut inserting = stage.clients(3);
    for client in &mut inserting {
        client.send(&query(&insert(77)));
    }
    assert_eq!(stage.client().value("SELECT count(*) FROM stock"), "9");
    outsider.ok("COMMIT");
    all_get(&mut changing, "INSERT 0 1");
    all_get(&mut inserting, "INSERT 0 0");
    assert_eq!(
        stage.direct().number("SELECT qty FROM stock WHERE id = 77"),
        5
    );
}

/// A row that is gone when the outsider commits.
#[test]
fn waiting_requests_find_a_deleted_row_gone() {
    let stage = stage(2, &[&add(SPARE)]);
    let mut outsider = stage.direct();
    outsider.ok("BEGIN; DELETE FROM stock WHERE id = 1");
    let (mut clients, gate) = together(&stage, 2, &vec![add(1); 6]);
    gate.open();
    await_lock_waiters(&stage, 1);
    outsider.ok("COMMIT");
    all_get(&mut clients, "UPDATE 0");
}

/// However many requests wait for the row, other work finds a server connection.
#[test]
fn requests_that_wait_for_a_row_leave_the_pool_to_others() {
    let stage = stage(2, &[&add(SPARE), &take(SPARE, 0)]);
    let mut outsider = outsider(&stage);
    let mut waiting = stage.clients(30);
    for (number, client) in waiting.iter_mut().enumerate() {
        let sql = if number % 2 == 0 { add(1) } else { take(1, 0) };
        client.send(&query(&sql));
    }
    await_lock_waiters(&stage, 1);
    let mut other = stage.client();
    for round in 1..=20 {
        other.ok(&add(2));
        assert_eq!(other.number("SELECT qty FROM stock WHERE id = 2"), round);
    }
    outsider.ok("COMMIT");
    all_get(&mut waiting, "UPDATE 1");
    assert_eq!(
        stage.direct().number("SELECT qty FROM stock WHERE id = 1"),
        0
    );
}

/// One application, two connections: it commits the first only after the second was answered.
#[test]
fn an_application_that_holds_the_row_is_answered_on_its_other_connection() {
    let stage = stage(4, &[&take(SPARE, 1), &insert(SPARE)]);
    let [mut first, mut second] = [stage.client(), stage.client()];
    let mut strangers = stage.clients(10);
    for _ in 1..=5 {
        first.ok("BEGIN");
        first.ok("SELECT FROM stock WHERE id = 1 FOR UPDATE");
        for stranger in &mut strangers {
            stranger.send(&query(&take(1, 0)));
        }
        await_lock_waiters(&stage, 1);
        assert_eq!(second.ok(&take(1, 1)).tag(), "UPDATE 0");
        assert_eq!(second.ok(&insert(1)).tag(), "INSERT 0 0");
        first.ok("UPDATE stock SET qty = 10 WHERE id = 1");
        first.ok("COMMIT");
        all_get(&mut strangers, "UPDATE 1");
        assert_eq!(
            stage.direct().number("SELECT qty FROM stock WHERE id = 1"),
            0
        );
    }
}

/// Direct writers that keep the row locked most of the time: every request is executed once.
#[test]
fn slow_direct_writers_do_not_starve_the_group() {
    let stage = stage(2, &[&add(SPARE)]);
    let done = std::sync::atomic::AtomicBool::new(false);
    let direct = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|_| {
                let mut writer = stage.direct();
                let done = &done;
                scope.spawn(move || {
                    let mut writes = 0;
                    while !done.load(std::sync::atomic::Ordering::Relaxed) {
                        writer.ok("BEGIN; UPDATE stock SET qty = qty + 1 WHERE id = 1");
                        writer.ok("SELECT pg_sleep(0.03)");
                        writer.ok("COMMIT");
                        writes += 1;
                    }
                    writes
                })
            })
            .collect();
        let mut clients = stage.clients(20);
        for _ in 0..5 {
            for client in &mut clients {
                client.send(&query(&add(1)));
            }
            all_get(&mut clients, "UPDATE 1");
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        let writes = writers.into_iter().map(|writer| writer.join().unwrap());
        writes.sum::<i64>()
    });
    let qty = stage.direct().number("SELECT qty FROM stock WHERE id = 1");
    assert_eq!(qty, direct + 100);
}
