"""psycopg 3, synchronous: types, errors, prepared statements, pipelines, cursors, COPY; then what keeps a server for itself."""
import threading

import psycopg
from psycopg.types.json import Json, Jsonb
from psycopg.types.range import Range

from stage import BIG, SLEEP, SLEEPING, URL, VALUES, Report, in_threads


def client(report):
    table = f"rows{report.number}"
    # Autocommit, so that every section says where its transactions begin.
    with psycopg.connect(URL, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, note text)")
        types(connection, report)
        big_values(connection, report)
        errors(connection, report, table)
        savepoints(connection, report, table)
        prepared(connection, report, table)
        batches(connection, report, table)
        pipeline(connection, report, table)
        server_cursor(connection, report)
        copy(connection, report, table)
        notices(connection, report)
        settings(connection, report)
        unusual(connection, report)
        for _ in range(20):
            connection.execute("UPDATE shared SET hits = hits + %s WHERE id = %s", [1, 1])


def types(connection, report):
    for binary in (False, True):
        cursor = connection.cursor(binary=binary)
        for name, value in VALUES:
            report.say("types", name, cursor.execute(f"SELECT %s::{name}", [value]).fetchone()[0])
        document = {"a": [1, None, "ü"], "b": {"c": 1.5}}
        report.say("json", cursor.execute("SELECT %s, %s", [Json(document), Jsonb(document)]).fetchone())
        report.say("range", cursor.execute("SELECT %s::int4range", [Range(1, 5)]).fetchone())
        report.say("row", cursor.execute("SELECT ROW(1, 'a', NULL), '(1,2)'::point, '10.0.0.1/8'::inet").fetchone())


def big_values(connection, report):
    for binary in (False, True):
        cursor = connection.cursor(binary=binary)
        text, data = "ü" * (BIG // 2), bytes(range(256)) * (BIG // 256)
        report.say("big", *cursor.execute("SELECT %s::text, %s::bytea", [text, data]).fetchone())
        cursor.execute("SELECT n, repeat('x', 1000) FROM generate_series(1, 3000) n")
        report.say("many rows", sum(len(row[1]) for row in cursor))


def errors(connection, report, table):
    try:
        with connection.transaction():
            connection.execute(f"INSERT INTO {table} VALUES (1, 'undone')")
            connection.execute("SELECT 1 / %s", [0])
    except psycopg.Error as error:
        say_error(report, error)
    connection.execute("BEGIN")
    for statement in ("SELECT nothing", "SELECT 1", f"INSERT INTO {table} VALUES (2, 'undone')"):
        try:
            connection.execute(statement)
        except psycopg.Error as error:
            say_error(report, error)
    report.say("status", connection.info.transaction_status.name)
    connection.rollback()
    report.say("status", connection.info.transaction_status.name)
    report.say("rows", connection.execute(f"SELECT count(*) FROM {table}").fetchone())


def say_error(report, error):
    report.say("error", error.sqlstate, error.diag.message_primary, error.diag.statement_position)


def savepoints(connection, report, table):
    with connection.transaction():
        connection.execute(f"INSERT INTO {table} VALUES (10, 'kept')")
        try:
            with connection.transaction():
                connection.execute(f"INSERT INTO {table} VALUES (11, 'undone')")
                connection.execute(f"INSERT INTO {table} VALUES (10, 'twice')")
        except psycopg.errors.UniqueViolation as error:
            say_error(report, error)
    with connection.transaction(force_rollback=True):
        connection.execute(f"DELETE FROM {table}")
    report.say("savepoints", connection.execute(f"SELECT * FROM {table}").fetchall())


def prepared(connection, report, table):
    found = []
    for number in range(20):
        cursor = connection.execute(f"SELECT %s::int + count(*) FROM {table}", [number], prepare=True)
        found.append(cursor.fetchone()[0])
    report.say("prepared", found)
    connection.prepare_threshold = 1
    for number in range(20):
        # More than one server may have to learn it, and some statements are dropped again.
        connection.execute(f"SELECT %s::int * {number % 7}", [number])
    report.say("still there", connection.execute("SELECT 1").fetchone())


def batches(connection, report, table):
    cursor = connection.cursor()
    cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s) RETURNING id", [(100 + n, f"n{n}") for n in range(50)], returning=True)
    found = [cursor.fetchone()[0]]
    while cursor.nextset():
        found.append(cursor.fetchone()[0])
    report.say("batch", found)


def pipeline(connection, report, table):
    with connection.pipeline() as pipe:
        cursors = [connection.execute("SELECT %s::int", [n]) for n in range(10)]
        pipe.sync()
        report.say("pipeline", [cursor.fetchone()[0] for cursor in cursors])
    try:
        with connection.pipeline() as pipe:
            connection.execute(f"INSERT INTO {table} VALUES (200, 'undone')")
            connection.execute("SELECT 1 / %s", [0])
            connection.execute(f"INSERT INTO {table} VALUES (201, 'never run')")
    except psycopg.Error as error:
        say_error(report, error)
    with connection.pipeline() as pipe:
        with connection.transaction():
            connection.execute(f"INSERT INTO {table} VALUES (202, 'kept')")
        pipe.sync()
        connection.execute(f"INSERT INTO {table} VALUES (203, 'kept')")
    report.say("pipelined", connection.execute(f"SELECT id FROM {table} WHERE id >= 200 ORDER BY id").fetchall())


def server_cursor(connection, report):
    with connection.transaction(), connection.cursor(name="walk", scrollable=True) as cursor:
        cursor.itersize = 7
        cursor.execute("SELECT n, n * n FROM generate_series(1, %s) n", [50])
        report.say("cursor", cursor.fetchmany(3))
        report.say("cursor", len(list(cursor)))
        cursor.scroll(0, mode="absolute")
        report.say("cursor", cursor.fetchone())


def copy(connection, report, table):
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY {table} FROM STDIN") as into:
            for number in range(1000):
                into.write_row((1000 + number, None if number % 3 == 0 else f"tab\t{number}"))
        with cursor.copy(f"COPY {table} FROM STDIN (FORMAT binary)") as into:
            into.set_types(["int4", "text"])
            for number in range(1000):
                into.write_row((3000 + number, "binary"))
        for options in ("", "(FORMAT binary)", "(FORMAT csv, HEADER)"):
            with cursor.copy(f"COPY (SELECT * FROM {table} ORDER BY id) TO STDOUT {options}") as out:
                report.say("copy", b"".join(out))
        try:
            with cursor.copy(f"COPY {table} FROM STDIN") as into:
                into.write("not a number\tx\n")
        except psycopg.Error as error:
            say_error(report, error)
        try:
            with cursor.copy(f"COPY {table} FROM STDIN") as into:
                into.write("9999\tgiven up\n")
                raise ValueError("changed its mind")
        except ValueError as error:
            report.say("copy given up", str(error))
    report.say("copied", connection.execute(f"SELECT count(*) FROM {table}").fetchone())


def notices(connection, report):
    connection.add_notice_handler(lambda diag: report.say("notice", diag.severity, diag.sqlstate, diag.message_primary))
    connection.execute("DO $$ BEGIN RAISE NOTICE 'heard %', 1; RAISE WARNING 'twice'; END $$")
    connection.execute("DROP TABLE IF EXISTS missing")


def settings(connection, report):
    connection.execute("SET TimeZone = 'Asia/Tokyo'")
    connection.execute("SET application_name = 'mine'")
    connection.execute("SELECT set_config('DateStyle', 'SQL, DMY', false)")
    for name in ("TimeZone", "application_name", "DateStyle"):
        report.say("setting", connection.execute(f"SHOW {name}").fetchone())
    with connection.transaction():
        connection.execute("SET LOCAL TimeZone = 'Europe/Oslo'")
        report.say("local", connection.execute("SHOW TimeZone").fetchone())
    connection.execute("RESET TimeZone")
    report.say("reset", connection.execute("SELECT current_setting('TimeZone')").fetchone())
    report.say("reported", connection.info.parameter_status("application_name"), connection.info.encoding)


def unusual(connection, report):
    cursor = connection.execute("")
    report.say("empty", cursor.statusmessage, cursor.rowcount)
    cursor = connection.execute("SELECT 1; SELECT 'two', 2; ; SELECT 3 WHERE false")
    while True:
        report.say("several", cursor.statusmessage, cursor.fetchall())
        if not cursor.nextset():
            break
    try:
        connection.execute("SELECT 1; SELECT 1 / 0; SELECT 2")
    except psycopg.Error as error:
        say_error(report, error)


def alone(report):
    """What one client does while the others are gone: some of it keeps its server."""
    with psycopg.connect(URL, autocommit=True) as connection, psycopg.connect(URL, autocommit=True) as observer:
        cancel(connection, observer, report)
        connection.execute("LISTEN news")
        connection.execute("NOTIFY news, 'own'")
        observer.execute("SELECT pg_notify('news', 'from another')")
        heard = connection.notifies(timeout=60, stop_after=2)
        report.say("heard", [(each.channel, each.payload) for each in heard])
        connection.execute("UNLISTEN *")
        connection.execute("CREATE TEMPORARY TABLE mine AS SELECT 42 AS answer")
        report.say("temporary", connection.execute("SELECT answer FROM mine").fetchone())
        with connection.cursor(name="held", withhold=True) as cursor:
            cursor.execute("SELECT generate_series(1, 5)")
            report.say("held", cursor.fetchall())
        report.say("locks", connection.execute("SELECT pg_try_advisory_lock(7), pg_advisory_unlock(7)").fetchone())
        connection.execute("DISCARD ALL")
        report.say("sum", connection.execute("SELECT hits FROM shared").fetchone())


def cancel(connection, observer, report):
    def once_it_runs():
        while observer.execute(SLEEPING).fetchone() != (1,):
            pass
        connection.cancel_safe()

    helper = threading.Thread(target=once_it_runs)
    helper.start()
    try:
        connection.execute(SLEEP)
    except psycopg.Error as error:
        say_error(report, error)
    helper.join()
    report.say("after cancel", connection.execute("SELECT 1").fetchone())


with psycopg.connect(URL, autocommit=True) as setup:
    setup.execute("CREATE TABLE shared (id int PRIMARY KEY, hits int NOT NULL)")
    setup.execute("INSERT INTO shared VALUES (1, 0)")
in_threads(client)
last = Report("alone")
alone(last)
last.show()
