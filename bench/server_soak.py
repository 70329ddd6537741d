#!/usr/bin/env python3
"""Load and faults for a running server: many streams, clients that vanish, slow readers, many short requests.

usage: server_soak.py [--model PATH] [--quick] [--only NAME[,NAME]] [--tokens N] [-- SERVER_FLAG...]

Starts the server itself, prints one line a phase with its figures and exits 1 when a promise is broken:
  streams    N clients at once, equal seeds give equal texts, none is lost or mixed up
  vanish     clients that connect and leave in the middle of a stream: all slots free, memory flat (+-5 %)
  slow       readers that stop reading: others go on at their pace
  short      many short requests: memory flat (+-5 %)
  overhead   processor time per request without a model step, and what streaming adds per token
"""
import argparse
import json
import os
import socket
import struct
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "server"))

from server_process import STORIES, Server, events  # noqa: E402


def completion(**fields):
    return {"prompt": "Once upon a time", "temperature": 0.8, "ignore_eos": True, **fields}


def stream_text(server, body):
    r = server.post("/completion", {**body, "stream": True}, timeout=600)
    if r.status != 200:
        return r.status, ""
    return 200, "".join(json.loads(e).get("content", "") for e in events(r.body))


def post_bytes(path, body):
    data = json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(data), data)


def busy_slots(server):
    return sum(slot["is_processing"] for slot in server.get("/slots").json())


def cpu_seconds(server):
    """User and system time of all threads of the server."""
    total = 0.0
    tick = os.sysconf("SC_CLK_TCK")
    for task in Path(f"/proc/{server.process.pid}/task").iterdir():
        fields = (task / "stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / tick
    return total


class Soak:
    def __init__(self, server, scale, tokens):
        self.server, self.scale, self.tokens = server, scale, tokens
        self.broken = []

    def promise(self, holds, text):
        if not holds:
            self.broken.append(text)
            print(f"  BROKEN: {text}", flush=True)

    def warm_up(self):
        """Reaches the steady state of memory: caches, buffers of threads, pages of the allocator."""
        with ThreadPoolExecutor(32) as pool:
            list(pool.map(lambda i: stream_text(self.server, completion(n_predict=64, seed=i)), range(int(200 * self.scale))))

    def streams(self):
        clients = int(200 * self.scale)
        wanted = {}
        for seed in range(8):
            status, wanted[seed] = stream_text(self.server, completion(n_predict=self.tokens, seed=seed))
            assert status == 200, status
        start = time.monotonic()
        barrier = threading.Barrier(clients)

        def one(i):
            barrier.wait()
            while True:
                status, text = stream_text(self.server, completion(n_predict=self.tokens, seed=i % 8))
                if status != 503:
                    return status, text
                time.sleep(0.05)  # the queue is full: what Retry-After asks for, in short

        with ThreadPoolExecutor(clients) as pool:
            results = list(pool.map(one, range(clients)))
        lost = sum(status != 200 for status, _ in results)
        mixed = sum(text != wanted[i % 8] for i, (_, text) in enumerate(results))
        print(f"streams: {clients} clients in {time.monotonic() - start:.1f} s, lost {lost}, different {mixed}", flush=True)
        self.promise(lost == 0 and mixed == 0, f"{lost} streams lost, {mixed} with another text")

    def vanish(self):
        clients = int(1000 * self.scale)
        self.one_vanishing_round(clients // 5)
        before = self.server.rss_kib()
        self.one_vanishing_round(clients)
        start = time.monotonic()
        while busy_slots(self.server) and time.monotonic() - start < 10:
            time.sleep(0.05)
        freed = time.monotonic() - start
        after = self.server.rss_kib()
        print(f"vanish: {clients} clients, slots free after {freed:.2f} s, memory {before} -> {after} KiB", flush=True)
        self.promise(busy_slots(self.server) == 0, "slots stayed busy")
        self.promise(abs(after - before) <= 0.05 * before, f"memory went from {before} to {after} KiB")

    def one_vanishing_round(self, clients):
        def one(i):
            try:
                with self.server.socket(timeout=60) as s:
                    s.sendall(post_bytes("/completion", completion(n_predict=400, stream=True, seed=i)))
                    if i % 3:
                        s.recv(200 + i % 700)
                    if i % 2:
                        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(one, range(clients)))

    def slow(self):
        readers = []
        for i in range(2):
            s = self.server.socket(timeout=60)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.sendall(post_bytes("/completion", completion(n_predict=450, stream=True, seed=i, n_probs=10)))
            readers.append(s)
        start = time.monotonic()
        for i in range(10):
            status, _ = stream_text(self.server, completion(n_predict=48, seed=i))
            self.promise(status == 200, f"status {status} beside slow readers")
        seconds = time.monotonic() - start
        for s in readers:
            s.close()
        print(f"slow: 10 streams beside 2 readers that stopped in {seconds:.2f} s", flush=True)
        self.promise(seconds < 60, "slow readers held up others")

    def short(self):
        requests = int(20000 * self.scale)
        self.short_requests(requests // 5)
        before = self.server.rss_kib()
        start = time.monotonic()
        failed = self.short_requests(requests)
        seconds = time.monotonic() - start
        after = self.server.rss_kib()
        print(f"short: {requests} requests in {seconds:.1f} s, failed {failed}, memory {before} -> {after} KiB", flush=True)
        self.promise(failed == 0, f"{failed} short requests failed")
        self.promise(after - before <= 0.05 * before, f"memory went from {before} to {after} KiB")

    def short_requests(self, requests):
        def worker(count):
            failed = 0
            c = self.server.connection(timeout=120)
            for i in range(count):
                body = {"prompt": f"Once {i % 97}", "n_predict": 1}
                c.request("POST", "/completion", json.dumps(body))
                r = c.getresponse()
                r.read()
                failed += r.status != 200
            c.close()
            return failed

        with ThreadPoolExecutor(4) as pool:
            return sum(pool.map(worker, [requests // 4] * 4))

    def overhead(self):
        """Requests that never reach the engine give the cost of HTTP and JSON. The same answers whole and streamed
        differ by what events cost."""
        count = int(4000 * self.scale)
        c = self.server.connection()

        def cpu_of(fn):
            best = None
            for _ in range(3):
                before = cpu_seconds(self.server)
                fn()
                spent = cpu_seconds(self.server) - before
                best = spent if best is None else min(best, spent)
            return best

        def tokenize():
            for _ in range(count):
                c.request("POST", "/tokenize", '{"content": "Once upon a time"}')
                c.getresponse().read()

        request_us = cpu_of(tokenize) / count * 1e6
        tokens, rounds = 400, max(2, int(20 * self.scale))

        def generate(stream):
            for i in range(rounds):
                c.request("POST", "/completion", json.dumps(completion(n_predict=tokens, stream=stream, temperature=0)))
                c.getresponse().read()

        plain = cpu_of(lambda: generate(False))
        streamed = cpu_of(lambda: generate(True))
        token_us = (streamed - plain) / (tokens * rounds) * 1e6
        print(f"overhead: {request_us:.0f} us a request, {token_us:.1f} us a streamed token (processor time)", flush=True)
        self.promise(request_us <= 1000, f"{request_us:.0f} us a request")
        self.promise(token_us <= 30, f"{token_us:.1f} us a streamed token")
        c.close()


PHASES = ["streams", "vanish", "slow", "short", "overhead"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(STORIES))
    parser.add_argument("--quick", action="store_true", help="a twentieth of everything")
    parser.add_argument("--tokens", type=int, default=48, help="length of the answers of the phase streams")
    parser.add_argument("--only", default=",".join(PHASES))
    parser.add_argument("flags", nargs="*")
    args = parser.parse_args()
    scale = 0.05 if args.quick else 1.0
    with Server("--max-queue-depth", "64", "--log-verbosity", "2", *args.flags, model=args.model) as server:
        soak = Soak(server, scale, args.tokens)
        names = args.only.split(",")
        if names != ["streams"]:
            soak.warm_up()
        for name in names:
            getattr(soak, name)()
        print(f"end: {server.rss_kib()} KiB, {busy_slots(server)} slots busy", flush=True)
        return 1 if soak.broken else 0


if __name__ == "__main__":
    sys.exit(main())
