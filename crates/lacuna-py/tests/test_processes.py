"""Processes, samples and long lists."""

import asyncio
import copy
import importlib
import io
import math
import multiprocessing
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import unittest
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr
from unittest.mock import patch

import lacunalm as lacuna

PROMPT = "Sara has 24 pens and gives 9 away. How many are left?"
OTHER = "Tom has 3 apples and eats 1. How many are left?"


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = lacuna.Model(device="cpu", precision="f32", threads=2)
        cls.expected = cls.model.generate(PROMPT, gen_length=32)


def answer(model):
    return model.generate(PROMPT, gen_length=32)


@unittest.skipIf(os.name == "nt", "signals are those of POSIX")
class CtrlC(unittest.TestCase):
    def test_it_ends_the_command_at_once(self):
        # The command computes without looking at what Python has caught.
        code = "import os, signal; from lacunalm import __main__ as it; it.main = lambda _: os.kill(os.getpid(), signal.SIGINT); it.run()"
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        self.assertEqual((ended.returncode, ended.stderr), (-signal.SIGINT, b""))


class Extras(unittest.TestCase):
    def test_what_is_not_installed_is_named(self):
        for module, package in (("lacunalm.ray", "ray"), ("lacunalm.harness", "lm_eval")):
            with patch.dict(sys.modules, {package: None}):
                with self.assertRaisesRegex(ModuleNotFoundError, f"^{module} takes .* no {package}.*: pip install"):
                    importlib.import_module(module)


class Numbers(Case):
    def test_those_of_any_kind_are_taken_or_refused_by_name(self):
        for name in ("n", "best_of", "seed", "batch"):
            for value in (-1, 2**64, 10**30):
                with self.assertRaisesRegex(ValueError, f"^{name} is .*, but it must be"):
                    self.model.generate(PROMPT, **{name: value})
            for value in (0.5, math.nan, "1", b"1", True, {}, object(), [[0]] if name == "seed" else [1]):
                with self.assertRaisesRegex(TypeError, f"^{name} must be a whole number, but it is"):
                    self.model.generate(PROMPT, **{name: value})
        for name in ("mask_token", "vocabulary", "layers"):
            for value, kind in (
                (-1, ValueError),
                (2**53, ValueError),
                (10**30, ValueError),
                (1.5, TypeError),
                (True, TypeError),
            ):
                with self.assertRaisesRegex(kind, f"^{name} "):
                    lacuna.Run([1, 2], **{"mask_token": 3, name: value})
        for name, value in (("threads", 2**63), ("mask_token", -1)):
            with self.assertRaisesRegex(ValueError, f"^{name} is"):
                lacuna.Model(device="cpu", **{name: value})
        run = lacuna.Run([1, 2], mask_token=3, gen_length=4, strategy="confidence")
        with self.assertRaisesRegex(ValueError, "^a position is -1"):
            run.commit({-1: 1})
        with self.assertRaisesRegex(TypeError, "^a position must be a whole number"):
            run.reopen([1.0])
        for asked, kind in (({"samples": 0}, ValueError), ({"guidance": "1"}, TypeError), ({"steps": 3}, TypeError)):
            with self.assertRaisesRegex(kind, next(iter(asked))):
                self.model.score("a", **asked)


class Pickles(Case):
    def test_results_steps_and_frames(self):
        frames = list(self.model.stream(PROMPT, gen_length=32))
        for thing in [self.expected, self.expected.steps, frames, frames[0].committed[0]]:
            self.assertEqual(pickle.loads(pickle.dumps(thing)), thing)
            self.assertEqual(copy.deepcopy(thing), thing)
        frame = pickle.loads(pickle.dumps(frames[0]))
        self.assertEqual((frame.tokens, frame.text), (frames[0].tokens, frames[0].text))
        self.assertEqual(len({self.expected, answer(self.model)}), 1)

    def test_models_by_path_and_settings(self):
        model = pickle.loads(pickle.dumps(self.model))
        self.assertEqual(repr(model), repr(self.model))
        self.assertEqual(answer(model), self.expected)
        self.assertIs(copy.deepcopy(self.model), self.model)
        data = pathlib.Path(__file__).parents[2] / "lacuna-models" / "tests" / "data" / "llada-tiny"
        relative = lacuna.Model(os.path.relpath(data), device="cpu")
        self.assertTrue(pathlib.Path(relative.__getnewargs_ex__()[0][0]).is_absolute())

    def test_runs_go_on_where_they_were(self):
        def predict(tokens):
            seen = self.model.probe(tokens)
            return seen.logits, seen.dependency

        prompt = self.model.encode_prompt(PROMPT)
        about = dict(mask_token=self.model.mask_token, end_tokens=self.model.end_tokens, layers=self.model.layers)
        for strategy in ["dos+eb", "klass", "saber", "credit", "confidence+top2"]:
            run = lacuna.Run(prompt, gen_length=16, strategy=strategy, **about)
            for _ in range(2):
                run.step(*predict(run.tokens))
            again = pickle.loads(pickle.dumps(run))
            self.assertEqual((again.tokens, again.nfe, again.rows_read), (run.tokens, run.nfe, run.rows_read))
            for one in [run, again]:
                while not one.finished:
                    one.step(*predict(one.tokens))
            self.assertEqual(again.result, run.result, strategy)


@unittest.skipUnless(hasattr(os, "fork"), "there is no fork")
class Forks(Case):
    def setUp(self):
        warnings.simplefilter("ignore", DeprecationWarning)
        self.addCleanup(warnings.resetwarnings)

    def test_a_pool_of_forked_processes_decodes(self):
        lacuna.decode(lambda tokens: [[0.0, 1.0]] * len(tokens), [1], mask_token=0, gen_length=2, strategy="confidence")
        with multiprocessing.get_context("fork").Pool(2) as pool:
            self.assertEqual(pool.map_async(answer, [self.model] * 2).get(300), [self.expected] * 2)
            self.assertEqual(
                pool.apply_async(self.model.generate, [PROMPT], {"gen_length": 32}).get(300), self.expected
            )
        self.assertEqual(answer(self.model), self.expected)

    def test_a_model_in_use_works_or_is_refused_in_the_child(self):
        cancel = threading.Event()
        options = dict(gen_length=512, strategy="confidence", early_stop=False, cancel=cancel)

        def compute():
            with self.assertRaises(lacuna.Cancelled):
                self.model.generate(PROMPT, **options)

        thread = threading.Thread(target=compute)
        thread.start()
        child = os.fork()
        if child == 0:
            signal.alarm(300)
            try:
                right = answer(self.model) == self.expected
            except lacuna.Error as error:
                right = "was computing when this process was forked off" in str(error)
            os._exit(0 if right else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        cancel.set()
        thread.join()


class Samples(Case):
    def texts(self, prompt, **options):
        return [result.tokens for result in self.model.generate(prompt, temperature=1.0, gen_length=32, **options)]

    def test_samples_differ_and_are_those_of_their_seeds(self):
        four = self.texts([PROMPT] * 4, seed=5)
        self.assertGreater(len({tuple(tokens) for tokens in four}), 1)
        self.assertEqual(self.texts(PROMPT, n=4, seed=5), four)
        self.assertEqual(self.texts(PROMPT, seed=[5, 6, 7, 8]), four)
        alone = [self.model.generate(PROMPT, temperature=1.0, gen_length=32, seed=seed).tokens for seed in [5, 6]]
        self.assertEqual(four[:2], alone)
        self.assertEqual(self.texts([PROMPT, OTHER], seed=[6, 5])[0], alone[1])
        self.assertEqual(self.texts([OTHER, PROMPT], seed=5, n=2)[2:], alone)

    def test_results_come_in_order_whatever_shares_a_pass(self):
        prompts = [PROMPT, OTHER, PROMPT + " ", OTHER]
        expected = [self.model.generate(prompt, gen_length=32) for prompt in prompts]
        done, steps = [], []
        for batch in [1, 3]:
            options = dict(progress=lambda *at: done.append(at), on_step=lambda *at: steps.append(at))
            self.assertEqual(self.model.generate(prompts, gen_length=32, batch=batch, **options), expected)
            self.assertEqual(list(self.model.map(iter(prompts), gen_length=32, batch=batch)), expected)
        self.assertEqual(done, [(1, 4), (2, 4), (3, 4), (4, 4)] * 2)
        self.assertEqual([step for number, step in steps if number == 1], expected[1].steps * 2)
        with redirect_stderr(io.StringIO()) as told:
            self.model.generate(prompts[:2], gen_length=32, progress=True)
        self.assertIn("2 of 2 done", told.getvalue())

    def test_prompts_may_be_any_sequence(self):
        class Column(Sequence):
            def __getitem__(self, at):
                return [PROMPT, OTHER][at]

            def __len__(self):
                return 2

        expected = self.model.generate([PROMPT, OTHER], gen_length=16)
        self.assertEqual(self.model.generate(Column(), gen_length=16), expected)
        with self.assertRaisesRegex(TypeError, "a prompt is text, .* but this is of type bytes"):
            self.model.generate(b"abc")

    def test_what_cannot_cancel_or_report_is_refused(self):
        for name, why in [("cancel", "must have a method is_set"), ("on_step", "must be"), ("progress", "must be")]:
            with self.assertRaisesRegex(TypeError, f"^{name} {why}"):
                self.model.generate(PROMPT, gen_length=32, **{name: 3})

    def test_map_yields_what_is_finished_before_a_bad_prompt(self):
        for batch in [1, 3]:
            results = self.model.map([PROMPT, "", OTHER], gen_length=32, batch=batch)
            self.assertEqual(next(results), self.expected)
            with self.assertRaisesRegex(ValueError, "the prompt is empty"):
                next(results)

    def test_stop_strings_end_a_text(self):
        whole = self.model.generate(PROMPT).text
        self.assertIn("15 pens", whole)
        for stop in ["15 pens", ["15 pens", "zebra"]]:
            result = self.model.generate(PROMPT, stop=stop)
            self.assertEqual(result.text, whole[: whole.index("15 pens")])
            self.assertEqual(lacuna.Result(result.to_json()).text, result.text)
        self.assertEqual(list(self.model.stream(PROMPT, stop="15 pens"))[-1].text, result.text)
        with self.assertRaisesRegex(ValueError, "stop must be"):
            self.model.generate(PROMPT, stop="")

    def test_threads_share_a_stream(self):
        stream = self.model.stream(PROMPT, strategy="confidence", gen_length=16)
        taken = []
        threads = [threading.Thread(target=lambda: taken.extend(stream)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(taken), stream.result.nfe)


class Asynchronous(Case):
    def test_tasks_share_passes_and_may_be_cancelled(self):
        async def ask():
            long = asyncio.create_task(
                self.model.agenerate(PROMPT, gen_length=512, strategy="confidence", early_stop=False)
            )
            first = await asyncio.gather(*(self.model.agenerate(PROMPT, gen_length=32) for _ in range(2)))
            long.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await long
            frames = [frame async for frame in self.model.astream(PROMPT, gen_length=32)]
            return first, frames

        results, frames = asyncio.run(ask())
        self.assertEqual(results, [self.expected] * 2)
        self.assertEqual([frame.committed for frame in frames], [step.committed for step in self.expected.steps])


class Traces(Case):
    def test_json_and_records_tell_what_the_model_thought(self):
        read = lacuna.Result(self.expected.to_json())
        self.assertEqual(read.tokens, self.expected.tokens)
        rows = self.expected.records()
        commits = [commit for step in self.expected.steps for commit in step.committed]
        self.assertEqual([row["probability"] for row in rows], [commit.probability for commit in commits])
        self.assertEqual([row["score"] for row in rows], [commit.score for commit in commits])
        for row, commit in zip(rows, [commit for step in read.steps for commit in step.committed], strict=True):
            self.assertAlmostEqual(row["entropy"], commit.entropy)
        self.assertIn("pens", "".join(row["text"] for row in sorted(rows, key=lambda row: row["position"])))

    def test_a_notebook_shows_every_step(self):
        shown = self.expected._repr_html_()
        self.assertIn(f'max="{len(self.expected.steps)}"', shown)
        self.assertIn("pens", shown)


class Likelihood(Case):
    def test_one_token_is_exact_and_better_answers_are_more_likely(self):
        prompt = self.model.encode_prompt(PROMPT)
        token = self.expected.tokens[0]
        mask = self.model.mask_token
        exact = self.model.log_probabilities([prompt + [mask]], [[(len(prompt), token)]])[0][0]
        self.assertAlmostEqual(self.model.score([token], prompt=prompt, samples=4).loglikelihood, exact, places=9)
        answers = [f"Sara still has 24 - 9 = {n} pens." for n in (15, 83)]
        right, wrong = self.model.score(answers, prompt=PROMPT, samples=32)
        self.assertGreater(right.loglikelihood, wrong.loglikelihood)
        self.assertEqual(right, self.model.score(answers[0], prompt=PROMPT, samples=32, batch=3))
        self.assertNotEqual(right, self.model.score(answers[0], prompt=PROMPT, samples=32, seed=7))

    def test_an_order_is_scored_token_by_token(self):
        prompt, tokens = self.model.encode_prompt(PROMPT), self.model.encode("Sara still has 24")
        mask = self.model.mask_token
        for order, places in (("left", range(len(tokens))), ("right", reversed(range(len(tokens))))):
            canvas, exact = prompt + [mask] * len(tokens), {}
            for place in places:
                at = len(prompt) + place
                exact[place] = self.model.log_probabilities([canvas], [[(at, tokens[place])]])[0][0]
                canvas[at] = tokens[place]
            found = self.model.score(tokens, prompt=prompt, order=order)
            self.assertEqual([token.logprob for token in found.logprobs], [exact[i] for i in sorted(exact)])
            self.assertAlmostEqual(found.loglikelihood, sum(exact.values()))
        whole = self.model.score(tokens, prompt=prompt, steps=[range(len(tokens))])
        self.assertEqual((whole.nfe, {token.step for token in whole.logprobs}), (1, {0}))

    def test_what_cannot_be_scored_is_refused(self):
        for asked in (
            {"text": ""},
            {"text": "a", "samples": 33},
            {"text": "a", "samples": 0},
            {"text": "a", "order": "up"},
            {"text": "a", "order": "left", "samples": 4},
            {"text": "a", "steps": [[9]]},
            {"text": "a", "steps": []},
            {"text": "a", "guidance": -1},
            {"text": ["a", "b"], "prompt": ["c"]},
            {"text": [self.model.mask_token]},
        ):
            with self.subTest(asked), self.assertRaises((ValueError, lacuna.Error)):
                self.model.score(**asked)


class Best(Case):
    def test_the_best_samples_have_the_most_probable_tokens(self):
        asked = {"temperature": 1.0, "gen_length": 32}
        drawn = self.model.generate(PROMPT, n=4, **asked)
        best = self.model.generate(PROMPT, n=2, best_of=4, **asked)
        ranked = sorted(drawn, key=lambda result: result.mean_logprob, reverse=True)
        self.assertEqual([result.text for result in best], [result.text for result in ranked[:2]])
        self.assertEqual(self.model.generate(PROMPT, best_of=4, **asked).text, ranked[0].text)
        with self.assertRaisesRegex(ValueError, "temperature 0"):
            self.model.generate(PROMPT, best_of=2)
        with self.assertRaisesRegex(ValueError, "best_of is 2"):
            self.model.generate(PROMPT, n=3, best_of=2, **asked)

    def test_alternatives_come_with_every_token(self):
        result = self.model.generate(PROMPT, top_logprobs=3, gen_length=32)
        plain = self.model.generate(PROMPT, gen_length=32)
        self.assertEqual(result.text, plain.text)
        for commit in (commit for step in result.steps for commit in step.committed):
            self.assertEqual(len(commit.top_logprobs), 3)
            self.assertEqual(commit.top_logprobs[0][0], commit.token)
            self.assertAlmostEqual(commit.top_logprobs[0][1], math.log(commit.probability))
        self.assertTrue(all(commit.top_logprobs == [] for step in plain.steps for commit in step.committed))
        self.assertEqual(pickle.loads(pickle.dumps(result)), result)


if __name__ == "__main__":
    unittest.main()
