"""Opens idle clients: hold.py PORT NUMBER. Prints "ready" when all of them are logged in, and exits when it reads a line."""

import sys

from raw_client import Client

clients = [Client(int(sys.argv[1])) for _ in range(int(sys.argv[2]))]
print("ready", flush=True)
sys.stdin.readline()
