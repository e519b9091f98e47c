#!/usr/bin/env python3
"""Sends one workload to a Paceline that runs under callgrind: cost.py PORT PROCESS WORKLOAD.

Prints the number of requests whose instructions were counted, without those of the first round. In a relayed workload one client sends
requests one after the other. In a grouped workload (pool of 1) another client holds the server connection until the requests of all
clients wait, so that every run forms the same groups. The instructions for that client are included.
"""

import os
import subprocess
import sys

from raw_client import DESCRIBE, EXECUTE, SYNC, Client, bind, parse, query

ROUNDS = int(os.environ.get("ROUNDS", "500"))
GROUP = 64


def prepared(values):
    return lambda number: bind(b"s", values(number)) + DESCRIBE + EXECUTE + SYNC


def simple(text):
    return lambda number: query(text(number))


HOT = b"UPDATE /*+ COMMIT_ON_SUCCESS */ hot SET n = n + 1 WHERE id = "
EDGE = (
    b"INSERT INTO edge (id, target, unixnano, status) VALUES ($1, $2, $3, $4) ON CONFLICT (id, target) DO UPDATE"
    b" SET unixnano = EXCLUDED.unixnano, status = EXCLUDED.status WHERE edge.unixnano < EXCLUDED.unixnano"
)
TAKE = b"DELETE FROM job WHERE id = (SELECT id FROM job ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id"
ROW = b"SELECT n FROM hot WHERE id = "


def number_of(number):
    return (str(number).encode(),)


def edge_of(number):
    return (b"%d" % (number % 50), b"%d" % number, b"%d" % number, b"1")


# By name: whether the workload is grouped, the text that each client prepares (or None), the request.
WORKLOADS = {
    "SELECT 1, simple": (False, None, simple(lambda number: b"SELECT 1")),
    "SELECT 1, prepared": (False, b"SELECT 1", prepared(lambda number: ())),
    "row by key, simple": (False, None, simple(lambda number: ROW + b"%d" % (number % 9))),
    "row by key, prepared": (False, ROW + b"$1", prepared(lambda number: number_of(number % 9))),
    "row by key, unnamed": (
        False,
        None,
        lambda number: parse(b"", ROW + b"$1") + bind(b"", number_of(number % 9)) + DESCRIBE + EXECUTE + SYNC,
    ),
    "statement of a transaction": (
        False,
        None,
        lambda number: query((b"BEGIN", ROW + b"1", ROW + b"2", b"COMMIT")[number % 4]),
    ),
    "further statement of a transaction": (False, None, simple(lambda number: ROW + b"1" if number else b"BEGIN")),
    "hot row, simple": (True, None, simple(lambda number: HOT + b"1")),
    "hot row, prepared": (True, HOT + b"$1", prepared(lambda number: (b"1",))),
    "rows by key, prepared": (True, HOT + b"$1", prepared(lambda number: number_of(number % GROUP))),
    "edge upsert, prepared": (True, EDGE, prepared(edge_of)),
    "queue take, prepared": (True, TAKE, prepared(lambda number: ())),
    "shared read, prepared": (True, ROW + b"$1", prepared(lambda number: (b"1",))),
}


def relayed(clients, request, rounds):
    for number in range(rounds):
        clients[0].ask(request(number))
    return rounds


def grouped(clients, request, rounds):
    gate = clients[-1]
    for turn in range(rounds // 25):
        gate.ask(query(b"BEGIN"))
        for place, client in enumerate(clients[:-1]):
            client.send(request(turn * GROUP + place))
        # The second reading sees everything that was sent before the first.
        gate.ask(query(b"SELECT 1"))
        gate.ask(query(b"SELECT 1"))
        gate.ask(query(b"COMMIT"))
        for client in clients[:-1]:
            client.until_ready()
    return rounds // 25 * GROUP


def main():
    port, process, name = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    in_groups, text, request = WORKLOADS[name]
    clients = [Client(port) for _ in range(GROUP + 1 if in_groups else 1)]
    if text:
        for client in clients:
            client.ask(parse(b"s", text) + SYNC)
    run = grouped if in_groups else relayed
    run(clients, request, ROUNDS)
    count = lambda state: subprocess.run(["callgrind_control", "-i", state, process], check=True, capture_output=True)
    count("on")
    requests = run(clients, request, ROUNDS)
    count("off")
    print(requests)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print("\n".join(WORKLOADS))
    else:
        main()
