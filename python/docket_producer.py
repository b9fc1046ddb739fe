"""Sends records to docket and keeps each in memory until docket has it on disk.

    with Producer("unix:///run/docket/docket.sock") as docket:
        docket.send({"decision": "deny", "message": "the label team is missing"})

As a program it sends the lines of its input, and exits 1 when docket refused one:

    python3 -m docket_producer ADDRESS < records.ndjson

Make the Producer after os.fork, one in each process. Many threads may call send.
The protocol is docket stream v1, docs/protocol.md of docket.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import re
import selectors
import socket
import ssl
import sys
import threading
import time
import traceback
import uuid
from typing import Any, Callable, NamedTuple
from urllib.parse import urlsplit

FIRST_PAUSE, LAST_PAUSE, PATIENCE = 0.05, 5.0, 30.0  # seconds
PIECE = 64 << 10  # bytes that are read or written at once
LINE_COST = 100  # bytes that Python needs for a line beside its text
WOULD_WAIT = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Refused(NamedTuple):
    """A line that docket does not accept. It is not sent again."""

    number: int
    reason: str  # such as InvalidJSON; the table is in docs/protocol.md
    detail: str  # for people; may be empty
    line: bytes


def _report(what: Any) -> None:
    print("docket:", what, file=sys.stderr)


class Producer:
    """One stream of numbered lines. A thread of its own connects, writes, reads and connects again."""

    def __init__(self, address: str, *, name: str = "", max_bytes: int = 8 << 20, tls: ssl.SSLContext | None = None,
                 on_refused: Callable[[Refused], Any] = _report, on_error: Callable[[Exception], Any] = _report) -> None:
        """address is unix:///PATH or tcp://HOST:PORT, for which tls is a context of the module ssl.

        name is the readable beginning of the producer's name: letters, digits and ._:/- A UUID follows it.
        max_bytes bounds the lines in memory. on_refused gets each line that docket does not accept, on_error
        each reason for another connection; both are called from the thread of the producer.
        """
        self._address, self._url, self._tls, self._max_bytes = address, urlsplit(address), tls, max_bytes
        unix, tcp = (self._url.scheme == scheme for scheme in ("unix", "tcp"))
        if not (unix and self._url.path and not self._url.netloc or tcp and self._url.hostname and self._url.port):
            raise ValueError(f"address {address}: must be unix:///PATH or tcp://HOST:PORT")
        if not re.fullmatch(r"[A-Za-z0-9._:/-]{0,91}", name):
            raise ValueError(f"name {name}: must be at most 91 letters, digits and ._:/-")
        self._name = f"{name}/{uuid.uuid4()}" if name else str(uuid.uuid4())  # never the name of another process
        self._on_refused, self._on_error = on_refused, on_error
        self._lines: collections.deque[bytes] = collections.deque()  # not acknowledged
        self._first = 1  # the number of the first of them
        self._unsent: collections.deque[bytes] = collections.deque()  # those not written to this connection
        self._bytes = 0
        self._refused: dict[int, Refused] = {}  # by number, until an ack covers them
        self._change = threading.Condition()  # guards all of these
        self._process = os.getpid()
        self._bell, self._doorman = socket.socketpair()  # wakes the thread
        self._bell.setblocking(False)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="docket", daemon=True)
        self._thread.start()

    def send(self, record: dict[str, Any] | bytes, timeout: float | None = None) -> None:
        """Takes a record, or a line that is JSON already. It waits for room only, not for docket.

        TimeoutError: there was no room in time, as docket is away or slow, and the record is not taken.
        ValueError, TypeError: the record can never be sent. After both you can go on with other records.
        """
        self._check_process()
        if not isinstance(record, (dict, bytes)):
            raise TypeError(f"a record is a dict, or bytes that are JSON, not {type(record).__name__}")
        line = record if isinstance(record, bytes) else json.dumps(record, allow_nan=False).encode()
        line = line.strip(b" \t\r\n")
        if not line or b"\n" in line:
            raise ValueError("a record must be one line, and not a blank one")
        if re.match(rb'\{\s*"docket"\s*:\s*\{', line):
            raise ValueError('a record must not begin {"docket":{ as a hello does')
        cost = len(line) + LINE_COST
        if cost > self._max_bytes:
            raise ValueError(f"the record has {len(line)} bytes, more than max_bytes has room for")
        with self._change:
            if not self._change.wait_for(lambda: self._stop.is_set() or self._bytes + cost <= self._max_bytes, timeout):
                raise TimeoutError("docket has acknowledged too little to make room")
            if self._stop.is_set():
                raise ValueError("the producer is closed")
            self._bytes += cost
            self._lines.append(line + b"\n")
            self._unsent.append(self._lines[-1])
        self._wake()

    def flush(self, timeout: float | None = None) -> bool:
        """Waits until docket has every record on disk or has refused it, and reports whether that is so."""
        self._check_process()
        with self._change:
            return self._change.wait_for(lambda: not self._lines, timeout)

    def close(self, timeout: float | None = 10) -> int:
        """Waits as flush does, ends the connection, and returns how many records docket has not acknowledged."""
        self.flush(timeout)
        self._stop.set()
        self._wake()
        self._thread.join(1)  # it may be connecting
        with self._change:
            self._change.notify_all()
            return len(self._lines)

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, *_: object) -> None:
        left = self.close()
        if left:
            self._on_error(TimeoutError(f"{left} records are not acknowledged, and lost with this process"))

    def _check_process(self) -> None:
        if os.getpid() != self._process:  # no thread of the producer lives here
            raise RuntimeError("the Producer was made before os.fork: make one in each process, after os.fork")

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it rings already
            self._bell.send(b"!")

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._stop.is_set():
            first, began = self._first, time.monotonic()
            try:
                self._talk()
            except Exception as error:
                what = getattr(error, "strerror", None) or error
                if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
                    what = f"{what}: check that docket runs there"
                self._call(self._on_error, ConnectionError(f"{self._address}: {what}: trying again"))
            if self._first > first or time.monotonic() - began > LAST_PAUSE:
                pause = FIRST_PAUSE
            self._stop.wait(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, LAST_PAUSE)

    def _talk(self) -> None:
        """Serves one connection. It returns when the producer is closed; any other end is an exception."""
        with self._connect() as sock, selectors.DefaultSelector() as ready:
            sock.setblocking(False)
            ready.register(self._doorman, selectors.EVENT_READ)
            ready.register(sock, selectors.EVENT_READ)
            with self._change:
                hello = {"docket": {"version": 1, "producer": self._name, "next": self._first}}
                self._unsent = collections.deque(self._lines)
            out, replies = bytearray(json.dumps(hello).encode() + b"\n"), b""
            silent_until = time.monotonic() + PATIENCE
            while not self._stop.is_set():
                with self._change:
                    while self._unsent and len(out) < PIECE:
                        out += self._unsent.popleft()
                ready.modify(sock, selectors.EVENT_READ | (selectors.EVENT_WRITE if out else 0))
                if any(key.fileobj is self._doorman for key, _ in ready.select(PATIENCE)):
                    self._doorman.recv(PIECE)
                with contextlib.suppress(*WOULD_WAIT):
                    if out:
                        del out[: sock.send(out)]
                with contextlib.suppress(*WOULD_WAIT):
                    while True:  # all that has come: the last line may say why docket ends the connection
                        piece = sock.recv(PIECE)
                        *lines, replies = (replies + piece).split(b"\n")
                        for line in lines:
                            self._take(json.loads(line))
                            silent_until = float("inf")
                        if not piece:
                            raise ConnectionError("the connection has ended")
                if time.monotonic() > silent_until:
                    raise TimeoutError("docket does not answer the hello")

    def _connect(self) -> socket.socket:
        if self._url.scheme == "unix":
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(PATIENCE)
            sock.connect(self._url.path)
            return sock
        sock = socket.create_connection((self._url.hostname, self._url.port), timeout=PATIENCE)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return self._tls.wrap_socket(sock, server_hostname=self._url.hostname) if self._tls else sock

    def _take(self, reply: dict[str, Any]) -> None:
        """Deals with one message of docket. Members that it does not know are skipped."""
        docket, refused = reply.get("docket", {}), reply.get("refused")
        if "error" in docket:
            raise ConnectionError(docket["error"])
        if refused:
            number = refused["seq"]
            line = self._lines[number - self._first]
            self._refused[number] = Refused(number, refused["reason"], refused.get("detail", ""), line)
        acked = reply.get("ack", docket.get("acked", 0))
        for number in sorted(n for n in self._refused if n <= acked):
            self._call(self._on_refused, self._refused.pop(number))
        with self._change:
            while self._lines and self._first <= acked:
                self._bytes -= len(self._lines.popleft()) - 1 + LINE_COST
                self._first += 1
            self._change.notify_all()

    @staticmethod
    def _call(function: Callable[[Any], Any], argument: Any) -> None:
        try:
            function(argument)
        except Exception:
            traceback.print_exc()


def main() -> int:
    """Sends the lines of the standard input and ends when docket has all of them. Returns the exit code."""
    if len(sys.argv) != 2:
        print("usage: python3 -m docket_producer ADDRESS < records.ndjson", file=sys.stderr)
        return 2
    refused = threading.Event()

    def refuse(what: Any) -> None:
        refused.set()
        _report(what)

    try:
        producer = Producer(sys.argv[1], on_refused=refuse)
    except ValueError as error:
        _report(error)
        return 2
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            if line.strip():
                producer.send(line)
        except ValueError as error:
            refuse(f"line {number} of the input: {error}")
    producer.flush()
    producer.close()
    return int(refused.is_set())


if __name__ == "__main__":
    sys.exit(main())
