#!/usr/bin/env python3
"""Adds up test results and prints "N passed, N failed" (", N skipped" when there are any).

usage: count_tests.py [--failures] [--extra-failures N] <results folder>...

A results folder holds ctest.xml (ctest --output-junit) and one JSON report for each GoogleTest program (GTEST_OUTPUT=json:).
A GoogleTest program counts as its cases, any other ctest test as one. A program that ctest calls failed although its report
shows no failed case (it crashed, timed out, or leaked under a sanitizer) counts as one failure more. Exits 1 when anything
failed or nothing ran.
"""
import argparse
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def gtest_cases(report):
    """Yields (name, "passed" | "failed" | "skipped") for every case of one GoogleTest JSON report that was to run."""
    for suite in report["testsuites"]:
        for case in suite["testsuite"]:
            name = f'{suite["name"]}.{case["name"]}'
            if case["status"] == "NOTRUN":  # disabled, or left out by a filter
                continue
            if case.get("failures"):
                yield name, "failed"
            elif case.get("result") == "SKIPPED":
                yield name, "skipped"
            else:
                yield name, "passed"


def results(folder):
    """Yields (name, outcome) for everything that one ctest run did."""
    junit = ElementTree.parse(folder / "ctest.xml").getroot()
    for test in junit.iter("testcase"):
        name, status = test.get("name"), test.get("status")
        report = folder / f"{name}.json"
        try:
            cases = list(gtest_cases(json.loads(report.read_text()))) if report.exists() else []
        except (ValueError, KeyError):
            cases = []  # cut short: the program died while writing it
        if status == "notrun":
            # ctest also reports a program that was never built as <skipped>; only a test's own wish starts with SKIP_.
            skipped = test.find("skipped")
            wished = skipped is not None and skipped.get("message", "").startswith("SKIP_")
            yield name, "skipped" if wished else "failed"
        elif not cases:
            yield name, "passed" if status == "run" else "failed"
        else:
            yield from ((f"{name}: {case}", outcome) for case, outcome in cases)
            if status != "run" and all(outcome != "failed" for _, outcome in cases):
                yield f"{name}: the program", "failed"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--failures", action="store_true", help="also name what failed")
    parser.add_argument("--extra-failures", type=int, default=0, help="failures that no report holds")
    args = parser.parse_args()
    outcomes = [(f"{folder}: {name}", outcome) for folder in args.folders for name, outcome in results(folder)]
    count = {kind: sum(outcome == kind for _, outcome in outcomes) for kind in ("passed", "failed", "skipped")}
    count["failed"] += args.extra_failures
    if args.failures:
        print("".join(f"FAILED {name}\n" for name, outcome in outcomes if outcome == "failed"), end="")
    skipped = f', {count["skipped"]} skipped' if count["skipped"] else ""
    print(f'{count["passed"]} passed, {count["failed"]} failed{skipped}')
    return 0 if count["failed"] == 0 and count["passed"] > 0 else 1


if __name__ == "__main__":
    sys.exit(main())
