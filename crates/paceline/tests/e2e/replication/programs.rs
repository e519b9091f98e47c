//! pg_basebackup, pg_receivewal and pg_recvlogical, as their users call them.

use super::{small_cluster, stage};
use crate::harness::caretaker;
use crate::harness::programs::{output, program_for};
use crate::harness::{Stage, until};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// The program with the way to the target; `None` if it is left out.
fn to(stage: &Stage, name: &str) -> Option<Command> {
    let major = stage.direct().number("SHOW server_version_num") / 10_000;
    let mut command = program_for(name, major)?;
    let port = stage.port().to_string();
    command.args(["-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-w"]);
    Some(command)
}

/// Two connections at once, one for the files and one for the WAL of that time.
#[test]
fn pg_basebackup_copies_the_server() {
    let stage = Stage::on(small_cluster()).open();
    stage
        .direct()
        .ok("CREATE TABLE t AS SELECT i FROM generate_series(1, 100000) i");
    let Some(mut backup) = to(&stage, "pg_basebackup") else {
        return;
    };
    let folder = caretaker::folder("b").join("data");
    backup
        .args(["-N", "-X", "stream", "-c", "fast", "-D"])
        .arg(&folder);
    output(&mut backup);
    assert!(folder.join("backup_label").exists());
    let major = stage.direct().number("SHOW server_version_num") / 10_000;
    // Files, their sizes and checksums, and that the WAL between the backup's beginning and end exists.
    if let Some(mut verify) = program_for("pg_verifybackup", major) {
        verify.arg(&folder);
        assert!(output(&mut verify).contains("successfully verified"));
    }
}

/// As a tar file with the WAL in it: one connection, one long result.
#[test]
fn pg_basebackup_writes_a_tar_file() {
    let stage = Stage::on(small_cluster()).open();
    let Some(mut backup) = to(&stage, "pg_basebackup") else {
        return;
    };
    let folder = caretaker::folder("b").join("tar");
    backup
        .args(["-N", "-X", "fetch", "-c", "fast", "-F", "tar", "-D"])
        .arg(&folder);
    output(&mut backup);
    let size = std::fs::metadata(folder.join("base.tar")).unwrap().len();
    assert!(size > 16 << 20, "{size}");
}

#[test]
fn pg_receivewal_follows_the_server() {
    let stage = stage(&[]);
    let Some(mut create) = to(&stage, "pg_receivewal") else {
        return;
    };
    let slot = format!("wal_of_{}", stage.database);
    output(create.args(["--create-slot", "-S", &slot]));
    let folder = caretaker::folder("w");
    let mut receive = to(&stage, "pg_receivewal").unwrap();
    receive
        .args(["-S", &slot, "--synchronous", "-D"])
        .arg(&folder)
        .stderr(Stdio::null());
    let mut child = receive.spawn().unwrap();
    let _adopted = caretaker::adopt("KILL", child.id());
    let mut direct = stage.direct();
    until("it streams", || {
        let sql = format!(
            "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{slot}' AND active"
        );
        direct.number(&sql) == 1
    });
    direct.ok("CREATE TABLE t (n int); INSERT INTO t VALUES (1)");
    let written = direct.value("SELECT pg_walfile_name(pg_current_wal_lsn())");
    direct.ok("SELECT pg_switch_wal()");
    until("the segment is complete", || folder.join(&written).exists());
    assert_same_segment(&stage, &folder, &written);
    caretaker::signal("INT", child.id());
    assert!(child.wait().unwrap().success());
    let mut drop_slot = to(&stage, "pg_receivewal").unwrap();
    until("the slot is free", || {
        let sql = format!(
            "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{slot}' AND NOT active"
        );
        direct.number(&sql) == 1
    });
    output(drop_slot.args(["--drop-slot", "-S", &slot]));
}

fn assert_same_segment(stage: &Stage, folder: &Path, name: &str) {
    let here = std::fs::read(folder.join(name)).unwrap();
    let data = stage.direct().value("SHOW data_directory");
    let there = std::fs::read(Path::new(&data).join("pg_wal").join(name)).unwrap();
    assert!(here == there, "segment {name} differs");
}

#[test]
fn pg_recvlogical_decodes_changes() {
    let stage = stage(&[]);
    stage.direct().ok("CREATE TABLE t (n int)");
    let Some(mut create) = to(&stage, "pg_recvlogical") else {
        return;
    };
    let slot = format!("changes_of_{}", stage.database);
    output(create.args([
        "-d",
        &stage.database,
        "-S",
        &slot,
        "--create-slot",
        "-P",
        "test_decoding",
    ]));
    let mut receive = to(&stage, "pg_recvlogical").unwrap();
    receive.args([
        "-d",
        &stage.database,
        "-S",
        &slot,
        "--start",
        "--no-loop",
        "-f",
        "-",
    ]);
    // It complains when it is interrupted, here as with PostgreSQL itself.
    receive.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = receive.spawn().unwrap();
    let _adopted = caretaker::adopt("KILL", child.id());
    let mut client = stage.client();
    client.ok("INSERT INTO t VALUES (1), (2)");
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let lines: Vec<String> = stdout.lines().take(4).map(Result::unwrap).collect();
    assert!(lines[0].starts_with("BEGIN "), "{lines:?}");
    assert_eq!(lines[1], "table public.t: INSERT: n[integer]:1");
    assert_eq!(lines[2], "table public.t: INSERT: n[integer]:2");
    assert!(lines[3].starts_with("COMMIT "), "{lines:?}");
    caretaker::signal("INT", child.id());
    assert!(child.wait().unwrap().success());
    let mut direct = stage.direct();
    until("the slot is free", || {
        let sql = format!(
            "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{slot}' AND NOT active"
        );
        direct.number(&sql) == 1
    });
    let mut drop_slot = to(&stage, "pg_recvlogical").unwrap();
    output(drop_slot.args(["-d", &stage.database, "-S", &slot, "--drop-slot"]));
}

/// PostgreSQL itself as the client: a subscription in one database to a publication in another.
#[test]
fn a_subscription_copies_and_follows() {
    let stage = stage(&[]);
    let mut source = stage.direct();
    source.ok("CREATE TABLE t (n int); INSERT INTO t VALUES (1); CREATE PUBLICATION p FOR TABLE t");
    let slot = format!("sub_of_{}", stage.database);
    source.ok(&format!(
        "SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')"
    ));
    let target = stage.cluster.database();
    let mut there = stage.cluster.client(&target);
    there.ok("CREATE TABLE t (n int)");
    there.ok(&format!(
        "CREATE SUBSCRIPTION s CONNECTION 'host=127.0.0.1 port={} user=postgres dbname={}' PUBLICATION p WITH (slot_name = {slot}, create_slot = false)",
        stage.port(),
        stage.database
    ));
    until("the table is copied", || {
        there.number("SELECT count(*) FROM t") == 1
    });
    source.ok("INSERT INTO t VALUES (2)");
    until("the change has arrived", || {
        there.number("SELECT count(*) FROM t") == 2
    });
    there.ok("DROP SUBSCRIPTION s");
}
