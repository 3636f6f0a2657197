"""A model object in PyTorch is decoded and scored as the engine decodes and scores its checkpoint."""

import json
import pathlib
import struct
import types
import unittest

import lacunalm as lacuna

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    torch = None

CHECKPOINT = pathlib.Path(__file__).parents[2] / "lacuna-models" / "tests" / "data" / "llada-tiny"
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def tensors():
    """The random weights of the tiny LLaDA."""
    data = (CHECKPOINT / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    for name, about in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in about["data_offsets"])
            numbers = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32)
            yield name.removeprefix("model.transformer."), numbers.reshape(about["shape"])


def llada():
    """LLaDA's architecture as a module that answers like one of transformers."""

    class Llada(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = types.SimpleNamespace(**json.loads((CHECKPOINT / "config.json").read_text()))
            self.weights = nn.ParameterDict({name.replace(".", "-"): value for name, value in tensors()})

        def part(self, name):
            return self.weights[name.replace(".", "-") + "-weight"]

        def norm(self, x, name):
            return functional.rms_norm(x, x.shape[-1:], self.part(name), self.config.rms_norm_eps)

        def heads(self, x):
            return x.unflatten(-1, (self.config.n_heads, -1)).transpose(-2, -3)

        def rotate(self, x):
            size = x.shape[-1]
            speed = self.config.rope_theta ** (-torch.arange(0, size, 2).float() / size)
            angle = torch.outer(torch.arange(x.shape[-2]).float(), speed).repeat(1, 2)
            turned = torch.cat((-x[..., size // 2 :], x[..., : size // 2]), -1)
            return x * angle.cos() + turned * angle.sin()

        def forward(self, tokens):
            x = functional.embedding(tokens, self.part("wte"))
            for layer in range(self.config.n_layers):
                block = f"blocks.{layer}."
                linear = lambda x, name, block=block: functional.linear(x, self.part(block + name))  # noqa: E731
                normed = self.norm(x, block + "attn_norm")
                query, key, value = (self.heads(linear(normed, name)) for name in ("q_proj", "k_proj", "v_proj"))
                attended = functional.scaled_dot_product_attention(self.rotate(query), self.rotate(key), value)
                x = x + linear(attended.transpose(-2, -3).flatten(-2), "attn_out")
                normed = self.norm(x, block + "ff_norm")
                x = x + linear(functional.silu(linear(normed, "ff_proj")) * linear(normed, "up_proj"), "ff_out")
            logits = functional.linear(self.norm(x, "ln_f"), self.part("ff_out"))
            return types.SimpleNamespace(logits=logits)

    return Llada().eval()


@unittest.skipIf(torch is None, "torch is not installed")
class Wrapper(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Its threads and the engine's would wait for one another on a busy machine.
        torch.set_num_threads(1)
        cls.engine = lacuna.Model(CHECKPOINT, device="cpu", precision="f32")
        cls.model = llada()

    def test_a_wrapped_model_decodes_as_the_engine(self):
        wrapped = lacuna.wrap(self.model)
        prompts = [PROMPT, PROMPT[:5], PROMPT[2:7]]
        for strategy, options in [
            ("dos", {"layer": 1}),
            ("dos+eb", {"gamma": 20.0}),
            ("dos+top2", {"layer": [0, 2], "heads": [1, 3]}),
            ("confidence+top3", {}),
            ("entropy+klass", {}),
        ]:
            asked = {"strategy": strategy, "gen_length": 16, "early_stop": False, **options}
            expected = [self.engine.generate(prompt, **asked) for prompt in prompts]
            for found, exact in zip(wrapped.generate(prompts, **asked), expected, strict=True):
                self.assertEqual((found.tokens, found.nfe), (exact.tokens, exact.nfe), strategy)
                places = [[commit.position for commit in step.committed] for step in found.steps]
                self.assertEqual(places, [[commit.position for commit in step.committed] for step in exact.steps])

    def test_scores_are_those_of_lladas_evaluation(self):
        """LLaDA's estimate, stated again in PyTorch with its own random numbers."""
        mask = self.engine.mask_token
        for prompt, text, samples, cfg in [
            (PROMPT, [7, 8, 9, 10, 11], 128, 0.0),
            (PROMPT, [7], 32, 0.0),
            ([], list(range(20, 57)), 64, 0.0),
            (PROMPT, [40, 41, 42], 32, 0.5),
            (PROMPT[:2], list(range(100, 111)), 8, 0.0),
        ]:
            torch.manual_seed(1234)
            whole, size = torch.tensor(prompt + text), min(samples, 32)
            total = 0.0
            for _ in range(samples // size):
                length = len(text)
                start = torch.randint(1, length + 1, ())
                counts = torch.linspace(float(start), start + (size - 1) * (length / size), steps=size)
                counts = (torch.round(counts).long() - 1) % length + 1
                for count in counts:
                    drawn = (torch.arange(length) < count)[torch.randperm(length)]
                    hidden = torch.cat((torch.zeros(len(prompt), dtype=torch.bool), drawn))
                    canvas = torch.where(hidden, mask, whole)
                    with torch.inference_mode():
                        logits = self.model(canvas[None]).logits[0]
                        if cfg:
                            canvas[: len(prompt)] = mask
                            unguided = self.model(canvas[None]).logits[0]
                            logits = unguided + (cfg + 1) * (logits - unguided)
                    losses = functional.cross_entropy(logits[hidden], whole[hidden], reduction="none")
                    total -= float(losses.sum()) * length / int(count)
            found = self.engine.score(text, prompt=prompt or None, samples=samples, guidance=cfg)
            self.assertAlmostEqual(found.loglikelihood, total / samples, delta=1e-4 * abs(total / samples))


if __name__ == "__main__":
    unittest.main()
