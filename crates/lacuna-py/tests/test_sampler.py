"""The sampler alone: `lacuna.decode`, `lacuna.decode_batch` and `lacuna.Run`."""

import array
import math
import pathlib
import pickle
import unittest

import lacunalm as lacuna

PROMPT = "Tom has 3 boxes with 12 apples each. He eats 5 apples. How many apples are left?"

STRATEGIES = [
    dict(strategy="dos"),
    dict(strategy="dos+eb"),
    dict(strategy="dos+eb", layer=[1, 3]),
    dict(strategy="dos+eb", layer="all", gamma=0.2),
    dict(strategy="dos+threshold", threshold=0.9, block_length=8),
    dict(strategy="dos+score-threshold", threshold=0.7),
    dict(strategy="dos+top3", order_temperature=0.5, seed=4),
    dict(strategy="confidence"),
    dict(strategy="confidence+eb", defer_eos=True),
    dict(strategy="entropy+eb"),
    dict(strategy="margin+top2", block_length=4),
    dict(strategy="random", seed=7),
    dict(strategy="random+top4", early_stop=False),
    dict(strategy="llada", steps=8, block_length=8),
    dict(strategy="margin+schedule", steps=8, schedule="dream"),
    dict(strategy="fast-dllm", block_length=8),
    dict(strategy="entropy+factor", factor=0.5),
    dict(strategy="klass", steps=16),
    dict(strategy="dos+klass", block_length=8, history=1),
    dict(strategy="saber"),
    dict(strategy="dos+adaptive+backtrack", saber_n=3),
    dict(strategy="confidence+draft"),
    dict(strategy="dos+eb", temperature=0.8, seed=3),
    dict(strategy="confidence+top2", temperature=0.7, top_p=0.9, seed=5),
    dict(strategy="entropy+top2", top_k=3, sampling="dream"),
    dict(strategy="dos+eb", guidance=1.5),
    dict(strategy="confidence+top4", guidance=0.5, suppress_eos=True),
]


def floats(rows):
    """A float32 buffer with two dimensions, without numpy."""
    flat = array.array("f", [number for row in rows for number in row])
    return memoryview(flat).cast("B").cast("f", [len(rows), len(rows[0])])


class SameAsTheEngine(unittest.TestCase):
    """The embedded model, driven from outside through its own logits and scores."""

    @classmethod
    def setUpClass(cls):
        cls.model = lacuna.Model(device="cpu", precision="f32")
        cls.prompt = cls.model.encode_prompt(PROMPT)
        cls.other_prompt = cls.model.encode_prompt("Sara has 24 pens. She gives 9 away.")

    def given(self, **options):
        model = self.model
        about = dict(end_tokens=model.end_tokens, layers=model.layers, shifted=model.shifted)
        return dict(mask_token=model.mask_token, **about, **options)

    def predict(self, tokens):
        seen = self.model.probe(tokens)
        return seen.logits, seen.dependency

    def same(self, result, expected):
        self.assertEqual(result.tokens, expected.tokens)
        self.assertEqual(result.steps, expected.steps)
        for field in ["nfe", "rows_read", "strategy", "layers", "prompt_tokens"]:
            self.assertEqual(getattr(result, field), getattr(expected, field), field)

    def test_every_strategy_takes_the_same_steps(self):
        for options in STRATEGIES:
            with self.subTest(**options):
                layer = dict(layer=0) if options["strategy"].startswith("dos") else {}
                options = layer | dict(gen_length=16) | options
                expected = self.model.generate(self.prompt, **options)
                self.same(lacuna.decode(self.predict, self.prompt, **self.given(**options)), expected)

    def test_every_name_is_tried(self):
        names = [f"{order}+top2" for order in lacuna.ORDERS] + [f"confidence+{pace}" for pace in lacuna.PACES]
        names += [f"confidence+threshold+{revision}" for revision in lacuna.REVISIONS]
        taken = 0
        for name in names:
            options = dict(strategy=name, gen_length=8) | (dict(layer=0) if name.startswith("dos") else {})
            with self.subTest(name):
                try:
                    expected = self.model.generate(self.prompt, **options)
                    result = lacuna.decode(self.predict, self.prompt, **self.given(**options))
                except ValueError as refusal:
                    # Some need a parameter, or more than logits and dependency scores.
                    self.assertRegex(str(refusal), "needs|this model|makes no sense|WINO|layer")
                    continue
                taken += 1
                self.assertEqual(result.tokens, expected.tokens)
        self.assertGreater(taken, len(names) // 2)

    def test_texts_with_gaps_are_filled(self):
        mask = self.model.mask_token
        tokens = self.prompt[:9] + [mask] * 6 + self.prompt[9:] + [mask] * 2
        expected = self.model.fill(tokens, allow_eos=True, strategy="dos+eb", layer=0)
        self.same(lacuna.decode(self.predict, tokens, **self.given(strategy="dos+eb", layer=0)), expected)

    def test_batches_change_nothing_and_need_one_call_a_step(self):
        prompts = [self.prompt, self.other_prompt]
        calls = []

        def predict(canvases):
            calls.append(len(canvases))
            return [self.predict(tokens) for tokens in canvases]

        for guidance in [0.0, 1.0]:
            calls.clear()
            options = dict(strategy="dos+eb", layer=0, gen_length=32, guidance=guidance)
            results = lacuna.decode_batch(predict, prompts, **self.given(**options))
            expected = self.model.generate(prompts, **options)
            for result, one in zip(results, expected, strict=True):
                self.same(result, one)
            self.assertEqual(len(calls), max(len(one.steps) for one in expected))

    def test_the_loop_may_be_ones_own(self):
        options = dict(strategy="dos+eb", layer=2, gen_length=32)
        run = lacuna.Run(self.prompt, **self.given(**options))
        self.assertEqual(run.layers, [2])
        self.assertEqual(run.tokens, self.prompt + [self.model.mask_token] * 32)
        with self.assertRaisesRegex(ValueError, "the run is not finished"):
            run.result
        steps = []
        while not run.finished:
            seen = self.model.probe(run.tokens)
            wanted = []
            logits = seen.logits.tolist()

            def rows(numbers):
                wanted.extend(numbers)
                return [logits[number] for number in numbers]

            read = run.rows_read
            steps.append(run.step(rows, {2: seen.dependency[2]}))
            self.assertEqual(len(wanted), run.rows_read - read)
        self.same(run.result, self.model.generate(self.prompt, **options))
        self.assertEqual(run.steps, steps)
        self.assertEqual(run.nfe, len(steps))
        with self.assertRaisesRegex(ValueError, "the run is finished"):
            run.step([[0.0]])


class SameAsTheEngineOnDream(SameAsTheEngine):
    """The same with a tiny Dream, which predicts a position from the one before it."""

    @classmethod
    def setUpClass(cls):
        data = pathlib.Path(__file__).parents[2] / "lacuna-models" / "tests" / "data"
        cls.model = lacuna.Model(data / "dream-tiny", device="cpu", precision="f32")
        cls.prompt, cls.other_prompt = [*range(40, 60)], [*range(7, 20)]


class SmallModels(unittest.TestCase):
    """Models made by hand: token 0 is the mask."""

    def test_attention_is_summed_over_what_is_unmasked_and_averaged_over_heads(self):
        tokens = [1, 2, 0, 0, 0]
        heads = [
            [[0.2] * 5, [0.2] * 5, [0.1, 0.1, 0.4, 0.2, 0.2], [0.5, 0.3, 0.1, 0.1, 0.0], [0.0, 0.2, 0.3, 0.3, 0.2]],
            [[0.2] * 5, [0.2] * 5, [0.3, 0.3, 0.2, 0.1, 0.1], [0.2, 0.2, 0.2, 0.2, 0.2], [0.4, 0.6, 0.0, 0.0, 0.0]],
        ]
        logits = [[0.0, 1.0, 2.0]] * 5
        mean = [[sum(pair) / 2 for pair in zip(*rows)] for rows in zip(*heads)]
        scores = [9.0, 9.0, 0.4, 0.6, 0.6]

        def score(attention, **options):
            run = lacuna.Run(tokens, mask_token=0, strategy="dos+top3", **options)
            return [round(commit.score, 6) for commit in run.step(logits, attention).committed]

        flat = array.array("d", [number for head in heads for row in head for number in row])
        cube = memoryview(flat).cast("B").cast("d", [2, 5, 5])
        self.assertEqual(score(cube), [0.4, 0.6, 0.6])
        self.assertEqual(score([heads]), [0.4, 0.6, 0.6])
        self.assertEqual(score([[heads]]), [0.4, 0.6, 0.6])
        self.assertEqual(score(floats(mean)), [0.4, 0.6, 0.6])
        self.assertEqual(score(scores), [0.4, 0.6, 0.6])
        self.assertEqual(score(array.array("f", scores)), [0.4, 0.6, 0.6])
        self.assertEqual(score(cube, heads=[0]), [0.2, 0.8, 0.2])
        self.assertEqual(score({7: cube, 8: floats(heads[0])}, layer=[7, 8]), [0.3, 0.7, 0.4])

    def test_a_shifted_model_predicts_from_the_row_before(self):
        logits = [[0.0] + [float(token == 1 + row % 4) for token in range(1, 5)] for row in range(6)]
        for shifted, tail in [(False, [3, 4, 1, 2]), (True, [2, 3, 4, 1])]:
            result = lacuna.decode(
                lambda _: logits, [1, 1], mask_token=0, gen_length=4, shifted=shifted, strategy="margin"
            )
            self.assertEqual(result.tokens, tail)

    def test_what_is_remembered_does_not_count_twice_if_a_step_fails(self):
        def run_klass(fail):
            run = lacuna.Run([1], mask_token=0, gen_length=4, strategy="klass", history=2)
            rows = [[0.0, 6.0, 0.0 + step / 9] for step in range(9)]
            while not run.finished:
                if fail:
                    bad = [[*rows[run.nfe]] for _ in range(5)]
                    bad[4][1] = math.nan
                    with self.assertRaisesRegex(lacuna.Error, "position 4 are not finite"):
                        run.step(bad)
                run.step([rows[run.nfe]] * 5)
            return run.steps

        self.assertEqual(run_klass(True), run_klass(False))

    def test_it_stops_at_an_end_token(self):
        logits = [[0.0, 0.0, 1.0, 0.0]] * 9

        def decode(**options):
            about = dict(mask_token=0, end_tokens=[2], gen_length=8, strategy="dos")
            return lacuna.decode(lambda _: logits, [1], **about, **options)

        with self.assertRaisesRegex(ValueError, "this order uses attention: give that of layer 0"):
            decode()
        logits = (logits, [1.0 - i / 10 for i in range(9)])
        self.assertEqual(decode().tokens, [2])
        self.assertEqual(decode(early_stop=False).tokens, [2] * 8)
        self.assertEqual(decode(suppress_eos=True).tokens, [1] * 8)

    def test_an_exception_in_predict_comes_through(self):
        class Mine(Exception):
            pass

        def rows(_):
            raise Mine

        with self.assertRaises(Mine):
            lacuna.decode(lambda tokens: rows, [1], mask_token=0, gen_length=4, strategy="confidence")

    def test_each_mistake_gets_a_clear_exception(self):
        good = [[0.0, 1.0, 2.0]] * 5

        def run(tokens=(1, 2), **options):
            return lacuna.Run(tokens, **dict(mask_token=0, gen_length=3, strategy="confidence") | options)

        def step(logits=good, attention=None, unguided=None, **options):
            return run(**options).step(logits, attention, unguided=unguided)

        dos = dict(strategy="dos")
        cases = [
            (ValueError, "WINO verifies .* but this model cannot do that", lambda: run(strategy="wino")),
            (ValueError, "WINO verifies .* from the one before", lambda: run(strategy="wino", shifted=True)),
            (ValueError, "this model keeps no keys and values", lambda: run(cache="dual")),
            (ValueError, "unknown strategy", lambda: run(strategy="confidance")),
            (TypeError, "unknown option 'stop'", lambda: run(stop=[1])),
            (TypeError, "mask_token", lambda: lacuna.Run([1], gen_length=3)),
            (ValueError, "mask_token is -1, but it must be", lambda: run(mask_token=-1)),
            (ValueError, "end_tokens must be a list of token ids", lambda: run(end_tokens=7)),
            (ValueError, "temperature is the text '1', but it must be 0 or more", lambda: run(temperature="1")),
            (ValueError, "heads is an empty list, but", lambda: run(strategy="dos", heads=[])),
            (ValueError, "the prompt is empty", lambda: run([])),
            (ValueError, "the tokens have masks already", lambda: run([1, 0, 2])),
            (ValueError, "token ids must be", lambda: run("abc")),
            (ValueError, "context ends at", lambda: run(gen_length=2**24)),
            (ValueError, "token 2 at position 1 is out of range", lambda: run(vocabulary=2)),
            (ValueError, "mask_token is 9", lambda: run(vocabulary=3, mask_token=9)),
            (ValueError, "layer 3 does not exist", lambda: run(strategy="dos", layer=3, layers=2)),
            (ValueError, "layer='all' requires layers=N", lambda: run(strategy="dos", layer="all")),
            (ValueError, r"must be \[5, vocabulary\].* but they are \[4, 3\]", lambda: step(good[:4])),
            (ValueError, "must be .* but they are", lambda: step([1.0, 2.0])),
            (ValueError, "rows of one length", lambda: step([[0.0, 1.0, 2.0]] * 4 + [[0.0]])),
            (ValueError, "rows of one length", lambda: step([[0.0, 1.0, 2.0]] * 4 + [0.0])),
            (TypeError, "logits must be numbers", lambda: step([["a", "b", "c"]] * 5)),
            (TypeError, "logits must be numbers", lambda: step(None)),
            (TypeError, "32-bit or 64-bit floats", lambda: step(memoryview(bytes(15)).cast("B", [5, 3]))),
            (ValueError, "logits are for 2 tokens, but token 2 is among", lambda: step([[0.0, 1.0]] * 5)),
            (ValueError, "logits are for 0 tokens", lambda: step([[]] * 5)),
            (ValueError, "logits are for 3 tokens, but the vocabulary has 7", lambda: step(vocabulary=7)),
            (ValueError, "asked for 3 rows", lambda: step(lambda rows: good[:1])),
            (lacuna.Error, "position 4 are not finite", lambda: step(good[:4] + [[0.0, math.nan, 1.0]])),
            (ValueError, "this order uses attention", lambda: step(**dos)),
            (ValueError, r"must be \[heads, 5, 5\]", lambda: step(attention=floats([[1.0] * 4] * 4), **dos)),
            (ValueError, "not finite at position 2", lambda: step(attention=[1.0, 1.0, math.inf, 1.0, 1.0], **dos)),
            (ValueError, "no attention of layer 4", lambda: step(attention=[[1.0] * 5], layer=4, **dos)),
            (ValueError, "no attention of layer 4", lambda: step(attention={3: [1.0] * 5}, layer=4, **dos)),
            (ValueError, "layer 1 is None: .*eager", lambda: step(attention=(None, None), layer=1, **dos)),
            (ValueError, "attention of several layers", lambda: step(attention=[1.0] * 5, layer=[1, 4], **dos)),
            (ValueError, "heads pick from", lambda: step(attention=[1.0] * 5, heads=[0], **dos)),
            (ValueError, "head 2 does not exist", lambda: step(attention=[[[[0.2] * 5] * 5] * 2], heads=[2], **dos)),
            (ValueError, "needs unguided", lambda: step(guidance=1.0)),
            (ValueError, "needs unguided", lambda: step(unguided=good)),
            (ValueError, "it returned 3 things", lambda: lacuna.decode(lambda _: (1, 2, 3), [1], mask_token=0)),
            (ValueError, "given 2 canvases, but", lambda: lacuna.decode_batch(lambda _: [], [[1], [1]], mask_token=0)),
            (TypeError, "a value of type None", lambda: lacuna.decode_batch(lambda _: None, [[1]], mask_token=0)),
        ]
        for kind, message, call in cases:
            with self.subTest(message), self.assertRaisesRegex(kind, message) as caught:
                call()
            self.assertNotIn("\n", str(caught.exception))


class ByHand(unittest.TestCase):
    def test_tokens_are_written_and_reopened_between_steps(self):
        def logits(tokens):
            return [[4.0 if token == at else 0.0 for token in range(12)] for at in range(len(tokens))]

        def begin():
            return lacuna.Run([1, 2], mask_token=11, gen_length=4, strategy="left")

        run = begin()
        run.step(logits(run.tokens))
        step = run.commit({4: 9})
        self.assertEqual([(one.position, one.token) for one in step.committed], [(4, 9)])
        self.assertEqual(run.reopen([2]).reopened, [2])
        self.assertEqual((run.tokens, run.nfe), ([1, 2, 11, 11, 9, 11], 1))
        again = pickle.loads(pickle.dumps(run))
        for one in (run, again):
            while not one.finished:
                one.step(logits(one.tokens))
        self.assertEqual(run.result.tokens, [2, 3, 9, 5])
        self.assertEqual(again.result, run.result)
        for change, why in [
            (lambda run: run.commit({0: 3}), "position 0 is not a gap"),
            (lambda run: run.commit({3: 11}), "token 11 may not stand at position 3"),
            (lambda run: run.reopen([3]), "position 3 is not decided"),
        ]:
            with self.assertRaisesRegex(ValueError, why):
                change(begin())


if __name__ == "__main__":
    unittest.main()
