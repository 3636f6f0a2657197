"""Arrays of numpy and torch, where they are installed."""

import math
import unittest

import lacunalm as lacuna

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None

LENGTH, VOCABULARY, HEADS, LAYERS = 12, 7, 4, 2


class Arrays(unittest.TestCase):
    def setUp(self):
        if numpy is None:
            self.skipTest("numpy is not installed")
        draw = numpy.random.default_rng(0)
        # Sixteenths are the same in every precision.
        self.logits = draw.integers(-32, 32, (LENGTH, VOCABULARY)).astype("float32") / 16
        self.attention = draw.integers(0, 16, (LAYERS, HEADS, LENGTH, LENGTH)).astype("float32") / 64

    def step(self, logits, attention, **options):
        run = lacuna.Run([3, 4, 5, 6], mask_token=0, gen_length=8, strategy="dos+top4", layers=LAYERS, **options)
        return run.step(logits, attention)

    def same(self, step, expected):
        self.assertEqual(step, expected)

    def nearly_the_same(self, step, expected):
        """A GPU rounds exponentials in its own way."""
        self.assertEqual(
            [(c.position, c.token) for c in step.committed], [(c.position, c.token) for c in expected.committed]
        )
        for one, other in zip(step.committed, expected.committed, strict=True):
            self.assertAlmostEqual(one.probability, other.probability, places=6)
            self.assertAlmostEqual(one.entropy, other.entropy, places=5)

    def agree(self, of, same=None):
        same = same or self.same
        for options in [dict(), dict(layer="all"), dict(layer=1, heads=[2, 0])]:
            expected = self.step(self.logits.tolist(), self.attention.tolist(), **options)
            logits, attention = of(self.logits), of(self.attention)
            for given in [logits, logits[None], lambda rows: of(self.logits[rows])]:
                for layers in [[*attention], {0: attention[0][None], 1: attention[1]}]:
                    same(self.step(given, layers, **options), expected)
        mean = self.step(self.logits, self.attention[0].mean(0))
        same(self.step(of(self.logits), of(self.attention[0])), mean)

    def test_numpy(self):
        for of in [
            lambda array: array,
            lambda array: array.astype("float64"),
            lambda array: array.astype("float16"),
            lambda array: array.astype(">f4"),
            lambda array: numpy.asfortranarray(array),
            lambda array: numpy.repeat(array, 2, axis=-1)[..., ::2],
        ]:
            self.agree(of)

    def test_torch(self):
        if torch is None:
            self.skipTest("torch is not installed")
        for kind in [torch.float32, torch.float64, torch.float16, torch.bfloat16]:
            self.agree(lambda array: torch.tensor(array, dtype=kind))
        self.agree(lambda array: torch.tensor(array, requires_grad=True))
        if torch.cuda.is_available():
            self.agree(lambda array: torch.tensor(array, device="cuda"), self.nearly_the_same)

    def test_beliefs_made_by_torch_are_those_of_the_engine(self):
        if torch is None:
            self.skipTest("torch is not installed")
        from lacunalm.reduce import beliefs

        def mix(x):
            x = (x + 0x9E3779B97F4A7C15) % (1 << 64)
            x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % (1 << 64)
            x = (x ^ (x >> 27)) * 0x94D049BB133111EB % (1 << 64)
            return x ^ (x >> 31)

        logits = torch.randn(LENGTH, 1000, generator=torch.Generator().manual_seed(0)) * 4
        for temperature, sampling, drawn in [
            (0.0, None, None),
            (0.7, "llada", (0.7, False)),
            (1.5, "dream", (1.5, True)),
        ]:
            options = dict(temperature=temperature, sampling=sampling, seed=9, strategy="confidence+top8")
            run = lacuna.Run([3, 4, 5, 6], mask_token=0, gen_length=8, **options)
            committed = run.step(logits).committed
            wanted = [commit.position for commit in committed]
            keys = [mix(mix(mix(9) ^ 0) ^ position) for position in wanted]
            named = [7 + commit.token for commit in committed]
            width, found = beliefs(logits, wanted, None, ([0], [], drawn), keys, [token % 1000 for token in named])
            self.assertEqual((width, len(found)), (1000, 8))
            for commit, (total, weighted, token, own, best, second, scored, spoilt) in zip(
                committed, found, strict=True
            ):
                self.assertEqual(commit.token, token)
                self.assertAlmostEqual(commit.probability, math.exp(own - best) / total, places=6)
                self.assertAlmostEqual(commit.entropy, math.log(total) - weighted / total, places=5)
                self.assertGreaterEqual(best, own)
                self.assertGreaterEqual(best, second)
                row = logits[commit.position] / (drawn[0] if drawn and drawn[1] else 1)
                self.assertAlmostEqual(scored, float(row[(7 + commit.token) % 1000]), places=5)
                self.assertAlmostEqual(second, float(row[1:].topk(2).values[1]), places=5)
                self.assertEqual(spoilt, 0)
        # What is not a number shows, be it in a token that counts or in one that is suppressed.
        for suppressed, row in (([], [1.0, torch.nan]), ([0], [torch.nan, 1.0])):
            _, [bad, fine] = beliefs(
                torch.tensor([row, [1.0, 2.0]]), [0, 1], None, (suppressed, [], None), [0, 0], None
            )
            self.assertTrue(bad[-1] == 1 or math.isnan(bad[0]))
            self.assertTrue(fine[-1] == 0 and math.isfinite(fine[0]))

    def test_tokens(self):
        for of in [numpy.array] + ([torch.tensor] if torch else []):
            for tokens in [of([1, 2, 3]), of([[1, 2, 3]])]:
                run = lacuna.Run(tokens, mask_token=0, gen_length=2, strategy="random")
                self.assertEqual(run.tokens, [1, 2, 3, 0, 0])

    def test_options(self):
        run = lacuna.Run([1], mask_token=0, gen_length=numpy.int64(2), gamma=numpy.float32(0.5), strategy="random+eb")
        self.assertEqual(len(run.tokens), 3)


if __name__ == "__main__":
    unittest.main()
