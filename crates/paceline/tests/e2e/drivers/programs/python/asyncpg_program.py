"""asyncpg: everything binary and prepared; batches, cursors, COPY, savepoints; cancelling by a time-out; listeners."""
import asyncio
import decimal
import io
import json

import asyncpg

from stage import BIG, SLEEP, SLEEPING, URL, VALUES, Report, in_tasks


async def client(report):
    table = f"rows{report.number}"
    connection = await asyncpg.connect(URL)
    await connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, note text)")
    await types(connection, report)
    await big_values(connection, report)
    await transactions(connection, report, table)
    await prepared(connection, report, table)
    await copy(connection, report, table)
    await cursors(connection, report, table)
    await sessions(connection, report)
    await unusual(connection, report)
    for _ in range(20):
        await connection.execute("UPDATE shared SET hits = hits + $1 WHERE id = $2", 1, 1)
    await connection.close()


async def types(connection, report):
    for name, value in VALUES:
        report.say("types", name, await connection.fetchval(f"SELECT $1::{name}", value))
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    report.say("json", await connection.fetchval("SELECT $1::jsonb", {"a": [1, None, "ü"]}))
    report.say("nested", await connection.fetchval("SELECT $1::int[][]", [[1, 2], [3, None]]))
    report.say("record", await connection.fetchrow("SELECT ROW(1, 'a'::text, NULL::int) AS r, '[1,5)'::int4range AS s"))
    await connection.execute(f"CREATE TYPE mood{report.number} AS ENUM ('sad', 'glad')")
    report.say("enum", await connection.fetchval(f"SELECT $1::mood{report.number}", "glad"))
    await connection.execute(f"CREATE TYPE pair{report.number} AS (a int, b numeric)")
    report.say("composite", await connection.fetchval(f"SELECT $1::pair{report.number}", (1, decimal.Decimal("2.50"))))


async def big_values(connection, report):
    text, data = "ü" * (BIG // 2), bytes(range(256)) * (BIG // 256)
    report.say("big", *await connection.fetchrow("SELECT $1::text, $2::bytea", text, data))
    rows = await connection.fetch("SELECT n, repeat('x', 1000) FROM generate_series(1, 3000) n")
    report.say("many rows", sum(len(row[1]) for row in rows))


def say_error(report, error):
    report.say("error", error.sqlstate, type(error).__name__, str(error))


async def transactions(connection, report, table):
    try:
        async with connection.transaction():
            await connection.execute(f"INSERT INTO {table} VALUES (1, 'undone')")
            await connection.fetchval("SELECT 1 / $1::int", 0)
    except asyncpg.PostgresError as error:
        say_error(report, error)
    async with connection.transaction(isolation="serializable"):
        await connection.execute(f"INSERT INTO {table} VALUES (1, 'kept')")
        try:
            async with connection.transaction():
                await connection.execute(f"INSERT INTO {table} VALUES (1, 'twice')")
        except asyncpg.PostgresError as error:
            say_error(report, error)
        report.say("isolation", await connection.fetchval("SHOW transaction_isolation"))
    report.say("status", connection.is_in_transaction(), await connection.fetch(f"SELECT * FROM {table}"))


async def prepared(connection, report, table):
    statement = await connection.prepare(f"SELECT $1::int + count(*) FROM {table}")
    report.say("prepared", [await statement.fetchval(number) for number in range(20)])
    report.say("attributes", statement.get_parameters(), statement.get_attributes(), statement.get_statusmsg())
    await connection.executemany(f"INSERT INTO {table} VALUES ($1, $2)", [(100 + n, None) for n in range(200)])
    try:
        await connection.executemany(f"INSERT INTO {table} VALUES ($1, 'undone')", [(900,), (901,), (900,)])
    except asyncpg.PostgresError as error:
        say_error(report, error)
    many = await connection.fetchmany("SELECT $1::int * 2", [(1,), (2,), (3,)])
    report.say("batch", many, await connection.fetchval(f"SELECT count(*) FROM {table}"))
    # Another shape behind a prepared statement's back.
    await connection.execute(f"CREATE TABLE shape{report.number} (a int)")
    report.say("shape", await connection.fetch(f"SELECT * FROM shape{report.number}"))
    await connection.execute(f"ALTER TABLE shape{report.number} ADD b text; INSERT INTO shape{report.number} VALUES (1, 'b')")
    report.say("shape", await connection.fetch(f"SELECT * FROM shape{report.number}"))


async def copy(connection, report, table):
    records = [(1000 + number, None if number % 3 == 0 else "ü") for number in range(3000)]
    report.say("copy", await connection.copy_records_to_table(table, records=records))
    out = io.BytesIO()
    await connection.copy_from_query(f"SELECT * FROM {table} WHERE id > $1 ORDER BY id", 1, output=out, format="csv")
    report.say("copy", out.getvalue())
    try:
        await connection.copy_to_table(table, source=io.BytesIO(b"1\tx\n"))
    except asyncpg.PostgresError as error:
        say_error(report, error)


async def cursors(connection, report, table):
    async with connection.transaction():
        walk = await connection.cursor(f"SELECT id FROM {table} WHERE id > $1 ORDER BY id", 100)
        report.say("cursor", await walk.fetch(3), await walk.forward(5), await walk.fetchrow())
        total = 0
        async for row in connection.cursor(f"SELECT id FROM {table}", prefetch=50):
            total += row["id"]
        report.say("cursor", total)


async def sessions(connection, report):
    connection.add_log_listener(lambda _, message: report.say("notice", message.sqlstate, message.message))
    await connection.execute("DO $$ BEGIN RAISE NOTICE 'heard'; END $$")
    await connection.execute("SET TimeZone = 'Asia/Tokyo'")
    report.say("setting", await connection.fetchval("SHOW TimeZone"), connection.get_settings().TimeZone)
    await connection.reset()
    # Its listeners are called by the event loop.
    await asyncio.sleep(0)
    report.say("reset", await connection.fetchval("SHOW TimeZone"))


async def unusual(connection, report):
    report.say("empty", await connection.fetch(""), await connection.fetch("-- nothing"))
    report.say("several", await connection.execute("SELECT 1; CREATE TEMPORARY TABLE gone (a int); DROP TABLE gone"))
    try:
        await connection.execute("SELECT 1; SELECT 1 / 0")
    except asyncpg.PostgresError as error:
        say_error(report, error)


async def alone(report):
    connection, observer = await asyncpg.connect(URL), await asyncpg.connect(URL)
    running = asyncio.create_task(connection.execute(SLEEP))
    while await observer.fetchval(SLEEPING) == 0:
        pass
    running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        report.say("cancelled", await connection.fetchval("SELECT 1"))
    heard = asyncio.Queue()

    def hear(_connection, _process, channel, payload):
        heard.put_nowait((channel, payload))

    await connection.add_listener("news", hear)
    await observer.execute("SELECT pg_notify('news', $1)", "hello")
    report.say("heard", await asyncio.wait_for(heard.get(), 60))
    await connection.remove_listener("news", hear)
    await connection.reset()
    await observer.close()
    async with asyncpg.create_pool(URL, min_size=4, max_size=4) as pool:
        report.say("pool", await asyncio.gather(*(pool.fetchval("SELECT $1::int", n) for n in range(40))))
    report.say("sum", await connection.fetchval("SELECT hits FROM shared"))
    await connection.close()


async def main():
    setup = await asyncpg.connect(URL)
    await setup.execute("CREATE TABLE shared (id int PRIMARY KEY, hits int NOT NULL); INSERT INTO shared VALUES (1, 0)")
    await setup.close()
    await in_tasks(client)
    last = Report("alone")
    await alone(last)
    last.show()


asyncio.run(main())
