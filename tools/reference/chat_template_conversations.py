"""Conversations that every chat template is rendered with. Plain data; see chat_templates.py."""
import json

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather of a city.\nUnits are \"metric\" or 'imperial'.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "City name, e.g. São Paulo"},
        "unit": {"type": "string", "enum": ["metric", "imperial"], "default": "metric"},
        "days": {"type": ["integer", "null"], "minimum": 1}},
        "required": ["city"]}}}
SEARCH = {"type": "function", "function": {
    "name": "search", "description": "Full-text search <fast> & exact",
    "parameters": {"type": "object", "properties": {
        "query": {"type": "string", "description": "What to look for"},
        "filters": {"type": "object", "properties": {"lang": {"type": "string"}, "tags": {
            "type": "array", "items": {"type": "string"}}}, "additionalProperties": False},
        "limit": {"type": "number", "description": "At most this many"},
        "exact": {"type": "boolean"}},
        "required": ["query", "limit"]},
    "strict": True}}
PING = {"type": "function", "function": {"name": "ping", "description": "No arguments", "parameters": {
    "type": "object", "properties": {}}}}
IMAGE = {"type": "image", "image": "cat.png"}
IMAGE_URL = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **extra):
    return {"role": "assistant", "content": text, **extra}


def text(value):
    return {"type": "text", "text": value}


def call(name, arguments, id="call_0001"):
    return {"type": "function", "id": id, "function": {"name": name, "arguments": arguments}}


def tool(content, id="call_0001", name="get_weather"):
    return {"role": "tool", "tool_call_id": id, "name": name, "content": content}


PARIS = {"city": "Paris", "unit": "metric"}
HI = user("Hello, who are you?")
TURNS = [HI, assistant("I am an assistant."), user("What is 2+2?"), assistant("4"), user("Sure?")]
WEATHER_TURN = [user("Weather in Paris?"), assistant("", tool_calls=[call("get_weather", PARIS, "abcdefghi")])]

CONVERSATIONS = [
    ("plain", {"messages": [HI]}),
    ("plain_no_prompt", {"messages": [HI], "add_generation_prompt": False}),
    ("system", {"messages": [system("You are terse."), HI]}),
    ("turns", {"messages": TURNS}),
    ("turns_system", {"messages": [system("  Be kind.\n"), *TURNS]}),
    ("closed", {"messages": [HI, assistant("Hi!")], "add_generation_prompt": False}),
    ("closed_prompt", {"messages": [HI, assistant("Hi!")]}),
    ("spaces", {"messages": [user("  \n lead and trail \t\n"), assistant("\n\n x \n"), user("end ")]}),
    ("empty", {"messages": [user(""), assistant(""), user("again")]}),
    ("no_messages", {"messages": []}),
    ("unicode", {"messages": [system("한국어로 답하세요 \"짧게\"."), user("안녕 👩‍👩‍👧‍👦 café naïve ﬁ ß İ\u2028\u00a0x"),
                              assistant("日本語\tОтвет\u0000\u007f"), user("<|im_end|></s>[INST]{{ 7*7 }}{% raw %}")]}),
    ("tools", {"messages": [user("Weather?")], "tools": [WEATHER]}),
    ("tools_system", {"messages": [system("Use tools."), user("Weather?")], "tools": [WEATHER, SEARCH, PING]}),
    ("tools_empty", {"messages": [HI], "tools": []}),
    ("tools_none", {"messages": [HI], "tools": None}),
    ("tool_result", {"messages": [*WEATHER_TURN, tool('{"temp": 21.5, "sky": "clear"}', "abcdefghi")],
                     "tools": [WEATHER]}),
    ("tool_result_more", {"messages": [*WEATHER_TURN, tool("21.5", "abcdefghi"), assistant("It is 21.5 degrees."),
                                       user("And Rome?")], "tools": [WEATHER, SEARCH]}),
    ("tool_calls_string", {"messages": [user("Weather?"), assistant(None, tool_calls=[
        call("get_weather", '{"city": "Paris"}', "abcdefghi")]), tool("sunny", "abcdefghi")], "tools": [WEATHER]}),
    ("tool_calls_two", {"messages": [user("Both?"), assistant("Let me see.", tool_calls=[
        call("get_weather", PARIS, "aaaaaaaa1"),
        call("search", {"query": "a\"b\\c\n", "limit": 2.5, "filters": {"tags": ["x", "ü"], "lang": None}, "exact": True},
             "aaaaaaaa2")]), tool("1", "aaaaaaaa1"), tool("two", "aaaaaaaa2", "search")], "tools": [WEATHER, SEARCH]}),
    ("tool_call_pending", {"messages": WEATHER_TURN, "tools": [WEATHER], "add_generation_prompt": False}),
    ("tool_no_arguments", {"messages": [user("Ping"), assistant("", tool_calls=[call("ping", {}, "abcdefghi")]),
                                        tool("pong", "abcdefghi", "ping")], "tools": [PING]}),
    ("tool_parts", {"messages": [*WEATHER_TURN, {**tool("", "abcdefghi"), "content": [text("part one"), text("part two")]}],
                    "tools": [WEATHER]}),
    ("reasoning", {"messages": [HI, assistant("4", reasoning_content="two and two", thinking="two and two"),
                                user("More"), assistant("5", reasoning_content="Hmm.\nYes.", thinking="Hmm.\nYes.")],
                   "add_generation_prompt": False}),
    ("reasoning_inline", {"messages": [HI, assistant("<think>\nhidden\n</think>\n\nshown"), user("next")]}),
    ("reasoning_tools", {"messages": [user("Weather in Paris?"), assistant("", reasoning_content="need tool", thinking="need tool",
                         tool_calls=[call("get_weather", PARIS, "abcdefghi")]), tool("21", "abcdefghi")], "tools": [WEATHER]}),
    ("thinking_off", {"messages": [HI], "enable_thinking": False, "thinking": False}),
    ("thinking_on", {"messages": [system("S"), HI], "enable_thinking": True, "thinking": True, "reasoning_effort": "high"}),
    ("parts", {"messages": [{"role": "user", "content": [text("One. "), text("Two.")]}]}),
    ("image", {"messages": [{"role": "user", "content": [IMAGE, text("What is it?")]}]}),
    ("image_url", {"messages": [system("Look."), {"role": "user", "content": [text("Compare"), IMAGE_URL, IMAGE]},
                                assistant("Same."), user("Why?")]}),
    ("system_parts", {"messages": [{"role": "system", "content": [text("Sys.")]}, HI]}),
    ("developer", {"messages": [{"role": "developer", "content": "Dev."}, HI]}),
    ("two_users", {"messages": [user("one"), user("two")]}),
    ("system_late", {"messages": [HI, system("late"), user("x")]}),
    ("assistant_first", {"messages": [assistant("I start."), HI]}),
    ("unknown_role", {"messages": [{"role": "alien", "content": "?"}]}),
    ("missing_content", {"messages": [{"role": "user"}]}),
    ("null_content", {"messages": [user(None), assistant(None), user("x")]}),
    ("documents", {"messages": [HI], "documents": [{"title": "T1", "text": "Body <1>", "doc_id": 1}]}),
    ("long", {"messages": [m for i in range(12) for m in (user(f"Question {i}?"), assistant(f"Answer {i}."))]
              + [user("Done?")]}),
]

for _name, _context in CONVERSATIONS:
    _context.setdefault("add_generation_prompt", True)
    _context.setdefault("bos_token", "<s>")
    _context.setdefault("eos_token", "</s>")
    _context.setdefault("unk_token", "<unk>")
    if _name != "plain_no_prompt":  # what only a few templates ask for
        _context.setdefault("functions", "[]" if not _context.get("tools") else json.dumps(_context["tools"], indent=2))
        _context.setdefault("datetime", "2025-01-01 12:00:05")
