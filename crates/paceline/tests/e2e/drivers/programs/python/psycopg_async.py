"""psycopg 3 with asyncio: pools of tasks on one connection each, pipelines, COPY, cursors, cancelling, notifications."""
import asyncio

import psycopg

from stage import SLEEP, SLEEPING, URL, VALUES, Report, in_tasks


async def connect():
    return await psycopg.AsyncConnection.connect(URL, autocommit=True)


async def client(report):
    table = f"rows{report.number}"
    async with await connect() as connection:
        await connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, note text)")
        await types(connection, report)
        await transactions(connection, report, table)
        await pipeline(connection, report, table)
        await copy(connection, report, table)
        await cursors(connection, report, table)
        for _ in range(20):
            await connection.execute("UPDATE shared SET hits = hits + 1 WHERE id = %s", [1], prepare=True)


async def types(connection, report):
    for binary in (False, True):
        async with connection.cursor(binary=binary) as cursor:
            for name, value in VALUES:
                await cursor.execute(f"SELECT %s::{name}", [value])
                report.say("types", name, (await cursor.fetchone())[0])


async def transactions(connection, report, table):
    try:
        async with connection.transaction():
            await connection.execute(f"INSERT INTO {table} VALUES (1, 'undone')")
            async with connection.transaction():
                await connection.execute(f"INSERT INTO {table} VALUES (2, 'undone')")
            await connection.execute("SELECT 'x'::int")
    except psycopg.Error as error:
        report.say("error", error.sqlstate, error.diag.message_primary)
    cursor = await connection.execute(f"SELECT count(*) FROM {table}")
    report.say("rows", await cursor.fetchone())


async def pipeline(connection, report, table):
    async with connection.pipeline() as pipe:
        cursors = [await connection.execute(f"INSERT INTO {table} VALUES (%s, 'piped') RETURNING id", [n]) for n in range(20)]
        await pipe.sync()
        report.say("pipeline", [(await cursor.fetchone())[0] for cursor in cursors])
    try:
        async with connection.pipeline():
            await connection.execute(f"INSERT INTO {table} VALUES (0, 'twice')")
            await connection.execute("SELECT 1")
    except psycopg.Error as error:
        report.say("error", type(error).__name__, error.sqlstate)
    again = await connection.execute("SELECT 'goes on'")
    report.say("pipeline", await again.fetchone())


async def copy(connection, report, table):
    async with connection.cursor() as cursor:
        async with cursor.copy(f"COPY {table} (id, note) FROM STDIN") as into:
            for number in range(5000):
                await into.write_row((1000 + number, "x" * 100))
        data = b""
        async with cursor.copy(f"COPY (SELECT * FROM {table} ORDER BY id) TO STDOUT") as out:
            async for block in out:
                data += block
        report.say("copy", data)


async def cursors(connection, report, table):
    async with connection.transaction(), connection.cursor(name="walk") as cursor:
        await cursor.execute(f"SELECT id FROM {table} ORDER BY id")
        report.say("cursor", await cursor.fetchmany(2), len(await cursor.fetchall()))
    async with connection.cursor() as cursor:
        report.say("stream", [row[0] async for row in cursor.stream("SELECT generate_series(1, 20)")])


async def alone(report):
    async with await connect() as connection, await connect() as observer:
        running = asyncio.create_task(connection.execute(SLEEP))
        while (await (await observer.execute(SLEEPING)).fetchone())[0] == 0:
            pass
        await connection.cancel_safe()
        try:
            await running
        except psycopg.Error as error:
            report.say("cancelled", error.sqlstate)
        await connection.execute("LISTEN news")
        await observer.execute("NOTIFY news, 'hello'")
        report.say("heard", [each.payload async for each in connection.notifies(timeout=60, stop_after=1)])
        report.say("sum", await (await connection.execute("SELECT hits FROM shared")).fetchone())


async def main():
    async with await connect() as setup:
        await setup.execute("CREATE TABLE shared (id int PRIMARY KEY, hits int NOT NULL)")
        await setup.execute("INSERT INTO shared VALUES (1, 0)")
    await in_tasks(client)
    last = Report("alone")
    await alone(last)
    last.show()


asyncio.run(main())
