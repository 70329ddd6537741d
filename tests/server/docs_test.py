#!/usr/bin/env python3
"""Runs every curl command of docs/server.md and expects success, or the status of a first line "# answers N"."""
import json
import re
import shlex
import shutil
import subprocess
import sys

from server_process import ROOT, Server, events

BLOCK = re.compile(r"^```bash\n(.*?)^```", re.M | re.S)


def main():
    if not shutil.which("curl"):
        sys.exit("curl is not installed; scripts/install_deps.sh installs it")
    blocks = BLOCK.findall((ROOT / "docs" / "server.md").read_text(encoding="utf-8"))
    assert len(blocks) > 10, "no commands found"
    failed = 0
    with Server("--metrics", "--props", "--settings") as server:
        for block in blocks:
            expected = re.match(r"# answers (\d{3})", block)
            wanted = expected[1] if expected else "2"
            command = re.sub(r"^#.*\n", "", block).strip().replace("\\\n", " ").replace("localhost:8080", f"127.0.0.1:{server.port}")
            words = shlex.split(command)
            assert words[0] == "curl", block
            done = subprocess.run(
                [*words, "-sS", "--max-time", "60", "-w", "\n%{http_code} %{content_type}"],
                capture_output=True, text=True, check=False,
            )
            body, _, trailer = done.stdout.rpartition("\n")
            status, _, kind = trailer.partition(" ")
            good = done.returncode == 0 and status.startswith(wanted)
            if good and kind.startswith("application/json"):
                json.loads(body)
            if good and kind.startswith("text/event-stream"):
                good = len(events(body)) > 0
            if not good:
                failed += 1
                print(f"{block}status {status}\n{body[:500]}{done.stderr}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
