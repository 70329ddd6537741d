#!/usr/bin/env python3
"""HTTP as it arrives from careless and hostile clients: framing, limits, TLS, Unix sockets, signals."""
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from server_process import Server, program

HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
TOKENIZE = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"


def tokenize(text):
    body = json.dumps({"content": text}).encode()
    return TOKENIZE % (len(body), body)


def status_lines(data):
    return re.findall(rb"HTTP/1\.1 \d{3} [^\r]*", data)


class Transport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def close_after(self, data):
        """What comes back for `data` followed by the end of the client's input."""
        with self.server.socket() as s:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            out = b""
            while part := s.recv(65536):
                out += part
            return out

    def test_keep_alive(self):
        c = self.server.connection()
        for _ in range(50):
            c.request("GET", "/health")
            r = c.getresponse()
            self.assertEqual(r.status, 200)
            r.read()
        c.close()

    def test_connection_close(self):
        out = self.server.raw(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        self.assertIn(b"Connection: close", out)
        self.assertTrue(out.startswith(b"HTTP/1.1 200 OK"))

    def test_http_1_0(self):
        out = self.server.raw(b"GET /health HTTP/1.0\r\n\r\n")
        self.assertTrue(out.startswith(b"HTTP/1.0 200 OK"))
        self.assertNotIn(b"chunked", out)

    def test_pipelining_keeps_the_order(self):
        words = [f"word {i}" for i in range(200)]
        out = self.close_after(b"".join(tokenize(w) for w in words))
        self.assertEqual(status_lines(out), [b"HTTP/1.1 200 OK"] * len(words))
        bodies = [json.loads(part.split(b"\r\n\r\n", 1)[1]) for part in out.split(b"HTTP/1.1 200 OK")[1:]]
        alone = [self.server.post("/tokenize", {"content": w}).json() for w in words[:20]]
        self.assertEqual(bodies[:20], alone)

    def test_request_in_single_bytes(self):
        with self.server.socket() as s:
            for byte in tokenize("slow"):
                s.sendall(bytes([byte]))
            self.assertTrue(s.recv(4096).startswith(b"HTTP/1.1 200"))

    def test_chunked_request_body(self):
        body = b'{"content": "Once upon"}'
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(body[i : i + 5]), body[i : i + 5]) for i in range(0, len(body), 5))
        out = self.close_after(
            b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n" + HEALTH
        )
        self.assertEqual(status_lines(out), [b"HTTP/1.1 200 OK"] * 2)
        self.assertIn(b"[403,407]", out)

    def test_expect_continue(self):
        body = b'{"content": "Once"}'
        head = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
        with self.server.socket() as s:
            s.sendall(head)
            self.assertEqual(s.recv(4096), b"HTTP/1.1 100 Continue\r\n\r\n")
            s.sendall(body)
            self.assertTrue(s.recv(4096).startswith(b"HTTP/1.1 200"))

    def test_malformed_requests_are_400_and_close(self):
        for data in (
            b"nonsense\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET /health HTTP/1.1\r\nbroken header\r\n\r\n",
            b"GET /health HTTP/1.1\r\n: empty\r\n\r\n",
            b"POST /tokenize HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
            b"POST /tokenize HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            b"POST /tokenize HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"GET health HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /a%00b HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64,
        ):
            with self.subTest(data=data[:60]):
                out = self.close_after(data)
                self.assertRegex(out, rb"^HTTP/1\.1 400 Bad Request\r\n")
                self.assertEqual(json.loads(out.split(b"\r\n\r\n", 1)[1])["error"]["code"], 400)
        self.assertEqual(self.server.get("/health").status, 200)

    def test_smuggling_is_refused(self):
        out = self.close_after(
            b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG"
        )
        self.assertNotIn(b" 200 ", out)

    def test_other_versions(self):
        out = self.close_after(b"GET /health HTTP/2.0\r\nHost: x\r\n\r\n")
        self.assertRegex(out, rb"^HTTP/1\.1 (505|400) ")

    def test_large_head_is_431(self):
        out = self.close_after(b"GET /health HTTP/1.1\r\nX-Long: " + b"a" * (70 << 10) + b"\r\n\r\n")
        self.assertTrue(out.startswith(b"HTTP/1.1 431 "), out[:100])

    def test_large_body_is_413(self):
        head = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n"
        with self.server.socket() as s:
            s.sendall(head)
            self.assertTrue(s.recv(4096).startswith(b"HTTP/1.1 413 "))
        chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        with self.server.socket() as s:
            s.sendall(b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            try:
                for _ in range(80):
                    s.sendall(chunk)
            except OSError:
                pass
            self.assertTrue(s.recv(4096).startswith(b"HTTP/1.1 413 "))

    def test_body_of_a_refused_request_is_skipped(self):
        out = self.close_after(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde" + HEALTH)
        self.assertEqual(status_lines(out), [b"HTTP/1.1 404 Not Found", b"HTTP/1.1 200 OK"])

    def test_head_options_and_methods(self):
        r = self.server.request("HEAD", "/health")
        self.assertEqual((r.status, r.body), (200, b""))
        self.assertEqual(self.server.request("OPTIONS", "/anything/at/all").status, 200)
        self.assertTrue(self.close_after(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 200"))
        r = self.server.request("DELETE", "/tokenize")
        self.assertEqual((r.status, r.headers["allow"]), (405, "POST"))
        r = self.server.request("BREW", "/health")
        self.assertEqual(r.status, 405)

    def test_absolute_form_and_query(self):
        out = self.close_after(b"GET http://x/health?a=1&b HTTP/1.1\r\nHost: x\r\n\r\n")
        self.assertTrue(out.startswith(b"HTTP/1.1 200"))

    def test_half_closed_client_gets_its_answers(self):
        out = self.close_after(HEALTH + tokenize("a") + HEALTH)
        self.assertEqual(status_lines(out), [b"HTTP/1.1 200 OK"] * 3)

    def test_clients_that_vanish(self):
        for i in range(100):
            with self.server.socket() as s:
                s.sendall(HEALTH[: i % len(HEALTH)])
                # Reset instead of an orderly end.
                if i % 2:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.assertEqual(self.server.get("/health").status, 200)

    def test_many_connections_at_once(self):
        sockets = [self.server.socket() for _ in range(300)]
        for s in sockets:
            s.sendall(HEALTH)
        for s in sockets:
            self.assertTrue(s.recv(4096).startswith(b"HTTP/1.1 200"))
            s.close()

    def test_queries_and_keys_stay_out_of_the_log(self):
        self.server.get("/health?secret=hunter2", headers={"Authorization": "Bearer hunter3"})
        log = self.server.log_text()
        self.assertIn("GET /health 200", log)
        self.assertNotIn("hunter", log)


class UnixSocket(unittest.TestCase):
    def test_curl(self):
        if not shutil.which("curl"):
            self.skipTest("curl is not installed")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mlxcel.sock")
            with Server(unix=path) as server:
                done = subprocess.run(
                    ["curl", "-s", "--unix-socket", path, "http://localhost/health"], capture_output=True, check=True
                )
                self.assertEqual(json.loads(done.stdout)["status"], "ok")
                self.assertEqual(server.get("/health").status, 200)
                second = subprocess.run(
                    [program(), "-m", "none", "--host", path], capture_output=True, text=True, check=False
                )
                self.assertEqual(second.returncode, 1)
                self.assertIn("another server listens", second.stderr)
            self.assertFalse(os.path.exists(path))

    def test_what_an_earlier_server_left_is_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mlxcel.sock")
            left = socket.socket(socket.AF_UNIX)
            left.bind(path)
            left.close()
            with Server(unix=path) as server:
                self.assertEqual(server.get("/health").status, 200)
            Path(path).write_text("precious", encoding="ascii")
            done = subprocess.run([program(), "-m", "none", "--host", path], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(Path(path).read_text(encoding="ascii"), "precious")


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("openssl"):
            raise unittest.SkipTest("openssl is not installed")
        cls.folder = tempfile.TemporaryDirectory()
        cls.key, cls.cert = (os.path.join(cls.folder.name, n) for n in ("key.pem", "cert.pem"))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", cls.key, "-out", cls.cert]
            + ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"],
            check=True, capture_output=True,
        )

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_https(self):
        with Server("--ssl-key-file", self.key, "--ssl-cert-file", self.cert) as server:
            self.assertTrue(server.tls)
            self.assertEqual(server.get("/health").json()["status"], "ok")
            big = "Once upon a time " * 20000
            self.assertGreater(len(server.post("/tokenize", {"content": big}).json()["tokens"]), 60000)
            if shutil.which("curl"):
                url = f"https://127.0.0.1:{server.port}/health"
                # HTTP/1.0 without keep-alive ends with the connection: an unclean end would be an error.
                for more in ([], ["--http1.0"]):
                    done = subprocess.run(["curl", "-sS", *more, "--cacert", self.cert, url], capture_output=True, check=False)
                    self.assertEqual(done.returncode, 0, done.stderr)
            # Plain HTTP on a TLS port ends, and harms nobody.
            server.tls = False
            self.assertNotIn(b"200", server.raw(HEALTH))
            server.tls = True
            self.assertEqual(server.get("/health").status, 200)

    def test_bad_files(self):
        for arguments, message in (
            (["--ssl-key-file", self.key], "both --ssl-cert-file and --ssl-key-file"),
            (["--ssl-key-file", self.key, "--ssl-cert-file", "/nowhere"], "--ssl-cert-file"),
            (["--ssl-key-file", self.cert, "--ssl-cert-file", self.cert], "--ssl-key-file"),
        ):
            done = subprocess.run([program(), "-m", "none", *arguments], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)


class Start(unittest.TestCase):
    def run_server(self, *arguments, env=None):
        environment = {**os.environ, "LLAMA_ARG_OFFLINE": "1", **(env or {})}
        return subprocess.run([program(), *arguments], capture_output=True, text=True, env=environment, check=False)

    def test_port_in_use(self):
        with Server() as server:
            done = self.run_server("-m", "none", "--port", str(server.port))
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"cannot listen on 127.0.0.1:{server.port}", done.stderr)

    def test_reuse_port(self):
        with Server("--reuse-port") as first:
            with Server("--reuse-port", "--port", str(first.port)) as second:
                self.assertEqual(second.port, first.port)
                for _ in range(20):
                    self.assertEqual(second.get("/health").status, 200)

    def test_flag_wins_over_variable(self):
        with Server("--alias", "flag", env={"LLAMA_ARG_ALIAS": "variable", "LLAMA_ARG_N_PARALLEL": "3"}) as server:
            self.assertEqual(server.get("/v1/models").json()["data"][0]["id"], "flag")
            self.assertEqual(len(server.get("/slots").json()), 3)

    def test_wrong_values_name_flag_or_variable(self):
        for arguments, env, message in (
            (["--port", "70000"], {}, "--port: '70000' is not a whole number from 0 to 65535"),
            (["--port", "8080x"], {}, "--port"),
            ([], {"LLAMA_ARG_PORT": "many"}, "LLAMA_ARG_PORT: 'many'"),
            (["--kv-cache-budget", "lots"], {}, "--kv-cache-budget"),
            (["--preemption-policy", "random"], {}, "--preemption-policy"),
            (["--top-p", "nan"], {}, "--top-p"),
            (["--samplers", "top_k;temperature"], {}, "--samplers"),
            (["--model-url", "http://x"], {}, "--model-url: "),
            (["--tools", "all"], {}, "--tools: "),
            (["--mcp-servers-config", "x"], {}, "--mcp-servers-config: "),
            (["--lora", "x"], {}, "--lora is not available in this build"),
            (["--webui"], {}, "not available in this build"),
            (["--tp-size", "2"], {}, "--tp-size is not available in this build"),
            (["--api-prefix", "/{x}"], {}, "--api-prefix"),
            (["--cors-origins", "*", "--allowed-origins", "a"], {}, "exclude each other"),
            (["--nonsense"], {}, "--nonsense"),
        ):
            with self.subTest(arguments=arguments, env=env):
                done = self.run_server("-m", "none", *arguments, env=env)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(message, done.stderr)

    def test_no_model(self):
        done = self.run_server(env={"LLAMA_ARG_MODEL": ""})
        self.assertEqual(done.returncode, 2)
        self.assertIn("--model is required", done.stderr)

    def test_llama_server_flags_of_other_machines_are_taken(self):
        with Server("-ngl", "99", "-fa", "on", "--threads", "2", "-np", "2", "-ctk", "f16", "--no-mmap", "--jinja") as s:
            self.assertEqual(len(s.get("/slots").json()), 2)
            self.assertIn("--n-gpu-layers has no effect here", s.log_text())

    def test_key_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
            file.write("# keys\n\n  alpha  \nbeta\n")
            file.flush()
            with Server("--api-key-file", file.name) as server:
                for key, status in (("alpha", 200), ("beta", 200), ("# keys", 401), ("", 401)):
                    r = server.get("/props", headers={"X-Api-Key": key})
                    self.assertEqual(r.status, status)
                self.assertNotIn("alpha", server.get("/props", headers={"X-Api-Key": "beta"}).body.decode())
        done = self.run_server("-m", "none", "--api-key-file", "/nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--api-key-file: cannot read", done.stderr)

    def test_log_file_and_levels(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "log.txt")
            with Server("--log-file", path) as server:
                server.get("/health")
                server.eventually(lambda: "GET /health 200" in Path(path).read_text(encoding="utf-8"))
                self.assertNotIn("GET /health", server.log_text())
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            link = os.path.join(folder, "link")
            os.symlink(path, link)
            for bad in (link, folder, os.path.join(folder, "no", "log")):
                done = self.run_server("-m", "none", "--log-file", bad)
                self.assertEqual(done.returncode, 1)
                self.assertIn("--log-file", done.stderr)
        with Server("--log-disable") as server:
            server.get("/health")
            self.assertNotIn("GET /health", server.log_text())

    def test_settings_need_a_key_off_this_machine(self):
        done = self.run_server("-m", "none", "--settings", "--host", "0.0.0.0", "--port", "0")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--settings", done.stderr)


class Stop(unittest.TestCase):
    def test_signals_stop_an_idle_server(self):
        for sig in (signal.SIGINT, signal.SIGTERM):
            server = Server()
            idle = server.socket()
            self.assertEqual(server.stop(sig), 0)
            idle.close()

    def test_running_answers_are_finished(self):
        server = Server("--parallel", "2")
        result = {}

        def ask():
            body = {"prompt": "Once upon a time", "n_predict": 400, "ignore_eos": True, "temperature": 0}
            r = server.post("/completion", body)
            result["status"], result["json"] = r.status, r.json()

        thread = threading.Thread(target=ask)
        thread.start()
        server.eventually(lambda: any(s["is_processing"] for s in server.get("/slots").json()), what="a busy slot")
        server.process.send_signal(signal.SIGTERM)
        thread.join(60)
        self.assertEqual(result["status"], 200)
        self.assertEqual(result["json"]["tokens_predicted"], 400)
        self.assertEqual(server.process.wait(20), 0)
        server.stop()

    def test_second_signal_stops_now(self):
        server = Server("--parallel", "2", "--ctx-size", "0")
        s = server.socket()
        body = json.dumps({"prompt": "Once", "n_predict": -1, "ignore_eos": True, "stream": True}).encode()
        for _ in range(2):
            s.sendall(b"POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        s.recv(100)
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        start = time.monotonic()
        server.stop()
        self.assertLess(time.monotonic() - start, 5)
        s.close()


if __name__ == "__main__":
    sys.exit(unittest.main())
