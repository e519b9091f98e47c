"""What the Python programs share: the values that make the round trip, and clients whose lines are printed in order."""
import asyncio
import datetime
import decimal
import hashlib
import sys
import threading
import uuid

CLIENTS = 4
URL = sys.argv[1]
BIG = 1 << 20
SLEEP = "SELECT pg_sleep(600)"
SLEEPING = f"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = '{SLEEP}' AND state = 'active'"

# Type in PostgreSQL, value in Python.
VALUES = [
    ("int2", -32768),
    ("int4", 2147483647),
    ("int8", -9223372036854775808),
    ("numeric", decimal.Decimal("12345678901234567890.0123456789")),
    ("float4", 1.5),
    ("float8", -2.2250738585072014e-308),
    ("bool", True),
    ("text", "Grüße, 世界 'quoted' \\ \n"),
    ("varchar", ""),
    ("bytea", bytes(range(256))),
    ("date", datetime.date(1999, 12, 31)),
    ("time", datetime.time(23, 59, 59, 999999)),
    ("timestamp", datetime.datetime(2024, 2, 29, 12, 0, 0, 1)),
    ("timestamptz", datetime.datetime(2024, 2, 29, 12, 0, tzinfo=datetime.timezone.utc)),
    ("interval", datetime.timedelta(days=3, seconds=4, microseconds=5)),
    ("uuid", uuid.UUID("00010203-0405-0607-0809-0a0b0c0d0e0f")),
    ("int4[]", [1, None, 3]),
    ("text[]", ["a,b", '"', None, ""]),
    ("int4", None),
    ("text", None),
    ("int4[]", []),
]


class Report:
    """The lines of one client, kept until it is its turn to be shown."""

    def __init__(self, number):
        self.number = number
        self.lines = []

    def say(self, section, *values):
        self.lines.append(f"client {self.number}: {section}: {' '.join(shown(value) for value in values)}")

    def show(self):
        print(*self.lines, sep="\n")


def shown(value):
    if isinstance(value, (str, bytes)) and len(value) > 1000:
        data = value.encode() if isinstance(value, str) else value
        return f"{len(data)} bytes, {hashlib.sha256(data).hexdigest()}"
    return repr(value)


def in_threads(client):
    """Runs client(report) for every client at once; prints what they said."""
    reports = [Report(number) for number in range(CLIENTS)]
    failed = []

    def run(report):
        try:
            client(report)
        except BaseException:
            failed.append(report.number)
            raise

    threads = [threading.Thread(target=run, args=[report]) for report in reports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for report in reports:
        report.show()
    if failed:
        sys.exit(f"clients failed: {sorted(failed)}")


async def in_tasks(client):
    """The same for coroutines."""
    reports = [Report(number) for number in range(CLIENTS)]
    await asyncio.gather(*(client(report) for report in reports))
    for report in reports:
        report.show()
