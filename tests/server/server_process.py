"""Starts the server under test on a free port and talks to it with the standard library alone."""
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
STORIES = ROOT / "tests" / "data" / "stories260K-4bit"


def program(name="mlxcel-server"):
    folder = os.environ.get("MLXCEL_TEST_BIN", str(ROOT / "build" / "release" / "bin"))
    path = Path(folder) / name
    if not path.exists():
        sys.exit(f"{path} is not built (MLXCEL_TEST_BIN names the folder)")
    return str(path)


class Response:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body

    def json(self):
        return json.loads(self.body)


class Server:
    """A running server; a context manager. `arguments` come after the model's."""

    def __init__(self, *arguments, model=STORIES, env=None, unix=None, command=None, wait=True):
        self.log = tempfile.NamedTemporaryFile("w+", prefix="server-log-", delete=False)
        arguments = [str(a) for a in arguments]
        if unix:
            arguments += ["--host", unix]
        elif "--port" not in arguments:
            arguments += ["--port", "0"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("LLAMA_", "MLXCEL_LOG"))}
        environment.update({"LLAMA_ARG_OFFLINE": "1", **(env or {})})
        command = command or [program(), "-m", str(model)]
        self.process = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment
        )
        self.unix = unix
        self.tls = False
        self.host, self.port = "127.0.0.1", 0
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self):
        line = self.process.stdout.readline()
        if not line.startswith("Listening on "):
            self.process.kill()
            raise RuntimeError(f"the server did not start: {line}{self.log_text()}")
        url = line.split()[2]
        self.tls = url.startswith("https:")
        if not url.startswith("unix:"):
            host = url.split("://")[1].split("/")[0]
            self.host, port = host.rsplit(":", 1)
            self.port = int(port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, sig=signal.SIGINT, timeout=20):
        if self.process.poll() is None:
            self.process.send_signal(sig)
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise RuntimeError("the server did not stop: " + self.log_text())
        self.process.stdout.close()
        if not self.log.closed:
            self.log.close()
        if os.path.exists(self.log.name):
            os.unlink(self.log.name)
        return self.process.returncode

    def log_text(self):
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def rss_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1])
        return 0

    def socket(self, timeout=20):
        if self.unix:
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(timeout)
            s.connect(self.unix)
        else:
            s = socket.create_connection((self.host.strip("[]"), self.port), timeout)
            # Head and body go out as two packets; the second must not wait for an acknowledgement.
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.tls:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            s = context.wrap_socket(s)
        return s

    def connection(self, timeout=60):
        c = http.client.HTTPConnection("localhost", timeout=timeout)
        c.sock = self.socket(timeout)
        return c

    def request(self, method, path, body=None, headers=None, timeout=60):
        c = self.connection(timeout)
        try:
            if body is not None and not isinstance(body, (str, bytes)):
                body = json.dumps(body)
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return Response(r.status, r.getheaders(), r.read())
        finally:
            c.close()

    def get(self, path, **kwargs):
        return self.request("GET", path, **kwargs)

    def post(self, path, body, **kwargs):
        return self.request("POST", path, body, **kwargs)

    def raw(self, data, timeout=20, until_close=True):
        """Sends bytes and returns everything that comes until the server closes."""
        with self.socket(timeout) as s:
            s.sendall(data)
            out = b""
            while True:
                part = s.recv(65536)
                if not part:
                    return out
                out += part
                if not until_close:
                    return out

    def eventually(self, condition, seconds=10, what="the condition"):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if condition():
                return
            time.sleep(0.02)
        raise AssertionError(f"{what} did not hold within {seconds} s")


def events(body):
    """The payloads of a stream of server-sent events: text after "data: "."""
    text = body.decode("utf-8") if isinstance(body, bytes) else body
    return [
        "\n".join(line[6:] for line in block.split("\n") if line.startswith("data: "))
        for block in text.split("\n\n")
        if "data: " in block
    ]
