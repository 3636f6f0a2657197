"""lm-evaluation-harness, on a task of its own with the embedded model's word problems."""

import pathlib
import tempfile
import unittest

import lm_eval
import lm_eval.tasks
from serving import Server

PROBLEMS = pathlib.Path(__file__).resolve().parents[4] / "models/mini/words.jsonl"
LIMIT = 8
TASK = """\
task: some_words
dataset_path: json
dataset_kwargs: {{data_files: {{test: {problems}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{question}"
doc_to_target: "{{{{final}}}}"
generation_kwargs: {{until: ["<|endoftext|>"], max_gen_toks: 128, temperature: 0}}
filter_list:
  - name: final
    filter: [{{function: regex, regex_pattern: "#### (-?[0-9]+)"}}, {{function: take_first}}]
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""
# What the model's chat template writes; completions give the prompt to the model as it is.
TEMPLATE = (
    "<|startoftext|><|start_header_id|>user<|end_header_id|>\\n\\n{{prompt}}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\\n\\n"
)


class Harness(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def evaluate(self, model, path, question, **more):
        with tempfile.TemporaryDirectory() as folder:
            task = TASK.format(problems=PROBLEMS, question=question)
            pathlib.Path(folder, "task.yaml").write_text(task)
            results = lm_eval.simple_evaluate(
                model=model,
                model_args={
                    "model": "lacuna-mini",
                    "base_url": f"{self.server.url}{path}",
                    "num_concurrent": 4,
                    "max_retries": 2,
                    "tokenizer_backend": None,
                    "tokenized_requests": False,
                },
                tasks=["some_words"],
                # Reading the thousands of tasks that come with the harness takes longer than this test.
                task_manager=lm_eval.tasks.TaskManager(include_path=folder, include_defaults=False),
                limit=LIMIT,
                bootstrap_iters=0,
                **more,
            )
        return results["results"]["some_words"]["exact_match,final"]

    def test_local_chat_completions(self):
        score = self.evaluate("local-chat-completions", "/v1/chat/completions", "{{prompt}}", apply_chat_template=True)
        self.assertGreaterEqual(score, 0.7)

    def test_local_completions(self):
        self.assertGreaterEqual(
            self.evaluate(
                "local-completions", "/v1/completions", TEMPLATE, gen_kwargs="strategy=dos+eb,gamma=0.02,layer=0"
            ),
            0.7,
        )


if __name__ == "__main__":
    unittest.main()
