"""Opens many idle clients: hold.py PORT NUMBER. Says "ready" when all of them are logged in, and leaves when a line comes in."""

import sys

from raw_client import Client

clients = [Client(int(sys.argv[1])) for _ in range(int(sys.argv[2]))]
print("ready", flush=True)
sys.stdin.readline()
