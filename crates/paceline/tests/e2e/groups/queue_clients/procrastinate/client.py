"""Procrastinate as an application uses it; the commands are described in ../mod.rs."""

import asyncio
import sys

from procrastinate import App, PsycopgConnector

URL, COMMAND, *RANGE = sys.argv[1:]
app = App(connector=PsycopgConnector(conninfo=URL, min_size=1, max_size=8))


@app.task(name="order")
async def order(job):
    await app.connector.execute_query_async("INSERT INTO done (job) VALUES (%(job)s)", job=job)


async def migrate():
    await app.schema_manager.apply_schema_async()


async def enqueue():
    first, last = map(int, RANGE)
    for job in range(first, last + 1):
        await order.defer_async(job=job)


async def work():
    # Polls less often than any test takes: who is not notified does not work.
    await app.run_worker_async(concurrency=8, fetch_job_polling_interval=3600)


async def recover():
    for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=0):
        await app.job_manager.retry_job(job)


async def main():
    async with app.open_async():
        await {"migrate": migrate, "enqueue": enqueue, "work": work, "recover": recover}[COMMAND]()


asyncio.run(main())
