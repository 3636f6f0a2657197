"""The engine: `lacuna.Model`."""

import _thread
import concurrent.futures
import json
import os
import pathlib
import signal
import tempfile
import threading
import time
import typing
import unittest

import lacunalm as lacuna

EXPECTED = json.loads(pathlib.Path(os.environ["LACUNA_EXPECTED"]).read_text())
PROMPT = EXPECTED["prompt"]


class EngineCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = lacuna.Model(device="cpu", precision="f32")


class Constrained(EngineCase):
    def test_answers_keep_to_their_format(self):
        schema = {
            "type": "object",
            "properties": {"left": {"type": "integer"}},
            "required": ["left"],
            "additionalProperties": False,
        }
        for strategy in ("dos+eb", "confidence", "random+top4"):
            answer = self.model.generate(PROMPT, json_schema=schema, gen_length=32, strategy=strategy).text
            self.assertIsInstance(json.loads(answer)["left"], int)
            self.assertIn(
                self.model.generate(PROMPT, choices=["yes", "no"], gen_length=16, strategy=strategy).text, ("yes", "no")
            )
        self.assertRegex(self.model.fill("a <gap:3> b", regex="[0-9]*").text, "^a [0-9]{3,} b$")
        with self.assertRaisesRegex(ValueError, "regex=: the pattern|regex: the pattern"):
            self.model.generate(PROMPT, regex="(a")
        with self.assertRaisesRegex(ValueError, "at least"):
            self.model.generate(PROMPT, regex="x{300}", gen_length=8)


class Generate(EngineCase):
    def test_answers_are_those_of_the_engine_in_rust(self):
        self.assertEqual(self.model.encode_prompt(PROMPT), EXPECTED["prompt_tokens"])
        start = len(EXPECTED["prompt_tokens"])
        for run in EXPECTED["runs"]:
            result = self.model.generate(PROMPT, strategy=run["strategy"], gen_length=64)
            answer = run["canvas"][start:]
            self.assertEqual(result.tokens, answer[: len(result.tokens)], run["strategy"])
            if self.model.mask_token not in answer:
                self.assertEqual(len(result.tokens), 64)
            self.assertEqual((result.nfe, result.rows_read), (run["nfe"], run["rows_read"]))
            self.assertEqual(len(result.steps), result.nfe)
            self.assertEqual(result.prompt_tokens, start)
            self.assertEqual(result.strategy, run["strategy"])

    def test_text_is_the_decoded_tokens(self):
        result = self.model.generate(PROMPT)
        self.assertIn("15", result.text)
        self.assertEqual(result.text, self.model.decode(result.tokens[: result.tokens.index(self.model.end_tokens[0])]))
        self.assertGreater(result.tokens_per_second, 0)
        self.assertIn("Result(text=", repr(result))

    def test_a_chat_token_ids_and_a_list_of_prompts_say_the_same(self):
        def answers(prompt, **options):
            results = self.model.generate(prompt, gen_length=32, **options)
            return [result.tokens for result in results] if isinstance(results, list) else results.tokens

        alone = answers(PROMPT)
        chat = [{"role": "user", "content": PROMPT}]
        tokens = self.model.encode_prompt(PROMPT)
        self.assertEqual([answers(chat), answers(tokens)], [alone, alone])
        self.assertEqual([answers([chat]), answers([tokens, tokens])], [[alone], [alone, alone]])
        other = answers("Tom has 3 apples.")
        for batch in [None, 1, 2]:
            self.assertEqual(answers([PROMPT, "Tom has 3 apples.", PROMPT], batch=batch), [alone, other, alone])
        self.assertEqual(self.model.encode_prompt(PROMPT, raw=True), self.model.encode(PROMPT))
        self.assertNotEqual(self.model.encode_prompt(PROMPT, system="Be brief."), tokens)

    def test_threads_share_a_model(self):
        def answer(strategy):
            return self.model.generate(PROMPT, strategy=strategy, gen_length=16).tokens

        strategies = ["dos+eb", "klass", "saber", "wino"]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            self.assertEqual(list(pool.map(answer, strategies * 2)), list(map(answer, strategies * 2)))

    def test_seeds_draw(self):
        def draw(seed):
            return self.model.generate(PROMPT, temperature=1.0, seed=seed, gen_length=32).tokens

        self.assertEqual(draw(1), draw(1))
        self.assertNotEqual(draw(1), draw(2))

    def test_the_record_is_the_one_that_the_command_line_prints(self):
        result = self.model.generate(PROMPT)
        record = json.loads(result.to_json())
        self.assertEqual(record["tokens"], result.tokens)
        self.assertEqual(
            [[[c.position, c.token] for c in step.committed] for step in result.steps],
            [step["unmasked"] for step in record["steps"]],
        )

    def test_every_option_is_typed(self):
        self.assertEqual(sorted(typing.get_type_hints(lacuna.Options)), sorted(lacuna.OPTIONS))


class Stream(EngineCase):
    def test_steps_arrive_one_by_one_and_lead_to_the_same_answer(self):
        result = self.model.generate(PROMPT)
        stream = self.model.stream(PROMPT)
        with self.assertRaisesRegex(ValueError, "not finished"):
            stream.result
        frames = list(stream)
        self.assertEqual(stream.result.tokens, result.tokens)
        self.assertEqual([f.committed for f in frames], [s.committed for s in result.steps])
        self.assertIsInstance(frames[0], lacuna.Step)
        self.assertIn("░", frames[0].text)
        self.assertEqual(frames[-1].text, result.text)
        start = result.prompt_tokens
        tokens = [self.model.mask_token] * len(frames[0].tokens)
        for frame in frames:
            for commit in frame.committed:
                tokens[commit.position - start] = commit.token
            for position in frame.reopened:
                tokens[position - start] = self.model.mask_token
            self.assertEqual(frame.tokens, tokens)

    def test_streams_take_turns_and_may_be_left(self):
        alone = self.model.generate(PROMPT, strategy="klass", gen_length=32)
        streams = [self.model.stream(PROMPT, strategy="klass", gen_length=32) for _ in range(3)]
        next(streams[2])
        del streams[2]
        frames = [pair for pair in zip(*streams)]
        self.assertEqual(len(frames), alone.nfe)
        for stream in streams:
            self.assertEqual(list(stream), [])
            self.assertEqual(stream.result.steps, alone.steps)


class Fill(EngineCase):
    def test_texts_are_revised_and_lengths_found(self):
        question = "Sara has 24 pens and gives 9 away. How many are left?"
        revised = self.model.revise("24 - 9 = 13\n#### 15", prompt=question)
        self.assertEqual(revised.text, "24 - 9 = 15\n#### 15")
        self.assertEqual(len(revised.changed), 1)
        self.assertIsNone(self.model.generate(question, gen_length=16).changed)
        drafted = self.model.generate(question, draft="24 - 9 = 13", gen_length=32)
        self.assertEqual(drafted.text, "24 - 9 = 15\n#### 15")
        found = self.model.fill("Sara still has<gap> = 15 pens.", prompt=question, max_gap=8)
        self.assertEqual(found.text, "Sara still has 24 - 9 = 15 pens.")
        self.assertEqual([length for length, _ in found.tried[0]], list(range(1, 9)))
        with self.assertRaisesRegex(ValueError, "only a revision reopens a draft"):
            self.model.revise("24", strategy="dos+eb")

    def test_gaps_are_filled_and_the_rest_stays(self):
        result = self.model.fill("Sara still has <gap:5> = 15 pens.", prompt=PROMPT)
        self.assertRegex(result.text, r"^Sara still has .* = 15 pens\.$")
        mask = self.model.mask_token
        tokens = self.model.encode("Sara has") + [mask] * 3 + self.model.encode(" pens.")
        filled = self.model.fill(tokens).tokens
        self.assertTrue(all(t == f for t, f in zip(tokens, filled) if t != mask))
        self.assertNotIn(mask, filled)


class Probe(EngineCase):
    def test_logits_and_dependency_have_their_shapes(self):
        tokens = self.model.encode(PROMPT) + [self.model.mask_token] * 4
        seen = self.model.probe(tokens)
        self.assertEqual((seen.logits.shape, seen.logits.format), ((len(tokens), self.model.vocabulary), "f"))
        self.assertEqual(len(seen.dependency), self.model.layers)
        for scores in map(list, seen.dependency):
            self.assertEqual(scores[:-4], [0.0] * (len(tokens) - 4))
            self.assertTrue(all(0 < score < 1 for score in scores[-4:]))

    def test_attention_to_what_is_unmasked_is_the_dependency_score(self):
        tokens = self.model.encode(PROMPT) + [self.model.mask_token] * 4
        last = self.model.layers - 1
        matrices = {}
        for layer in (0, last):
            seen = self.model.probe(tokens, attention=layer)
            self.assertEqual((seen.attention.shape, seen.attention.format), ((len(tokens),) * 2, "f"))
            matrices[layer] = rows = seen.attention.tolist()
            for at, score in list(enumerate(seen.dependency[layer]))[-4:]:
                self.assertAlmostEqual(sum(rows[at]), 1, places=3)
                self.assertAlmostEqual(sum(rows[at][:-4]), score, places=3)
        both = self.model.probe_batch([tokens], attention=[0, last])[0].attention.tolist()
        self.assertAlmostEqual(both[5][3], (matrices[0][5][3] + matrices[last][5][3]) / 2, places=5)
        self.assertIsNone(self.model.probe(tokens).attention)
        with self.assertRaisesRegex(ValueError, "layer"):
            self.model.probe(tokens, attention=self.model.layers)
        with self.assertRaisesRegex(TypeError, "attention must be a whole number"):
            self.model.probe(tokens, attention="all")

    def test_a_batch_is_seen_as_each_canvas_alone(self):
        mask = self.model.mask_token
        canvases = [self.model.encode(PROMPT) + [mask] * 4, [1, 2, mask]]
        for seen, canvas in zip(self.model.probe_batch(canvases), canvases, strict=True):
            alone = self.model.probe(canvas)
            self.assertEqual(bytes(seen.logits), bytes(alone.logits))
            self.assertEqual(list(map(bytes, seen.dependency)), list(map(bytes, alone.dependency)))
        self.assertEqual(self.model.probe_batch([]), [])

    def test_rows_are_those_of_the_whole(self):
        tokens = self.model.encode(PROMPT) + [self.model.mask_token] * 4
        whole = self.model.probe(tokens).logits.tolist()
        last = len(tokens) - 1
        seen = self.model.probe(tokens, attention=0, rows=[last, 2, last])
        self.assertEqual(seen.logits.tolist(), [whole[last], whole[2], whole[last]])
        self.assertEqual(seen.attention.shape, (len(tokens), len(tokens)))
        self.assertEqual(self.model.probe(tokens, rows=3).logits.tolist(), [whole[3]])
        for found, row in zip(self.model.probe_batch([tokens] * 2, rows=[1, [4]]), (1, 4), strict=True):
            self.assertEqual(found.logits.tolist(), [whole[row]])
        with self.assertRaisesRegex(ValueError, "row 99 is not on a canvas of"):
            self.model.probe(tokens, rows=[99])
        with self.assertRaisesRegex(ValueError, "rows has 1 lists for 2 canvases"):
            self.model.probe_batch([tokens] * 2, rows=[[1]])


class Facts(EngineCase):
    def test_the_model_tells_about_itself(self):
        facts = self.model.description
        self.assertEqual((facts["family"], facts["precision"], facts["strategy"]), ("LLaDA", "f32", "dos+eb"))
        self.assertEqual(facts["mask_token"], self.model.mask_token)
        self.assertEqual(facts["vocabulary"], self.model.vocabulary)
        self.assertIn("embedded", repr(self.model))
        self.assertEqual(self.model.decode(self.model.encode(PROMPT)), PROMPT)


class Interrupt(EngineCase):
    LONG = dict(gen_length=900, strategy="confidence", early_stop=False)

    def test_ctrl_c_ends_generation_between_two_steps(self):
        # Whoever starts the tests in the background has them ignore ctrl-c.
        inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, inherited)
        for decode in [self.model.generate, lambda *a, **o: list(self.model.stream(*a, **o))]:
            timer = threading.Timer(0.2, _thread.interrupt_main)
            timer.start()
            begun = time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                decode(PROMPT, **self.LONG)
            self.assertLess(time.monotonic() - begun, 60)
        self.assertIn("15", self.model.generate(PROMPT).text)

    def test_other_threads_run_while_it_computes(self):
        ticks = []
        stop = threading.Event()

        def tick():
            while not stop.is_set():
                ticks.append(time.monotonic())
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        self.model.generate(PROMPT, strategy="confidence", gen_length=16)
        stop.set()
        thread.join()
        self.assertGreater(len(ticks), 5)


class Misuse(EngineCase):
    def test_each_mistake_gets_a_clear_exception(self):
        generate, fill, probe = self.model.generate, self.model.fill, self.model.probe
        cases = [
            (
                TypeError,
                "unknown option 'gen_lenght'; did you mean 'gen_length'",
                lambda: generate(PROMPT, gen_lenght=3),
            ),
            (ValueError, "unknown strategy 'doss': did you mean 'dos'", lambda: generate(PROMPT, strategy="doss")),
            (ValueError, "gen_length is -1, but it must be a whole number", lambda: generate(PROMPT, gen_length=-1)),
            (ValueError, "gen_length is 1.5, but it must be a whole number", lambda: generate(PROMPT, gen_length=1.5)),
            (ValueError, "gen_length is 0", lambda: generate(PROMPT, gen_length=0)),
            (ValueError, "context ends at 1024", lambda: generate(PROMPT, gen_length=10**6)),
            (ValueError, "gen_length is 1e30", lambda: generate(PROMPT, gen_length=10**30)),
            (
                ValueError,
                "block_length is 7, but it must divide",
                lambda: generate(PROMPT, gen_length=8, block_length=7),
            ),
            (ValueError, "temperature is NaN", lambda: generate(PROMPT, temperature=float("nan"))),
            (
                ValueError,
                "temperature is the text 'hot', but it must be 0 or more",
                lambda: generate(PROMPT, temperature="hot"),
            ),
            (ValueError, "temperature is -1", lambda: generate(PROMPT, temperature=-1)),
            (ValueError, "layer is 1.5, but it must be a layer such as 4", lambda: generate(PROMPT, layer=1.5)),
            (ValueError, "layer is first, but it must be a layer", lambda: generate(PROMPT, layer="first")),
            (ValueError, "layer 99 does not exist", lambda: generate(PROMPT, layer=99, strategy="dos")),
            (ValueError, "head 99 does not exist", lambda: generate(PROMPT, heads=[99], strategy="dos")),
            (
                ValueError,
                "sampling is best, but it must be one of llada, dream",
                lambda: generate(PROMPT, sampling="best"),
            ),
            (ValueError, "the prompt is empty", lambda: generate("  ")),
            (ValueError, "the prompt is empty", lambda: generate([])),
            (ValueError, "token 9999 at position 1 is out of range", lambda: generate([1, 9999])),
            (ValueError, "mask token at position 1", lambda: generate([1, 5])),
            (ValueError, "token ids must be", lambda: generate([1, -5])),
            (ValueError, "each message must be", lambda: generate([{"role": "user"}])),
            (ValueError, "raw leaves out the chat template", lambda: generate(PROMPT, system="Be brief.", raw=True)),
            (ValueError, "batch is 0", lambda: generate([PROMPT], batch=0)),
            (TypeError, "a prompt is text, a list .* but this is of type int", lambda: generate(3)),
            (TypeError, "a prompt is text", lambda: generate(None)),
            (TypeError, "a prompt is text", lambda: generate({"role": "user", "content": PROMPT})),
            (TypeError, "a prompt is text", lambda: generate([PROMPT, 3])),
            (TypeError, "missing 1 required", lambda: generate()),
            (ValueError, "token ids must be", lambda: self.model.stream([PROMPT, PROMPT])),
            (ValueError, "token 9999 at position 0", lambda: self.model.decode([9999])),
            (ValueError, "write each gap as <gap:N>", lambda: fill("no gap here")),
            (ValueError, "not a gap", lambda: fill("a <gap:x> b")),
            (ValueError, "leave out gen_length", lambda: fill("a <gap:3> b", gen_length=3)),
            (ValueError, "without positions", lambda: probe([])),
            (ValueError, "out of range", lambda: probe([99999])),
            (
                ValueError,
                "no device 'gpu': use auto, cpu, cuda, a GPU such as cuda:1",
                lambda: lacuna.Model(device="gpu"),
            ),
            (ValueError, "unknown precision 'f64': use one of f32", lambda: lacuna.Model(precision="f64")),
            (lacuna.Error, 'fp8 needs .* use precision="bf16"', lambda: lacuna.Model(device="cpu", precision="fp8")),
            (FileNotFoundError, "/nowhere is neither a directory nor", lambda: lacuna.Model("/nowhere")),
        ]
        for kind, message, call in cases:
            with self.subTest(message), self.assertRaisesRegex(kind, message) as caught:
                call()
            self.assertNotIn("\n", str(caught.exception))

    def test_bad_files_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            with self.assertRaisesRegex(FileNotFoundError, "config.json does not exist"):
                lacuna.Model(path)
            (path / "config.json").write_text("{")
            with self.assertRaisesRegex(lacuna.Error, "config.json is not as expected"):
                lacuna.Model(folder)

    def test_which_prompt_of_a_list_is_wrong_is_noted(self):
        with self.assertRaisesRegex(ValueError, "the prompt is empty") as caught:
            self.model.generate([PROMPT, ""])
        self.assertEqual(caught.exception.__notes__, ["This is about prompt 1 of the list."])


if __name__ == "__main__":
    unittest.main()
