#!/usr/bin/env python3
"""The real openai and anthropic clients against the server. Skips (77) when PyPI cannot be reached.

The clients live in a virtual environment below the build folder, made once; this script runs itself again inside it.
"""
import os
import subprocess
import sys
import unittest
import venv
from pathlib import Path

from server_process import ROOT, Server

PACKAGES = ["openai==3.57.0", "anthropic==2.14.0"]
SKIPPED = 77


def run_inside_environment():
    folder = Path(os.environ.get("MLXCEL_TEST_BIN", ROOT / "build")).resolve().parent / "sdk-venv"
    python = folder / "bin" / "python"
    stamp = folder / "packages.txt"
    wanted = "\n".join(PACKAGES)
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        try:
            venv.create(folder, with_pip=True, clear=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print("skipped: no virtual environment can be made (python3-venv):", error)
            sys.exit(SKIPPED)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--timeout", "20"]
        made = subprocess.run([*command, *PACKAGES], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            print("skipped: the clients cannot be installed from PyPI:", made.stderr.strip()[-500:])
            sys.exit(SKIPPED)
        stamp.write_text(wanted, encoding="utf-8")
    environment = {**os.environ, "MLXCEL_SDK_TEST": "1"}
    sys.exit(subprocess.run([str(python), __file__, *sys.argv[1:]], env=environment, check=False).returncode)


if os.environ.get("MLXCEL_SDK_TEST") != "1":
    run_inside_environment()

import anthropic  # noqa: E402
import openai  # noqa: E402

PROMPT = "Once upon a time there was a little girl"


class SdkTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--parallel", "2", "-c", "512", "--api-key", "secret")
        base = f"http://{cls.server.host}:{cls.server.port}"
        cls.openai = openai.OpenAI(base_url=base + "/v1", api_key="secret", max_retries=0)
        cls.anthropic = anthropic.Anthropic(base_url=base, api_key="secret", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        cls.openai.close()
        cls.anthropic.close()
        cls.server.stop()

    def chat(self, **more):
        arguments = {"model": "gpt-4.1", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 24,
                     "temperature": 0, **more}
        return self.openai.chat.completions.create(**arguments)

    def slots_free(self):
        slots = self.server.get("/slots", headers={"Authorization": "Bearer secret"}).json()
        return not any(slot["is_processing"] for slot in slots)

    def test_chat_whole_and_streamed_are_equal(self):
        whole = self.chat()
        self.assertEqual(whole.usage.completion_tokens, 24)
        self.assertEqual(whole.choices[0].finish_reason, "length")
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(chunks[-1].usage.completion_tokens, 24)
        self.assertEqual({c.id for c in chunks}, {chunks[0].id})

    def test_chat_logprobs(self):
        content = self.chat(logprobs=True, top_logprobs=3, max_tokens=5).choices[0].logprobs.content
        self.assertEqual(len(content), 5)
        for token in content:
            self.assertLessEqual(token.logprob, 0)
            self.assertEqual(len(token.top_logprobs), 3)
            self.assertEqual(token.top_logprobs[0].token, token.token)

    def test_chat_choices_stop_and_tools(self):
        answer = self.chat(n=2, temperature=1, seed=7)
        self.assertEqual(len(answer.choices), 2)
        again = self.chat(n=2, temperature=1, seed=7)
        self.assertEqual([c.message.content for c in answer.choices], [c.message.content for c in again.choices])
        stopped = self.chat(stop=["."], max_tokens=200)
        self.assertEqual(stopped.choices[0].finish_reason, "stop")
        self.assertNotIn(".", stopped.choices[0].message.content)
        tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
        self.assertFalse(self.chat(tools=[tool], tool_choice="none").choices[0].message.tool_calls)

    def test_completions(self):
        answer = self.openai.completions.create(
            model="any", prompt=[PROMPT, "The dog"], max_tokens=6, logprobs=2, temperature=0
        )
        self.assertEqual([c.index for c in answer.choices], [0, 1])
        self.assertEqual(len(answer.choices[0].logprobs.tokens), 6)
        echoed = self.openai.completions.create(
            model="any", prompt=PROMPT, max_tokens=0, echo=True, logprobs=0, temperature=0
        )
        self.assertEqual(echoed.choices[0].text, PROMPT)
        self.assertIsNone(echoed.choices[0].logprobs.token_logprobs[0])
        self.assertTrue(all(v < 0 for v in echoed.choices[0].logprobs.token_logprobs[1:]))
        streamed = self.openai.completions.create(
            model="any", prompt=PROMPT, max_tokens=6, temperature=0, stream=True
        )
        self.assertEqual("".join(c.choices[0].text for c in streamed if c.choices), answer.choices[0].text)

    def test_responses_continue_each_other(self):
        first = self.openai.responses.create(model="any", input=PROMPT, max_output_tokens=8, temperature=0)
        self.assertTrue(first.output_text)
        second = self.openai.responses.create(
            model="any", input="And then?", previous_response_id=first.id, max_output_tokens=8, temperature=0
        )
        self.assertGreater(second.usage.input_tokens, first.usage.input_tokens + 8)
        self.assertEqual(self.openai.responses.retrieve(first.id).id, first.id)
        self.openai.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError):
            self.openai.responses.retrieve(first.id)

    def test_responses_stream(self):
        text, kinds = "", []
        with self.openai.responses.stream(model="any", input=PROMPT, max_output_tokens=8, temperature=0) as stream:
            for event in stream:
                kinds.append(event.type)
                if event.type == "response.output_text.delta":
                    text += event.delta
        self.assertEqual(kinds[0], "response.created")
        self.assertEqual(kinds[-1], "response.incomplete")
        self.assertTrue(text)

    def test_anthropic(self):
        arguments = {"model": "claude", "max_tokens": 12, "extra_body": {"temperature": 0},
                     "messages": [{"role": "user", "content": PROMPT}]}
        whole = self.anthropic.messages.create(**arguments)
        self.assertEqual(whole.stop_reason, "max_tokens")
        self.assertEqual(whole.usage.output_tokens, 12)
        with self.anthropic.messages.stream(**arguments) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual(final.stop_reason, "max_tokens")
        count = self.anthropic.messages.count_tokens(model="claude", messages=arguments["messages"])
        self.assertGreater(count.input_tokens, 0)
        with self.assertRaises(anthropic.BadRequestError):
            self.anthropic.messages.create(model="claude", max_tokens=4, messages=[{"role": "bard", "content": "x"}])

    def test_errors_are_the_clients_own(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(temperature="hot")
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(messages=[{"role": "user", "content": "word " * 2000}], stream=True)
        self.assertEqual(caught.exception.type, "exceed_context_size_error")
        with self.assertRaises(openai.AuthenticationError):
            self.openai.with_options(api_key="wrong").completions.create(model="any", prompt="a")

    def test_abort_and_timeout_free_the_slot(self):
        stream = self.chat(stream=True, max_tokens=-1, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        self.server.eventually(self.slots_free, 5, "every slot free after an abort")
        with self.assertRaises(openai.APITimeoutError):
            for _ in range(50):  # one that is too slow will come
                self.openai.with_options(timeout=0.001).chat.completions.create(
                    model="any", messages=[{"role": "user", "content": PROMPT}], max_tokens=-1
                )
        self.server.eventually(self.slots_free, 5, "every slot free after a timeout")


if __name__ == "__main__":
    unittest.main()
