#!/usr/bin/env python3
"""Compares mlxcel with llama.cpp (through llama-cpp-python) on one GGUF file, in alternating order, on this machine.

usage: compare_llama_cpp.py MODEL.gguf [--mlxcel build/release/bin/mlxcel] [--rounds 5] [--threads N] [--tests pp512,pp2048,tg128,tg64@2048,tg64x8]

Needs `pip install llama-cpp-python` (any virtual environment; it builds llama.cpp on machines without a wheel). A test is ppN (read a prompt of N
tokens) or tgN (generate N tokens), with @D after D tokens that lie before, xB for B sequences at once. Both sides run each test in a fresh process,
once to warm up and once measured; the sides alternate, and so does which goes first. Tokens are random, generation is greedy and does not end early.
The table shows medians, their spread and the ratio of medians.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

# Runs in a process of its own, so that neither side sees the other's memory or threads.
LLAMA_CPP = r"""
import json, random, resource, sys, time
import llama_cpp as L
path, kind, tokens, depth, streams, threads = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:7])
L.llama_backend_init()
silent = L.llama_log_callback(lambda *a: None)
L.llama_log_set(silent, None)
model = L.llama_model_load_from_file(path.encode(), L.llama_model_default_params())
vocab = L.llama_vocab_n_tokens(L.llama_model_get_vocab(model))
c = L.llama_context_default_params()
c.n_ctx = (depth + tokens + 8) * streams
c.n_batch, c.n_ubatch, c.n_seq_max, c.n_threads, c.n_threads_batch = 2048, 512, streams, threads, threads
ctx = L.llama_init_from_model(model, c)
batch = L.llama_batch_init(2048, 0, 1)
random.seed(1)
ids = [random.randrange(vocab) for _ in range(depth + tokens + 1)]

def forward(rows):  # (token, position, sequence, wanted)
    for begin in range(0, len(rows), 2048):
        part = rows[begin:begin + 2048]
        batch.n_tokens = len(part)
        for i, (token, position, sequence, wanted) in enumerate(part):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, 1, wanted
            batch.seq_id[i][0] = sequence
        if L.llama_decode(ctx, batch) != 0:
            sys.exit("llama_decode failed")

def read(first, count):
    for s in range(streams):
        forward([(ids[first + i], first + i, s, i + 1 == count) for i in range(count)])

def run():
    L.llama_memory_clear(L.llama_get_memory(ctx), True)
    if depth:
        read(0, depth)
    L.llama_synchronize(ctx)
    start = time.perf_counter()
    if kind == "pp":
        read(depth, tokens)
    else:
        for i in range(tokens):
            forward([(ids[depth + i], depth + i, s, True) for s in range(streams)])
    L.llama_synchronize(ctx)
    return tokens * streams / (time.perf_counter() - start)

run()
rate = run()
print(json.dumps({"version": L.__version__, "info": L.llama_print_system_info().decode(), "rate": rate,
                  "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def run_llama_cpp(args, test):
    command = [sys.executable, "-c", LLAMA_CPP, args.model, test["kind"], *map(str, (test["tokens"], test["depth"], test["batch"], args.threads))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"llama-cpp-python failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def run_mlxcel(args, test):
    sizes = ["-p", str(test["tokens"]), "-n", "0"] if test["kind"] == "pp" else ["-p", "0", "-n", str(test["tokens"])]
    command = [args.mlxcel, "bench", "-m", args.model, *sizes, "-d", str(test["depth"]), "-b", str(test["batch"]), "-t", str(args.threads),
               "-r", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        sys.exit(f"mlxcel failed ({done.returncode}):\n{done.stderr}")
    return {"rate": json.loads(done.stdout)["results"][0]["tokens_per_second"]}


def parse_test(text):
    match = re.fullmatch(r"(pp|tg)(\d+)(?:@(\d+))?(?:x(\d+))?", text)
    if not match:
        sys.exit(f"'{text}' is no test: expected ppN or tgN, with @DEPTH and xSEQUENCES if wanted")
    return {"name": text, "kind": match[1], "tokens": int(match[2]), "depth": int(match[3] or 0), "batch": int(match[4] or 1)}


def machine():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{names[0] if names else os.uname().machine}, {len(os.sched_getaffinity(0))} cores"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--mlxcel", default="build/release/bin/mlxcel")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--tests", default="pp512,pp2048,tg128,tg64@2048,tg64x8")
    args = parser.parse_args()
    version = subprocess.run([args.mlxcel, "--version"], capture_output=True, text=True).stdout.splitlines()
    print(f"{machine()}, {args.threads} threads; {os.path.basename(args.model)}; {args.rounds} rounds in alternating order")
    heading = False
    for test in map(parse_test, args.tests.split(",")):
        ours, theirs = [], []
        for number in range(args.rounds):
            order = [(run_mlxcel, ours), (run_llama_cpp, theirs)]
            for side, results in order if number % 2 == 0 else reversed(order):
                results.append(side(args, test))
        if not heading:
            print(f"{', '.join(version[:2])}; llama-cpp-python {theirs[0]['version']}, built with: {theirs[0]['info'].strip()}\n")
            print("| test | mlxcel tok/s (min-max) | llama.cpp tok/s (min-max) | ratio of medians |")
            print("|---|---|---|---|")
            heading = True
        a, b = [r["rate"] for r in ours], [r["rate"] for r in theirs]
        cells = [f"{statistics.median(x):.1f} ({min(x):.1f}-{max(x):.1f})" for x in (a, b)]
        print(f"| {test['name']} | {cells[0]} | {cells[1]} | {statistics.median(a) / statistics.median(b):.2f} |", flush=True)


if __name__ == "__main__":
    main()
