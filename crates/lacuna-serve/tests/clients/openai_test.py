"""The official client, as its users use it."""

import asyncio
import json
import typing
import unittest

import openai
import pydantic
from serving import Server

QUESTION = "Tom has 3 boxes with 12 apples each. He eats 5 apples. How many apples are left?"
MESSAGES = [{"role": "user", "content": QUESTION}]
KEY = "a-key-for-tests"


class Left(pydantic.BaseModel):
    count: int
    unit: typing.Literal["apples", "pens"]
    sure: bool | None


class OfficialClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--max-queue", "40", api_keys=KEY))
        cls.client = openai.OpenAI(base_url=f"{cls.server.url}/v1", api_key=KEY)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def chat(self, **more):
        return self.client.chat.completions.create(model="lacuna-mini", messages=MESSAGES, **more)

    def test_a_chat_is_answered(self):
        answer = self.chat(max_completion_tokens=64)
        self.assertIn("#### 31", answer.choices[0].message.content)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        self.assertGreater(answer.usage.lacuna["nfe"], 0)
        self.assertTrue(answer._request_id)

    def test_a_stream_is_the_same_text(self):
        whole = self.chat(max_tokens=64).choices[0].message.content
        chunks = list(self.chat(max_tokens=64, stream=True, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        self.assertEqual(text, whole)
        self.assertGreater(len(chunks), 3)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(chunks[-2].choices[0].finish_reason, "stop")
        self.assertGreater(chunks[-1].usage.completion_tokens, 0)

    def test_decoding_is_set_by_extra_fields(self):
        one = self.chat(max_tokens=32, extra_body={"strategy": "confidence", "block_length": 8})
        self.assertEqual(one.usage.lacuna["nfe"], one.usage.lacuna["steps"])
        filled = self.chat(extra_body={"text": "3 * 12 = <gap:2>\n<gap:8>\n#### 31"}).choices[0].message.content
        self.assertTrue(filled.startswith("3 * 12 = ") and filled.endswith("#### 31"), filled)

    def test_completions_stop_echo_and_fill(self):
        create = self.client.completions.create
        text = create(model="lacuna-mini", prompt="def add(a, b):", max_tokens=24).choices[0].text
        self.assertTrue(text)
        several = create(model="lacuna-mini", prompt=["def add(a, b):", "def square(x):"], max_tokens=24, n=2)
        self.assertEqual([choice.index for choice in several.choices], [0, 1, 2, 3])
        self.assertEqual(several.choices[1].text, text)
        echoed = create(model="lacuna-mini", prompt="def add(a, b):", max_tokens=24, echo=True).choices[0].text
        self.assertEqual(echoed, "def add(a, b):" + text)
        stopped = create(model="lacuna-mini", prompt="def add(a, b):", max_tokens=24, stop=[text[4:7]]).choices[0]
        self.assertEqual((stopped.text, stopped.finish_reason), (text[: text.index(text[4:7])], "stop"))
        pieces = create(model="lacuna-mini", prompt="def add(a, b):", max_tokens=24, stream=True)
        self.assertEqual("".join(piece.choices[0].text for piece in pieces), text)
        between = create(model="lacuna-mini", prompt="def square(x):\n    return", suffix="\n", max_tokens=6)
        self.assertEqual(between.usage.completion_tokens, 6)
        scored = create(model="lacuna-mini", prompt="def add(a, b):", max_tokens=24, logprobs=0).choices[0].logprobs
        self.assertEqual("".join(scored.tokens), text)
        best = create(model="lacuna-mini", prompt="def add(a, b):", max_tokens=24, logprobs=5).choices[0].logprobs
        self.assertEqual(best.token_logprobs, scored.token_logprobs)
        for token, logprob, top in zip(best.tokens, best.token_logprobs, best.top_logprobs, strict=True):
            self.assertEqual((top[token], max(top.values())), (logprob, logprob))

    def test_alternatives_come_with_logprobs(self):
        whole = self.chat(logprobs=True, top_logprobs=20).choices[0].logprobs.content
        self.assertEqual({len(token.top_logprobs) for token in whole}, {20})
        self.assertTrue(all(bytes(top.bytes).decode(errors="replace") for token in whole for top in token.top_logprobs))
        streamed = self.chat(logprobs=True, top_logprobs=20, stream=True)
        pieces = [piece.choices[0].logprobs for piece in streamed if piece.choices]
        self.assertEqual([token for piece in pieces if piece for token in piece.content], whole)
        drawn = self.chat(logprobs=True, top_logprobs=1, temperature=1.5, seed=3).choices[0].logprobs.content
        self.assertTrue(all(token.logprob <= token.top_logprobs[0].logprob for token in drawn))

    def test_structured_outputs_are_parsed(self):
        for strategy in ["dos+eb", "confidence", "random+top4", "wino", "left"]:
            parsed = (
                self.client.chat.completions.parse(
                    model="lacuna-mini",
                    messages=MESSAGES,
                    max_tokens=64,
                    response_format=Left,
                    extra_body={"strategy": strategy},
                )
                .choices[0]
                .message.parsed
            )
            self.assertIsInstance(parsed, Left)
            self.assertIn(parsed.unit, ("apples", "pens"))
        anything = self.chat(response_format={"type": "json_object"}, max_tokens=32).choices[0].message.content
        self.assertIsInstance(json.loads(anything), dict)
        chosen = self.chat(max_tokens=16, extra_body={"guided_choice": ["yes", "no"]}).choices[0].message.content
        self.assertIn(chosen, ("yes", "no"))

    def test_tools_are_called(self):
        tool = openai.pydantic_function_tool(Left, name="tell", description="Tells how many are left.")
        asked = {"tools": [tool], "tool_choice": "required", "max_tokens": 96}
        message = self.client.chat.completions.parse(model="lacuna-mini", messages=MESSAGES, **asked).choices[0].message
        self.assertIsInstance(message.tool_calls[0].function.parsed_arguments, Left)
        with self.client.chat.completions.stream(model="lacuna-mini", messages=MESSAGES, **asked) as stream:
            streamed = stream.get_final_completion().choices[0]
        self.assertEqual(streamed.finish_reason, "tool_calls")
        self.assertEqual(streamed.message.tool_calls[0].function.arguments, message.tool_calls[0].function.arguments)
        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "told"}
        followed = [*MESSAGES, message, result]
        answer = self.client.chat.completions.create(model="lacuna-mini", messages=followed, max_tokens=32)
        self.assertTrue(answer.choices[0].message.content)

    def test_models_are_listed(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["lacuna-mini"])
        self.assertEqual(self.client.models.retrieve("lacuna-mini").owned_by, "lacuna")

    def test_errors_are_the_clients_own(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(tools=[{"type": "function", "function": {"name": "a b"}}])
        self.assertEqual(caught.exception.param, "tools")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(top_logprobs=3)
        self.assertEqual(caught.exception.param, "top_logprobs")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.models.retrieve("gpt-4")
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.AuthenticationError):
            self.client.with_options(api_key="wrong").models.list()
        with self.assertRaises(openai.BadRequestError):
            self.chat(extra_body={"strategy": "no-such-thing"})
        complete = self.client.with_options(max_retries=0).completions.create
        with self.assertRaises(openai.BadRequestError) as caught:
            complete(model="lacuna-mini", prompt=["x"] * 60, max_tokens=4)
        self.assertIn("56 at most", str(caught.exception))
        slow = {"strategy": "dos", "early_stop": False}
        with complete(model="lacuna-mini", prompt=["x"] * 40, max_tokens=512, stream=True, extra_body=slow):
            with self.assertRaises(openai.RateLimitError) as caught:
                complete(model="lacuna-mini", prompt=["x"] * 30, max_tokens=4)
        self.assertGreaterEqual(int(caught.exception.response.headers["retry-after"]), 1)

    def test_asynchronous_clients_at_once(self):
        async def ask_all():
            async with openai.AsyncOpenAI(base_url=f"{self.server.url}/v1", api_key=KEY) as client:

                async def ask(apples):
                    text = ""
                    content = f"Tom has {apples} apples and eats 2. How many are left?"
                    stream = await client.chat.completions.create(
                        model="lacuna-mini", messages=[{"role": "user", "content": content}], max_tokens=48, stream=True
                    )
                    async for chunk in stream:
                        text += chunk.choices[0].delta.content or ""
                    return text

                return await asyncio.gather(*(ask(apples) for apples in range(10, 26)))

        answers = asyncio.run(ask_all())
        right = sum(f"#### {apples - 2}" in answer for apples, answer in zip(range(10, 26), answers))
        self.assertGreaterEqual(right, 12, answers)


if __name__ == "__main__":
    unittest.main()
