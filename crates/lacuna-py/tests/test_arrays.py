"""Arrays of numpy and torch, where they are installed."""

import math
import os
import sys
import types
import unittest
import unittest.mock

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


def numbers(*kinds):
    """64-bit integers, which wrap around, as memory."""
    return bytearray(b"".join((number % (1 << 64)).to_bytes(8, sys.byteorder) for kind in kinds for number in kind))


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
            named = [(7 + commit.token) % 1000 for commit in committed]
            found = beliefs(logits, numbers(wanted, keys, named), None, ([0], [], drawn), True)
            self.assertEqual(found.shape, (8, 8))
            for commit, (token, own, best, second, scored, others, weighted, spoilt) in zip(
                committed, found.tolist(), strict=True
            ):
                self.assertEqual(commit.token, token)
                self.assertAlmostEqual(commit.probability, math.exp(own - best) / (1 + others), places=6)
                self.assertAlmostEqual(commit.entropy, math.log1p(others) - weighted / (1 + others), places=5)
                self.assertGreaterEqual(best, own)
                self.assertGreaterEqual(best, second)
                row = logits[commit.position] / (drawn[0] if drawn and drawn[1] else 1)
                self.assertAlmostEqual(scored, float(row[(7 + commit.token) % 1000]), places=5)
                self.assertAlmostEqual(second, float(row[1:].topk(2).values[1]), places=5)
                self.assertFalse(math.isnan(spoilt))
        # What is not a number shows, be it in a token that counts or in one that is suppressed.
        for suppressed, row in (([], [1.0, torch.nan]), ([0], [torch.nan, 1.0])):
            two = torch.tensor([row, [1.0, 2.0]])
            bad, fine = beliefs(two, numbers([0, 1], [0, 0], [0, 0]), None, (suppressed, [], None), False).tolist()
            self.assertTrue(math.isnan(bad[-1]) or math.isnan(bad[2]))
            self.assertFalse(math.isnan(fine[-1]) or math.isnan(fine[2]))

    def test_the_kernel_gives_what_torch_gives(self):
        if torch is None:
            self.skipTest("torch is not installed")
        device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cpu":
            # Triton's interpreter runs kernels without a GPU.
            os.environ.setdefault("TRITON_INTERPRET", "1")
        try:
            from lacunalm.fused import reduce_rows
        except ImportError:
            self.skipTest("Triton is not installed")
        from lacunalm.reduce import beliefs

        width = 20000
        logits = torch.randn(6, width, generator=torch.Generator().manual_seed(2)) * 4
        logits[1, 9] = 60.0
        logits[2] = -torch.inf
        logits[2, 17000] = 1.0
        logits[3, [5, 9000, 19999]] = 30.0
        logits[4, 7] = torch.finfo(torch.bfloat16).min
        allowed = torch.ones(width, dtype=torch.int8)
        allowed[[0, 12]] = 0
        wanted, named = [5, 4, 3, 2, 1], [0, 7, 5, 1, 100]
        asked = torch.tensor([wanted, [0] * 5, named])
        for kind in [torch.float32, torch.bfloat16, torch.float16]:
            given = logits.to(kind)
            expected = beliefs(given, numbers(wanted, [0] * 5, named), None, ([0, 12], [], None), True)
            found = reduce_rows(given.to(device), asked.to(device), allowed.to(device)).cpu().numpy()
            # Without a second best there is nothing to sum up.
            expected[3, 5:7] = 0
            numpy.testing.assert_allclose(found[:, :5], expected[:, :5], rtol=1e-6)
            numpy.testing.assert_allclose(found[:, 5:7], expected[:, 5:7], rtol=2e-5, atol=1e-6)
            self.assertEqual(found[:, 7].tolist(), [0] * 5)
        for place in [0, 100]:
            logits[5, place] = torch.nan
            self.assertTrue(math.isnan(reduce_rows(logits.to(device), asked.to(device), allowed.to(device))[0, 7]))
            logits[5, place] = 0

    def test_the_kernel_is_launched_where_the_logits_are(self):
        if torch is None:
            self.skipTest("torch is not installed")
        try:
            from lacunalm import fused
        except ImportError:
            self.skipTest("Triton is not installed")
        entered = []

        class On:
            """As torch.cuda.device_of."""

            def __init__(self, tensor):
                self.tensor = tensor

            def __enter__(self):
                entered.append(self.tensor)

            def __exit__(self, *_):
                entered.pop()

        kernel = unittest.mock.MagicMock()
        kernel.__getitem__.return_value.side_effect = lambda given, *_, **__: self.assertEqual(entered, [given])
        logits = torch.zeros(1, 2)
        with (
            unittest.mock.patch.object(torch.cuda, "device_of", On),
            unittest.mock.patch.object(fused, "_reduce", kernel),
        ):
            fused.reduce_rows(logits, torch.zeros((3, 1), dtype=torch.int64), torch.ones(2, dtype=torch.int8))
        kernel.__getitem__.return_value.assert_called_once()

    def test_logits_on_a_device_give_the_beliefs_of_the_engine(self):
        if torch is None:
            self.skipTest("torch is not installed")
        from lacunalm import reduce

        class Elsewhere:
            """A tensor that is said to be on a device; computed with is the one in it."""

            device = types.SimpleNamespace(type="elsewhere")

            def __init__(self, tensor):
                self.tensor, self.shape, self.detach = tensor, tensor.shape, tensor.detach

        def beliefs(logits, numbers, unguided, *rest, compute=reduce.beliefs):
            return compute(logits.tensor, numbers, unguided and (unguided[0].tensor, unguided[1]), *rest)

        patched = unittest.mock.patch.object(reduce, "beliefs", side_effect=beliefs)
        called = patched.start()
        self.addCleanup(patched.stop)
        # One sure row, of which the others weigh less than single precision can add to 1; one with a single token.
        logits = torch.randn(LENGTH, 50, generator=torch.Generator().manual_seed(1)) * 3
        logits[6, 9] = 40.0
        logits[7] = -torch.inf
        logits[7, 3] = 1.0
        for options in [
            dict(strategy="confidence+top8"),
            dict(strategy="margin+top8", end_tokens=[5], defer_eos=True),
            dict(strategy="entropy+top8", temperature=1.0, seed=3),
            dict(strategy="confidence+top8", guidance=1.5),
        ]:
            unguided = torch.ones(LENGTH, 50) if "guidance" in options else None
            steps = []
            for of in [lambda tensor: tensor, Elsewhere]:
                run = lacuna.Run([3, 4, 5, 6], mask_token=0, gen_length=8, **options)
                steps.append(run.step(of(logits), unguided=None if unguided is None else of(unguided)))
            self.nearly_the_same(*steps)
        self.assertEqual(called.call_count, 4)
        run = lacuna.Run([3, 4, 5, 6], mask_token=0, gen_length=8, strategy="confidence+top2")
        sure, nearly = sorted(run.step(Elsewhere(logits)).committed, key=lambda commit: -commit.probability)
        self.assertEqual((sure.position, nearly.position), (7, 6))
        self.assertTrue(sure.probability == 1 > nearly.probability > 1 - 1e-9)

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
