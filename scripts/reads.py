#!/usr/bin/env python3
"""Reads 10,000 rows at a time on many connections and prints the number of reads per second.

    reads.py PORT KEYS EXPONENT CLIENTS SECONDS

Keys are random and follow a power law with this exponent; 0 selects all keys equally often. The script does not parse rows: pgbench
builds a result of 50,000 values for every answer, which costs as much as the work of PostgreSQL, and would measure itself.
"""

import bisect
import itertools
import random
import selectors
import sys
import time

import raw_client
from raw_client import DESCRIBE, EXECUTE, SYNC, bind, parse

READY = raw_client.READY + b"I"
TEXT = b"SELECT * FROM test WHERE typeid = $1"


def unit(key):
    """The messages of a read. Every pooler supports them: the unnamed statement, parsed every time."""
    return parse(b"", TEXT, (23,)) + bind(b"", (str(key).encode(),)) + DESCRIBE + EXECUTE + SYNC


class Client:
    def __init__(self, port):
        self.socket = raw_client.Client(port).socket
        self.end = b""
        self.socket.setblocking(False)

    def take(self, buffer):
        """Reads from the socket. Returns True if the answer is complete."""
        length = self.socket.recv_into(buffer)
        if length == 0:
            sys.exit("the connection was closed")
        if length <= 4096 and bytes(buffer[:1]) == b"E":
            sys.exit(bytes(buffer[:length]))
        self.end = (self.end + bytes(buffer[max(0, length - len(READY)) : length]))[-len(READY) :]
        return self.end == READY

    def ask(self, key):
        self.end = b""
        self.socket.sendall(unit(key))


def main():
    port, keys, exponent, clients, seconds = (float(word) for word in sys.argv[1:])
    weights = list(itertools.accumulate(key**-exponent for key in range(1, int(keys) + 1)))
    draw = lambda: bisect.bisect_left(weights, random.random() * weights[-1]) + 1
    selector = selectors.DefaultSelector()
    for _ in range(int(clients)):
        client = Client(int(port))
        selector.register(client.socket, selectors.EVENT_READ, client)
        client.ask(draw())
    buffer = memoryview(bytearray(1 << 18))
    answered, start = 0, time.monotonic()
    while time.monotonic() < start + seconds:
        for event, _ in selector.select(1):
            if event.data.take(buffer):
                answered += 1
                event.data.ask(draw())
    print(round(answered / (time.monotonic() - start)))


if __name__ == "__main__":
    main()
