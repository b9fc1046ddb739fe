"""Sends the lines of its input to docket and ends when all are acknowledged: producer.py unix:///run/docket.sock"""
import collections, contextlib, json, random, select, socket, sys, time, uuid
class Producer:
    def __init__(self, address, window=1000):  # window: how many records it keeps that are not acknowledged
        self.path, self.window, self.name = address.removeprefix("unix://"), window, str(uuid.uuid4())
        self.lines, self.first, self.refused, self.sock, self.pause = collections.deque(), 1, {}, None, 0.05
    def send(self, record):  # waits while the window is full, and while the exporter is away
        while len(self.lines) >= self.window or not self.sock or select.select([self.sock], [], [], 0)[0]: self.turn()
        self.write(json.dumps(record).encode() + b"\n")
    def flush(self):  # waits until every record is on the disk of the exporter, or refused for good
        while self.lines: self.turn()
    def write(self, line):  # what cannot be written now is written over the next connection
        self.lines.append(line)
        with contextlib.suppress(OSError): self.sock.sendall(line)
    def turn(self):  # takes one reply, over a new connection if there is none
        try:
            if not self.sock:
                self.sock, self.began = socket.socket(socket.AF_UNIX), time.monotonic()
                self.sock.connect(self.path)
                self.replies = self.sock.makefile("rb")
                hello = {"docket": {"version": 1, "producer": self.name, "next": self.first}}
                self.sock.sendall(json.dumps(hello).encode() + b"\n" + b"".join(self.lines))
            reply = json.loads(self.replies.readline() or '{"docket": {"error": "the connection has ended"}}')
            reply.update(reply.pop("docket", {}))
            if "error" in reply: raise OSError(reply["error"])
            refusal = reply.get("refused", {"reason": "QueueFull"})  # QueueFull is not final: these lines are sent again
            if refusal["reason"] != "QueueFull": self.refused[refusal["seq"]] = refusal
            while self.lines and self.first <= reply.get("ack", reply.get("acked", 0)):
                line, refusal, self.first = self.lines.popleft(), self.refused.pop(self.first, None), self.first + 1
                if refusal: print("docket: refused:", refusal, line, file=sys.stderr)
                self.pause = 0.05
        except (OSError, ValueError) as error:
            print("docket:", error, file=sys.stderr)
            if time.monotonic() - self.began > 5: self.pause = 0.05
            time.sleep(self.pause * random.uniform(0.5, 1))
            self.sock, self.pause = None, min(2 * self.pause, 5)
if __name__ == "__main__":
    producer = Producer(sys.argv[1])
    for line in filter(str.strip, sys.stdin): producer.send(json.loads(line))
    producer.flush()
