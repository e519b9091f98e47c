#!/usr/bin/env python3
"""Measures how one client slows down another: neighbours.py PORT LOAD.

The first client repeats LOAD while the second one sends SELECT 1 and waits for the answer:
    nothing     there is no first client
    pipeline    a unit of 1,000,000 messages (Bind and Execute of an INSERT) with one Sync at its end
    comments    queries with 58 KB of nested comments
    insert      prints the seconds for 100,000 rows, sent like the executemany of a driver; there is no second client
Prints the 50th and 99th percentile and the maximum of the second client's latency in milliseconds, and the number of its queries.
"""

import multiprocessing
import selectors
import sys
import time

from raw_client import EXECUTE, READY, SYNC, Client, bind, message, parse, query

SECONDS_MAX = 20


def rows(first, count):
    """Yields Bind and Execute of the statement `add` for each row."""
    for key in range(first, first + count):
        yield bind(b"add", (str(key).encode(), b"x" * 20)) + EXECUTE


def send_rows(client, number):
    """Sends a unit of `number` rows. Like a driver, reads answers while it sends."""
    add = b"INSERT INTO neighbour (id, text) VALUES ($1, $2)"
    client.ask(message(b"C", b"Sadd\0") + parse(b"add", add) + SYNC)
    client = client.socket
    waiting = selectors.DefaultSelector()
    waiting.register(client, selectors.EVENT_READ | selectors.EVENT_WRITE)
    client.setblocking(False)
    first, unsent, end = 0, memoryview(b""), b""
    while end[-6:-1] != READY:
        for _, events in waiting.select():
            if events & selectors.EVENT_READ:
                end = (end + client.recv(1 << 20))[-6:]
            if events & selectors.EVENT_WRITE and not unsent:
                count = min(200, number - first)
                unsent = memoryview(b"".join(rows(first, count)) + (SYNC if first + count == number else b""))
                first += count
            if events & selectors.EVENT_WRITE and unsent:
                unsent = unsent[client.send(unsent):]
            if first == number and not unsent:
                waiting.modify(client, selectors.EVENT_READ)
    client.setblocking(True)


def comments():
    return b"/*" * 14_500 + b"*/" * 14_500 + b"SELECT 1"


def load(port, kind, loaded):
    client = Client(port)
    loaded.set()
    while True:
        if kind == "pipeline":
            send_rows(client, 500_000)
        else:
            client.ask(query(comments()))


def measure(port, kind):
    loaded = multiprocessing.Event()
    other = multiprocessing.Process(target=load, args=(port, kind, loaded), daemon=True)
    if kind != "nothing":
        other.start()
        loaded.wait()
    client, times, end = Client(port), [], time.monotonic() + SECONDS_MAX
    while time.monotonic() < end:
        begun = time.perf_counter()
        client.ask(query(b"SELECT 1"))
        times.append((time.perf_counter() - begun) * 1000)
    if kind != "nothing":
        other.terminate()
    times.sort()
    print(f"{times[len(times) // 2]:.2f} {times[len(times) * 99 // 100]:.2f} {times[-1]:.2f} {len(times)}")


def main():
    port, kind = int(sys.argv[1]), sys.argv[2]
    client = Client(port)
    client.ask(query(b"CREATE TABLE IF NOT EXISTS neighbour (id int, text text); TRUNCATE neighbour"))
    if kind != "insert":
        return measure(port, kind)
    begun = time.perf_counter()
    send_rows(client, 100_000)
    print(f"{time.perf_counter() - begun:.2f}")


main()
