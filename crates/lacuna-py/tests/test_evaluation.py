"""Benchmarks from Python: a model of the engine, and one of the caller's, are measured as `lacuna eval` measures."""

import json
import pathlib
import tempfile
import unittest

import lacunalm as lacuna

TIMED = ("seconds", "seconds_per_sample", "tokens_per_second")
ASKED = {"strategy": ["dos+eb", "klass"], "layer": 0, "limit": 2, "gen_length": 32}
CODE = {"strategy": "left+eb", "limit": 2, "gen_length": 64}


class Tokenizer:
    """The embedded model's tokenizer, with the ways of transformers."""

    chat_template = "its own"
    eos_token_id = None

    def __init__(self, model):
        self.model = model

    def apply_chat_template(self, chat, *, add_generation_prompt, tokenize):
        assert add_generation_prompt and not tokenize
        return self.model.decode(self.model.encode_prompt(chat), special=True)

    def __call__(self, text, *, add_special_tokens):
        assert not add_special_tokens
        return {"input_ids": self.model.encode(text)}

    def decode(self, tokens, *, skip_special_tokens):
        return self.model.decode(tokens, special=not skip_special_tokens)


def samples(folder):
    """The samples of a results folder by file, without times."""
    files = sorted((folder / "samples").glob("*.jsonl"))
    lines = {file.name: [json.loads(line) for line in file.read_text().splitlines()] for file in files}
    for some in lines.values():
        some.sort(key=lambda sample: sample["row"])
        for sample in some:
            del sample["seconds"]
    return lines


class Evaluation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = lacuna.Model(device="cpu", precision="f32")

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def predict(self, canvases):
        self.passes += 1
        return [(seen.logits, dict(enumerate(seen.dependency))) for seen in self.model.probe_batch(canvases)]

    def own(self):
        self.passes = 0
        model = self.model
        about = {"mask_token": model.mask_token, "end_tokens": model.end_tokens, "layers": model.layers}
        return lacuna.wrap(self.predict, Tokenizer(model), **about)

    def test_results_are_those_of_the_command(self):
        entries = lacuna.evaluate(self.model, "words", out=self.folder / "here", batch=2, **ASKED)
        flags = [
            "--strategy",
            "dos+eb,klass",
            "--layer",
            "0",
            "--limit",
            "2",
            "--gen-length",
            "32",
            "--precision",
            "f32",
        ]
        flags += ["--device", "cpu", "--format", "json", "--out", str(self.folder / "there")]
        self.assertEqual(lacuna.main(["eval", "words", *flags]), 0)
        self.assertEqual(samples(self.folder / "here"), samples(self.folder / "there"))
        self.assertEqual(entries, json.loads((self.folder / "here" / "results.json").read_text()))
        # The command goes on with what was begun here, for it is the same.
        self.assertEqual(lacuna.main(["eval", "words", *flags[:-1], str(self.folder / "here")]), 0)

    def test_a_model_of_ones_own_is_measured_as_the_engine_is(self):
        # The task `code` runs what was written.
        for tasks, asked in (("words", ASKED), (["code"], CODE)):
            ours, engine = self.folder / "ours", self.folder / "engine"
            name = "_".join(tasks)
            entries = lacuna.evaluate(self.own(), tasks, out=ours / name, name="mine", batch=2, **asked)
            self.assertGreater(self.passes, 0)
            lacuna.evaluate(self.model, tasks, out=engine / name, **asked)
            self.assertEqual(samples(ours / name), samples(engine / name))
            self.assertEqual({entry["model"] for entry in entries}, {"mine"})
            self.assertEqual(len(entries), len(samples(ours / name)))
            # Nothing is decoded twice.
            self.assertEqual(lacuna.evaluate(self.own(), tasks, out=ours / name, name="mine", **asked), entries)
            self.assertEqual(self.passes, 0)

    def test_guidance_and_draws_are_those_of_the_engine(self):
        asked = {
            "limit": 2,
            "gen_length": 32,
            "temperature": 0.7,
            "seed": 5,
            "guidance": 0.5,
            "strategy": "dos+top4",
            "layer": 0,
        }
        lacuna.evaluate(self.own(), "words", out=self.folder / "ours", **asked)
        lacuna.evaluate(self.model, "words", out=self.folder / "engine", **asked)
        self.assertEqual(samples(self.folder / "ours"), samples(self.folder / "engine"))

    def test_what_makes_no_sense_is_refused_in_a_line(self):
        def refused(kind, message, model=self.model, tasks="words", **asked):
            with self.assertRaises(kind) as raised:
                lacuna.evaluate(model, tasks, out=self.folder / "none", **{"limit": 1} | asked)
            self.assertRegex(str(raised.exception), message)
            self.assertNotIn("\n", str(raised.exception))
            self.assertFalse((self.folder / "none").exists())

        refused(ValueError, "unknown task 'wrods'", tasks="wrods")
        refused(ValueError, "name at least one task", tasks=())
        refused(ValueError, "no data for gsm8k: data was not given", tasks="gsm8k")
        refused(ValueError, "unknown strategy 'doss': did you mean 'dos'", strategy="doss")
        refused(ValueError, "limit is 0, but it must be 1 or more", limit=0)
        refused(TypeError, "gen_length must be a whole number, but it is 1.5", gen_length=1.5)
        refused(TypeError, "block_lengths must be a whole number, but it is {}", block_lengths={})
        refused(ValueError, "each_layer is -1, but it must be 0 or more", each_layer=-1)
        refused(ValueError, "max_tokens is not for an evaluation", max_tokens=8)
        refused(ValueError, "there is no part 'some'; there are all, tune, test", part="some")
        refused(TypeError, "unknown option 'max_toks'", max_toks=3)
        refused(ValueError, "a Model has its tokenizer", tokenizer=Tokenizer(self.model))
        own = self.own()
        own.tokenizer = None
        refused(ValueError, "the model needs a tokenizer", model=own)
        refused(ValueError, "regex.*tokenizer", model=self.own(), regex="[0-9]+")
        own = self.own()
        own.tokenizer.chat_template = None
        refused(ValueError, "the tokenizer has no chat template", model=own)

    def test_an_error_of_the_model_reaches_the_caller(self):
        def broken(_canvases):
            raise ZeroDivisionError("mine")

        wrapped = self.own()
        wrapped.model = broken
        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            lacuna.evaluate(wrapped, "words", out=self.folder / "none", limit=1)


if __name__ == "__main__":
    unittest.main()
