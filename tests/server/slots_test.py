#!/usr/bin/env python3
"""Slots under load: who is busy, who waits, who is refused, and that clients that leave free theirs."""
import json
import socket
import struct
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from server_process import Server, events


def stream_request(path, body):
    data = json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(data), data)


LONG = {"prompt": "Once upon a time", "n_predict": 480, "ignore_eos": True, "stream": True}


class Slots(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--parallel", "2", "--max-queue-depth", "2", "--metrics")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def busy(self):
        return sum(s["is_processing"] for s in self.server.get("/slots").json())

    def hold(self, count):
        """Connections whose answers run; they must be closed to end."""
        held = []
        for _ in range(count):
            s = self.server.socket()
            s.sendall(stream_request("/completion", LONG))
            held.append(s)
        return held

    def test_a_client_that_leaves_frees_its_slot(self):
        for reset in (False, True):
            for path, body in (
                ("/completion", LONG),
                ("/completion", {**LONG, "stream": False}),
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "ignore_eos": True, "stream": True}),
            ):
                with self.subTest(path=path, reset=reset, stream=body["stream"]):
                    s = self.server.socket()
                    s.sendall(stream_request(path, body))
                    self.server.eventually(lambda: self.busy() == 1, what="a busy slot")
                    if reset:
                        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    s.close()
                    self.server.eventually(lambda: self.busy() == 0, seconds=3, what="a free slot")

    def test_full_slots_and_queue(self):
        held = self.hold(4)
        try:
            self.server.eventually(
                lambda: self.busy() == 2 and "llamacpp:requests_deferred 2\n" in self.server.get("/metrics").body.decode(),
                what="two running and two waiting",
            )
            self.assertEqual(self.server.get("/slots?fail_on_no_slot=1").status, 503)
            self.assertEqual(self.server.get("/health").status, 200)
            r = self.server.post("/completion", {"prompt": "x", "n_predict": 1})
            if r.status != 200:  # a held one may have ended meanwhile
                self.assertEqual(r.status, 503)
                self.assertIn("retry-after", r.headers)
                self.assertEqual(r.json()["error"]["type"], "unavailable_error")
        finally:
            for s in held:
                s.close()
        self.server.eventually(lambda: self.busy() == 0, what="free slots")
        self.assertEqual(self.server.get("/slots?fail_on_no_slot=1").status, 200)

    def test_texts_do_not_depend_on_load(self):
        def text(seed):
            while True:
                body = {"prompt": "Once upon a time", "n_predict": 24, "seed": seed, "temperature": 1.0, "stream": True}
                r = self.server.post("/completion", body)
                if r.status == 200:
                    return "".join(json.loads(e)["content"] for e in events(r.body))
                self.assertEqual(r.status, 503)
                time.sleep(0.01)

        alone = [text(seed) for seed in range(4)]
        self.assertEqual(len(set(alone)), 4)
        with ThreadPoolExecutor(12) as pool:
            together = list(pool.map(text, [i % 4 for i in range(24)]))
        self.assertEqual(together, [alone[i % 4] for i in range(24)])

    def test_slot_fields(self):
        held = self.hold(1)
        try:
            def running():
                return next((s for s in self.server.get("/slots").json() if s["is_processing"]), None)

            self.server.eventually(lambda: running() is not None, what="a busy slot")
            slot = running()
            if slot:
                for key in ("id", "id_task", "n_ctx", "params", "next_token", "speculative"):
                    self.assertIn(key, slot)
                self.assertNotIn("prompt", slot)
        finally:
            held[0].close()

    def test_a_reader_that_stops_harms_nobody(self):
        s = self.server.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.sendall(stream_request("/completion", {**LONG, "n_probs": 20}))
        time.sleep(0.2)
        done = threading.Event()

        def others():
            for _ in range(5):
                self.assertEqual(self.server.post("/completion", {"prompt": "x", "n_predict": 8}).status, 200)
            done.set()

        thread = threading.Thread(target=others)
        thread.start()
        thread.join(60)
        self.assertTrue(done.is_set())
        s.close()
        self.server.eventually(lambda: self.busy() == 0, what="free slots")


class Pings(unittest.TestCase):
    def test_comments_while_nothing_is_said(self):
        with Server("--parallel", "1", "--sse-ping-interval", "1") as server:
            first = server.socket()
            first.sendall(stream_request("/completion", LONG))
            second = server.socket()
            second.sendall(stream_request("/completion", {**LONG, "n_predict": 1}))
            head = second.recv(4096)
            self.assertTrue(head.startswith(b"HTTP/1.1 200"), head)
            first.close()
            second.close()


if __name__ == "__main__":
    sys.exit(unittest.main())
