"""Orders and paces written in Python."""

import json
import tempfile
import unittest
from pathlib import Path

import lacunalm as lacuna

PROMPTS = [
    "Sara has 24 pens and gives 9 away. How many are left?",
    "Tom has 3 boxes with 12 apples each. He eats 5 apples. How many apples are left?",
]


def decided(result):
    """The order in which positions were decided."""
    return [[(commit.position, commit.token) for commit in step.committed] for step in result.steps]


class Registered(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = lacuna.Model(precision="f32")

    def assert_same(self, mine, other, **options):
        for result, expected in zip(
            self.model.generate(PROMPTS, strategy=mine, gen_length=32, **options),
            self.model.generate(PROMPTS, strategy=other, gen_length=32, **options),
            strict=True,
        ):
            self.assertEqual(decided(result), decided(expected))
            self.assertEqual((result.nfe, result.rows_read), (expected.nfe, expected.rows_read))

    def test_dependency_scores_decode_like_dos(self):
        calls = []

        def score(candidates):
            calls.append(len(candidates.canvases))
            self.assertIsNone(candidates.probability)
            return candidates.dependency.tolist()[0]

        lacuna.register_order("mine", score, attention=[0])
        self.assert_same("mine", "dos", batch=2)
        # One call for each step of the batch.
        self.assertEqual(max(calls), 2)
        self.assertLess(len(calls), 40)
        self.assert_same("mine+eb", "dos+eb", block_length=16)

    def test_layers_may_be_an_option(self):
        def mean(candidates):
            return [sum(column) / len(column) for column in zip(*candidates.dependency.tolist(), strict=True)]

        lacuna.register_order("by-layer", mean, attention=True)
        self.assert_same("by-layer", "dos", layer=3)
        with self.assertRaisesRegex(ValueError, "layer has no effect with 'confidence'"):
            self.model.generate(PROMPTS[0], strategy="confidence", layer=3)

    def test_random_numbers_decode_like_random(self):
        lacuna.register_order("by-chance", lambda candidates: candidates.uniform, known=True)
        self.assert_same("by-chance+top2", "random+top2", seed=7)

    def test_beliefs_decode_like_confidence(self):
        lacuna.register_order("sure", lambda candidates: list(candidates.probability))
        self.assert_same("sure+threshold", "fast-dllm")

    def test_a_pace_may_count_or_name_positions(self):
        lacuna.register_pace("two", lambda ranked: 2, reads=2)
        self.assert_same("dos+two", "dos+top2")

        def reaches(ranked):
            pairs = zip(ranked.positions, ranked.probability, strict=True)
            return [position for rank, (position, p) in enumerate(pairs) if rank == 0 or p >= 0.95]

        lacuna.register_pace("reaches", reaches)
        self.assert_same("confidence+reaches", "fast-dllm")

    def test_the_sampler_alone_takes_them(self):
        lacuna.register_order("mine-alone", lambda candidates: candidates.dependency.tolist()[0], attention=[4])

        def predict(tokens):
            seen = self.model.probe(tokens)
            return seen.logits, {4: seen.dependency[4]}

        prompt = self.model.encode_prompt(PROMPTS[0])
        options = {"mask_token": self.model.mask_token, "gen_length": 8}
        mine = lacuna.decode(predict, prompt, strategy="mine-alone+top2", **options)
        dos = lacuna.decode(predict, prompt, strategy="dos+top2", layer=4, **options)
        self.assertEqual(decided(mine), decided(dos))

    def test_an_exception_ends_the_run_and_the_model_goes_on(self):
        def fails(candidates):
            raise RuntimeError("no scores today")

        lacuna.register_order("failing", fails)
        with self.assertRaisesRegex(RuntimeError, "no scores today"):
            self.model.generate(PROMPTS[0], strategy="failing", gen_length=8)
        self.assertEqual(self.model.generate(PROMPTS[0], strategy="dos", gen_length=8).nfe, 8)

    def test_nonsense_is_refused(self):
        lacuna.register_order("short", lambda candidates: [1.0])
        lacuna.register_order("strange", lambda candidates: "abc")
        lacuna.register_pace("never", lambda ranked: 0)
        lacuna.register_pace("elsewhere", lambda ranked: [0])
        for strategy, message in [
            ("short", "one number for each of"),
            ("strange", "must return one number for each candidate"),
            ("dos+never", "makes no progress at step 0"),
            ("dos+elsewhere", "chose position 0"),
        ]:
            with self.subTest(strategy), self.assertRaisesRegex((ValueError, TypeError), message):
                self.model.generate(PROMPTS[0], strategy=strategy, gen_length=8)
        for name in ["dos", "top7", "klass", "Upper", "", "a+b"]:
            with self.subTest(name), self.assertRaises(ValueError):
                lacuna.register_order(name, len)
        with self.assertRaisesRegex(TypeError, "expected a function"):
            lacuna.register_order("nothing", None)
        with self.assertRaises(ValueError):
            lacuna.register_order("both", len, known=True, attention=[1])

    def test_the_command_knows_the_names(self):
        lacuna.register_order("measured", lambda candidates: candidates.dependency.tolist()[0], attention=[0])
        with tempfile.TemporaryDirectory() as folder:
            common = ["eval", "words", "--limit", "2", "--gen-length", "32", "--precision", "f32", "--device", "cpu"]
            for name in ["measured", "dos"]:
                out = str(Path(folder, name))
                self.assertEqual(lacuna.main([*common, "--strategy", name, "--out", out, "--format", "json"]), 0)
            mine, dos = (json.loads(Path(folder, name, "results.json").read_text()) for name in ["measured", "dos"])
        self.assertEqual((mine[0]["correct"], mine[0]["nfe"]), (dos[0]["correct"], dos[0]["nfe"]))
        self.assertEqual(lacuna.main(["generate", "--strategy", "nobody", "x"]), 1)


if __name__ == "__main__":
    unittest.main()
