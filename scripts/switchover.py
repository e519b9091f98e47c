#!/usr/bin/env python3
"""Measures the pause of planned switchovers: what clients of Paceline see, beside what PostgreSQL itself needs.

A primary and a replica change their roles. The old primary is stopped, then the replica is promoted. One client updates a row
through Paceline, without pause. Another program tries to update a row on the replica directly, every 5 ms, until that succeeds.

  pause           from the last commit on the old primary to the first one on the new primary, as the client sees it
  PostgreSQL      the same, with the direct attempts as the first commit

usage: switchover.py PORT_OF_PACELINE PORT_OF_PRIMARY PORT_OF_REPLICA COMMAND
COMMAND stops the primary and promotes the replica. All servers accept the user postgres without a password.
"""

import subprocess
import sys
import threading
import time

from raw_client import Client, query

# A client of the server that stops gets an error, or its connection is closed.
LOST = (SystemExit, OSError)


class Updates:
    """Updates of a row on new connections, if the last one was lost."""

    def __init__(self, port, row):
        self.port, self.client = port, None
        self.request = query(b"UPDATE switchover SET n = n + 1 WHERE id = %d" % row)

    def try_one(self):
        """Whether the update was committed."""
        try:
            self.client = self.client or Client(self.port)
            self.client.ask(self.request)
            return True
        except LOST:
            self.client = None
            return False


def update_through_paceline(port, commits, ended):
    updates = Updates(port, 1)
    while not ended.is_set():
        begun = time.monotonic()
        if updates.try_one():
            commits.append((begun, time.monotonic()))


def first_direct_commit(port, found):
    updates = Updates(port, 2)
    while not updates.try_one():
        time.sleep(0.005)
    found.append(time.monotonic())


def main():
    paceline, primary, replica = map(int, sys.argv[1:4])
    setup = Client(primary)
    setup.ask(query(b"CREATE TABLE switchover (id int PRIMARY KEY, n int); INSERT INTO switchover VALUES (1, 0), (2, 0)"))
    commits, found, ended = [], [], threading.Event()
    threads = [
        threading.Thread(target=update_through_paceline, args=(paceline, commits, ended)),
        threading.Thread(target=first_direct_commit, args=(replica, found)),
    ]
    threads[0].start()
    while len(commits) < 200:
        time.sleep(0.01)
    threads[1].start()
    begun = time.monotonic()
    subprocess.run(sys.argv[4], shell=True, check=True, stdout=subprocess.DEVNULL)
    while not found or commits[-1][0] < found[0] + 1:
        time.sleep(0.01)
    ended.set()
    for thread in threads:
        thread.join()
    neighbours = zip(commits, commits[1:])
    pause, last = max((after[1] - before[1], before[1]) for before, after in neighbours if after[1] > begun)
    needed = found[0] - last
    print(f"pause {pause * 1000:.0f} ms, PostgreSQL {needed * 1000:.0f} ms, ratio {pause / needed:.2f}")


main()
