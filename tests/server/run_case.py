#!/usr/bin/env python3
"""Runs one scenario against the server.

usage: run_case.py FILE.case

A line is a step; '#' begins a comment line.

  env NAME VALUE             for the next start
  start MODEL [FLAG...]      a server on a free port; MODEL is relative to the repository
  send NAME: VALUE           a header of the next request
  METHOD PATH [BODY]         a request; a body that goes on in indented lines is joined
  status N                   of the last answer
  header NAME OP VALUE       of the last answer
  json PATH OP VALUE         PATH is dotted, numbers index lists, '#' is a length
  body OP VALUE              the whole body as text
  events PATH OP VALUE       every event's payload, "[DONE]" as a string, as one list

OP is == != < <= > >= ~ (regular expression found) !~ or exists, absent. VALUE is JSON.
"""
import json
import re
import sys

from server_process import ROOT, Server, events

METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}
MISSING = object()


def look_up(value, path):
    for key in [k for k in path.split(".") if k]:
        if key == "#":
            if not isinstance(value, (list, dict, str)):
                return MISSING
            value = len(value)
        elif isinstance(value, list):
            if not re.fullmatch(r"-?\d+", key) or not -len(value) <= int(key) < len(value):
                return MISSING
            value = value[int(key)]
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            return MISSING
    return value


def holds(found, op, wanted):
    if op == "exists":
        return found is not MISSING
    if op == "absent":
        return found is MISSING
    if found is MISSING:
        return False
    if op in ("~", "!~"):
        text = found if isinstance(found, str) else json.dumps(found)
        return (re.search(wanted, text) is not None) == (op == "~")
    if op in ("==", "!="):
        same = found == wanted and isinstance(found, bool) == isinstance(wanted, bool)
        return same == (op == "==")
    numbers = {"<": found < wanted, "<=": found <= wanted, ">": found > wanted, ">=": found >= wanted}
    return numbers[op]


class Case:
    def __init__(self):
        self.server = None
        self.env, self.headers = {}, {}
        self.response = None

    def close(self):
        if self.server:
            self.server.stop()
            self.server = None

    def step(self, line):
        word, _, rest = line.partition(" ")
        if word in METHODS:
            path, _, body = rest.strip().partition(" ")
            self.response = self.server.request(word, path, body.strip() or None, self.headers)
            self.headers = {}
        elif word == "env":
            name, _, value = rest.partition(" ")
            self.env[name] = value
        elif word == "start":
            self.close()
            model, *flags = rest.split()
            self.server = Server(*flags, model=ROOT / model, env=self.env)
            self.env = {}
        elif word == "send":
            name, _, value = rest.partition(":")
            self.headers[name.strip()] = value.strip()
        elif word == "status":
            self.expect("status", self.response.status, "==", rest)
        elif word == "header":
            name, _, check = rest.partition(" ")
            self.check(line, self.response.headers.get(name.lower(), MISSING), check)
        elif word == "body":
            self.check(line, self.response.body.decode("utf-8", "replace"), rest)
        elif word == "json":
            path, _, check = rest.partition(" ")
            self.check(line, look_up(self.response.json(), path), check)
        elif word == "events":
            path, _, check = rest.partition(" ")
            found = [e if e == "[DONE]" else json.loads(e) for e in events(self.response.body)]
            self.check(line, look_up(found, path), check)
        else:
            raise SystemExit(f"unknown step: {line}")

    def check(self, line, found, text):
        op, _, value = text.strip().partition(" ")
        self.expect(line, found, op, value)

    def expect(self, what, found, op, value):
        wanted = json.loads(value) if value.strip() else None
        if not holds(found, op, wanted):
            shown = "nothing" if found is MISSING else json.dumps(found)
            body = self.response.body[:2000].decode("utf-8", "replace")
            raise AssertionError(f"expected {what} {op} {value}, found {shown}\n{self.response.status} {body}")


def steps(path):
    """Lines of the file, indented ones joined to the line before."""
    out = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0] in " \t" and out:
            out[-1] = (out[-1][0], out[-1][1] + " " + line.strip())
        else:
            out.append((number, line.strip()))
    return out


def main():
    path = ROOT / sys.argv[1]
    case = Case()
    try:
        for number, line in steps(path):
            try:
                case.step(line)
            except Exception as error:
                print(f"{path}:{number}: {line}\n{error}", file=sys.stderr)
                if case.server:
                    print(case.server.log_text()[-3000:], file=sys.stderr)
                return 1
    finally:
        case.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
