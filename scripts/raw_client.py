"""A client of PostgreSQL's protocol without a driver, for the measuring scripts: its cost is the same for every target."""

import socket
import struct
import sys

# The first five bytes of ReadyForQuery; the transaction status follows.
READY = b"Z\0\0\0\5"
SYNC = b"S\0\0\0\4"


def message(kind, body):
    return kind + struct.pack("!I", len(body) + 4) + body


def query(text):
    return message(b"Q", text + b"\0")


def parse(name, text, types=()):
    return message(b"P", name + b"\0" + text + b"\0" + struct.pack(f"!H{len(types)}I", len(types), *types))


def bind(name, values):
    """Binds values in text format to the unnamed portal. Results are in text format."""
    row = b"".join(struct.pack("!I", len(value)) + value for value in values)
    return message(b"B", b"\0" + name + b"\0" + struct.pack("!HH", 0, len(values)) + row + struct.pack("!H", 0))


EXECUTE = message(b"E", b"\0" + struct.pack("!I", 0))
DESCRIBE = message(b"D", b"P\0")


class Client:
    """One connection to 127.0.0.1, as postgres, to the database postgres."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        parameters = b"user\0postgres\0database\0postgres\0\0"
        self.send(struct.pack("!II", 8 + len(parameters), 3 << 16) + parameters)
        self.until_ready()

    def send(self, data):
        self.socket.sendall(data)

    def until_ready(self):
        """Reads a complete answer and returns its last 64 KiB. Exits if the answer is an error."""
        answer = b""
        while answer[-6:-1] != READY:
            part = self.socket.recv(1 << 20)
            if not part:
                sys.exit(f"the connection was closed: {answer!r}")
            if part[:1] == b"E":
                sys.exit(f"{part!r}")
            answer = (answer + part)[-65536:]
        return answer

    def ask(self, data):
        self.send(data)
        return self.until_ready()
