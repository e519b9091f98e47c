#!/usr/bin/env python3
"""Measures what one client costs another: neighbours.py PORT LOAD.

LOAD is what the first client does, as often as it can within the time, while a second one sends SELECT 1 and waits for the answer:
    nothing     the second client is alone
    pipeline    one unit of 1,000,000 messages (Bind and Execute of an INSERT), with one Sync at its end
    comments    queries of 58 KB of nested comments
    insert      prints the seconds that 100,000 rows take, sent as a driver's executemany sends them; no second client
Prints the 50th and 99th percentile and the maximum of the second client's times in milliseconds, and how many there are.
"""

import multiprocessing
import selectors
import socket
import struct
import sys
import time

READY = b"Z\0\0\0\5"
SECONDS_MAX = 20
SYNC = b"S\0\0\0\4"


def message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body


def connect(port):
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    parameters = b"user\0postgres\0database\0postgres\0\0"
    client.sendall(struct.pack("!II", 8 + len(parameters), 3 << 16) + parameters)
    until_ready(client)
    return client


def until_ready(client):
    """Reads one answer to its end. (ReadyForQuery has six bytes.)"""
    end = b""
    while end[-6:-1] != READY:
        part = client.recv(1 << 20)
        if not part:
            sys.exit("the connection was closed")
        end = (end + part)[-6:]


def ask(client, text):
    client.sendall(message(b"Q", text + b"\0"))
    until_ready(client)


def rows(first, count):
    """Bind and Execute of the statement `add`, once for each row."""
    execute = message(b"E", b"\0" + struct.pack("!I", 0))
    for key in range(first, first + count):
        value = str(key).encode()
        values = struct.pack("!I", len(value)) + value + struct.pack("!I", 20) + b"x" * 20
        yield message(b"B", b"\0add\0" + struct.pack("!HH", 0, 2) + values + struct.pack("!H", 0)) + execute


def send_rows(client, number):
    """One unit of so many rows. Answers are read while the rest is still being sent, as drivers do."""
    statement = b"add\0INSERT INTO neighbour (id, text) VALUES ($1, $2)\0" + struct.pack("!H", 0)
    client.sendall(message(b"C", b"Sadd\0") + message(b"P", statement) + SYNC)
    until_ready(client)
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
    client = connect(port)
    loaded.set()
    while True:
        if kind == "pipeline":
            send_rows(client, 500_000)
        else:
            ask(client, comments())


def measure(port, kind):
    loaded = multiprocessing.Event()
    other = multiprocessing.Process(target=load, args=(port, kind, loaded), daemon=True)
    if kind != "nothing":
        other.start()
        loaded.wait()
    client, times, end = connect(port), [], time.monotonic() + SECONDS_MAX
    while time.monotonic() < end:
        begun = time.perf_counter()
        ask(client, b"SELECT 1")
        times.append((time.perf_counter() - begun) * 1000)
    if kind != "nothing":
        other.terminate()
    times.sort()
    print(f"{times[len(times) // 2]:.2f} {times[len(times) * 99 // 100]:.2f} {times[-1]:.2f} {len(times)}")


def main():
    port, kind = int(sys.argv[1]), sys.argv[2]
    client = connect(port)
    ask(client, b"CREATE TABLE IF NOT EXISTS neighbour (id int, text text); TRUNCATE neighbour")
    if kind != "insert":
        return measure(port, kind)
    begun = time.perf_counter()
    send_rows(client, 100_000)
    print(f"{time.perf_counter() - begun:.2f}")


main()
