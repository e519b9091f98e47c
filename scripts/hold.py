"""Opens many idle clients: hold.py PORT NUMBER. Says "ready" when all of them are logged in, and leaves when a line comes in."""

import socket
import struct
import sys

port, number = int(sys.argv[1]), int(sys.argv[2])
parameters = b"user\0postgres\0database\0postgres\0\0"
startup = struct.pack("!ii", 8 + len(parameters), 3 << 16) + parameters
ready_for_query = b"Z\0\0\0\5I"

clients = []
for _ in range(number):
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(startup)
    answer = b""
    while not answer.endswith(ready_for_query):
        part = client.recv(65536)
        if not part:
            sys.exit(f"client {len(clients)} was sent away: {answer!r}")
        answer += part
    clients.append(client)
print("ready", flush=True)
sys.stdin.readline()
