"""lm-evaluation-harness in the process, on tasks of its own with the embedded model's word problems."""

import json
import pathlib
import subprocess
import sys
import tempfile
import tomllib
import unittest
from importlib.metadata import EntryPoint

import lacunalm as lacuna
import lacunalm.harness
import lm_eval
import lm_eval.tasks
from lm_eval.api.registry import get_model

ROOT = pathlib.Path(__file__).resolve().parents[4]
PROBLEMS = ROOT / "models/mini/words.jsonl"
LIMIT = 6
END = "<|endoftext|>"
WORDS = """\
task: some_words
dataset_path: json
dataset_kwargs: {{data_files: {{test: {problems}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{prompt}}}}"
doc_to_target: "{{{{final}}}}"
generation_kwargs: {{until: ["<|endoftext|>"], max_gen_toks: 128, temperature: 0, do_sample: false}}
filter_list:
  - name: final
    filter: [{{function: regex, regex_pattern: "#### (-?[0-9]+)"}}, {{function: take_first}}]
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""
CHOICE = """\
task: some_choice
dataset_path: json
dataset_kwargs: {{data_files: {{test: {problems}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{prompt}}}}"
target_delimiter: ""
doc_to_choice: "{{{{['#### ' ~ final, 'zebra']}}}}"
doc_to_target: 0
metric_list: [{{metric: acc, aggregation: mean, higher_is_better: true}}]
"""


class Harness(unittest.TestCase):
    def evaluate(self, task, **arguments):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "task.yaml").write_text(task.format(problems=PROBLEMS))
            name = task.split()[1]
            found = lm_eval.simple_evaluate(
                model="lacuna",
                model_args=arguments,
                tasks=[name],
                task_manager=lm_eval.tasks.TaskManager(include_path=folder, include_defaults=False),
                limit=LIMIT,
                bootstrap_iters=0,
                apply_chat_template=True,
                log_samples=True,
            )
        return found["results"][name], found["samples"][name]

    def test_answers_are_those_of_the_model(self):
        results, samples = self.evaluate(WORDS, strategy="dos+eb", device="cpu", gen_length=128)
        rows = [json.loads(line) for line in PROBLEMS.read_text().splitlines()[:LIMIT]]
        expected = lacuna.Model(device="cpu").generate(
            [row["prompt"] for row in rows], strategy="dos+eb", gen_length=128
        )
        self.assertEqual([sample["resps"][0][0] for sample in samples], [result.text for result in expected])
        right = sum(f"#### {row['final']}" in result.text for row, result in zip(rows, expected, strict=True))
        self.assertEqual(results["exact_match,final"], right / LIMIT)

    def test_an_answer_goes_on_behind_what_the_task_begins_it_with(self):
        begun = WORDS.replace("some_words", "begun_words") + 'gen_prefix: "####"\n'
        _, samples = self.evaluate(begun, strategy="dos+eb", device="cpu", gen_length=16)
        model = lacuna.Model(device="cpu")
        for sample in samples:
            asked = model.decode(model.encode_prompt(sample["doc"]["prompt"]), special=True) + "####"
            self.assertEqual(sample["arguments"][0][0], asked)
            self.assertEqual(sample["resps"][0][0], model.generate(asked, raw=True, gen_length=16, stop=END).text)

    def test_a_wrong_option_is_refused_before_the_tasks_are_prepared(self):
        with self.assertRaisesRegex(TypeError, "unknown option 'gen_lenght'; did you mean 'gen_length'"):
            lacunalm.harness.LacunaLM(device="cpu", gen_lenght=3)

    def test_numbers_are_those_of_lacunas_own_evaluation(self):
        for strategy in ("dos+eb", "confidence"):
            results, samples = self.evaluate(WORDS, strategy=strategy, device="cpu", gen_length=128)
            with tempfile.TemporaryDirectory() as folder:
                command = ["eval", "words", "--strategy", strategy, "--limit", str(LIMIT), "--device", "cpu"]
                self.assertEqual(lacuna.main([*command, "--out", folder]), 0)
                [own] = json.loads(pathlib.Path(folder, "results.json").read_text())
                [file] = pathlib.Path(folder, "samples").iterdir()
                rows = sorted((json.loads(line) for line in file.read_text().splitlines()), key=lambda row: row["row"])
            self.assertEqual(results["exact_match,final"], own["accuracy"])
            self.assertEqual([sample["resps"][0][0] for sample in samples], [row["answer"] for row in rows])

    def test_the_command_is_the_harness(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "task.yaml").write_text(WORDS.format(problems=PROBLEMS))
            command = [sys.executable, "-m", "lacunalm.harness", "--model", "lacuna", "--tasks", "some_words"]
            command += ["--model_args", "strategy=dos+eb,gen_length=128", "--device", "cpu"]
            command += ["--apply_chat_template", "--include_path", folder, "--limit", "1", "--output_path", folder]
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            [written] = pathlib.Path(folder).rglob("results_*.json")
            self.assertEqual(json.loads(written.read_text())["results"]["some_words"]["exact_match,final"], 1.0)

    def test_the_entry_point_is_the_model(self):
        groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
        [(name, value)] = groups["lm_eval.models"].items()
        self.assertIs(EntryPoint(name, value, "lm_eval.models").load(), get_model(name))

    def test_likelihoods_choose(self):
        results, samples = self.evaluate(CHOICE, device="cpu", mc_num=16)
        self.assertEqual(results["acc,none"], 1.0)
        model = lacuna.Model(device="cpu")
        for sample in samples:
            for (context, continuation), [(found, _)] in zip(sample["arguments"], sample["resps"], strict=True):
                exact = model.score(continuation, prompt=context, raw=True, samples=16).loglikelihood
                self.assertAlmostEqual(float(found), exact)


if __name__ == "__main__":
    unittest.main()
