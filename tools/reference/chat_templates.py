#!/usr/bin/env python3
"""Freezes what Python's jinja2, set up as transformers does, makes of chat templates.

Pinned: jinja2 3.1.6, transformers 5.24.0, CPython 3.11 (asserted below). The clock stands at NOW in UTC.

  python tools/reference/chat_templates.py            writes tests/data/chat-templates/{conversations,goldens/*}.json
  python tools/reference/chat_templates.py --features writes tests/data/chat-templates/features.json from
                                                      tools/reference/jinja_features.py
"""
import datetime as dt
import json
import os
import pathlib
import sys

os.environ["TZ"] = "UTC"
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import jinja2  # noqa: E402
import transformers  # noqa: E402
import transformers.utils.chat_template_utils as utils  # noqa: E402

assert jinja2.__version__ == "3.1.6" and transformers.__version__ == "5.24.0" and sys.version_info[:2] == (3, 11)

NOW = 1735732805  # 2025-01-01 12:00:05 UTC
ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests/data/chat-templates"


class FixedClock(dt.datetime):
    @classmethod
    def now(cls, tz=None):
        return dt.datetime.fromtimestamp(NOW, dt.timezone.utc).replace(tzinfo=None)


utils.datetime = FixedClock


def render(template, context):
    """{"text": ...} or {"error": kind, "message": ...}; kind "raised" is raise_exception."""
    try:
        return {"text": utils._compile_jinja_template(template).render(**json.loads(json.dumps(context)))}
    except jinja2.TemplateError as e:
        kind = "raised" if type(e) is jinja2.TemplateError else type(e).__name__
        return {"error": kind, "message": str(e)}
    except Exception as e:
        return {"error": type(e).__name__, "message": str(e)}


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False, indent=0, separators=(",", ":")) + "\n")


def goldens():
    from chat_template_conversations import CONVERSATIONS
    write(ROOT / "conversations.json", {"now": NOW, "conversations": [
        {"name": name, "context": context} for name, context in CONVERSATIONS]})
    for path in sorted((ROOT / "templates").glob("*.jinja")):
        source = path.read_text()
        write(ROOT / "goldens" / (path.stem + ".json"),
              {name: render(source, context) for name, context in CONVERSATIONS})


def features():
    from jinja_features import CASES, DATA
    cases = [{"template": template, **render(template, context)} for template, context in CASES]
    cases = [case for case in cases if " at 0x" not in case.get("text", "")]  # addresses differ from run to run
    write(ROOT / "features.json", {"now": NOW, "context": DATA, "cases": cases})


features() if "--features" in sys.argv[1:] else goldens()
