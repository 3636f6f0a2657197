"""Compares the prompts of lacuna's lm-eval protocols with those that lm-evaluation-harness builds itself.

    pip install "lm-eval[math]"
    python compare_prompts.py

It needs no network: the tasks read the problems in tests/data, and the recorded prompts are in tests/snapshots.
"""

import difflib
import sys
from pathlib import Path

import evaluate

# The code tasks load a metric from the hub when they are imported; prompts do not need it.
evaluate.load = lambda name: type("Metric", (), {"compute": lambda self, **_: ({"pass@1": 0.0}, {})})()

import lm_eval
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks._yaml_loader import load_yaml

TESTS = Path(__file__).resolve().parent.parent
TASKS = {
    "gsm8k": ("gsm8k/gsm8k.yaml", {"test": "gsm8k_test", "train": "gsm8k_train"}),
    "math500": ("minerva_math/minerva_math500.yaml", {"test": "math500"}),
    "humaneval": ("humaneval/humaneval_instruct.yaml", {"test": "humaneval"}),
    "mbpp": ("mbpp/mbpp_instruct.yaml", {"test": "mbpp"}),
}


def llada(messages, add_generation_prompt=True):
    """The chat template of LLaDA-8B-Instruct; an answer that has begun is left open."""
    text = "<|startoftext|>"
    for message in messages:
        text += f"<|start_header_id|>{message['role']}<|end_header_id|>\n\n"
        if message is messages[-1] and not add_generation_prompt:
            return text + message["content"]
        text += message["content"].strip() + "<|eot_id|>"
    return text + "<|start_header_id|>assistant<|end_header_id|>\n\n"


def prompt(config_file, files):
    folder = Path(lm_eval.__file__).parent / "tasks"
    config = load_yaml(folder / config_file)
    config.pop("dataset_name", None)
    files = {split: str(TESTS / "data" / f"{name}.jsonl") for split, name in files.items()}
    config.update(dataset_path="json", dataset_kwargs={"data_files": files}, dataset_name=None)
    config.pop("group", None)
    task = ConfigurableTask(config=config)
    task.set_fewshot_seed(1234)
    # MBPP's file has all its parts; the test part is task 11 to task 510.
    doc = next(doc for doc in task.test_docs() if "mbpp" not in config_file or 11 <= doc["task_id"] <= 510)
    return task.fewshot_context(
        doc,
        task.config.num_fewshot or 0,
        apply_chat_template=True,
        fewshot_as_multiturn=False,
        chat_template=llada,
        gen_prefix=task.doc_to_prefix(doc),
    )


def main():
    differ = 0
    for name, (config_file, files) in TASKS.items():
        theirs = prompt(config_file, files)
        recorded = (TESTS / "snapshots" / f"{name}-lm-eval.txt").read_bytes().decode()
        ours = recorded.split("======== LLaDA-Instruct\n", 1)[1].split("\n======== Dream-Instruct", 1)[0]
        print(f"{name}: {'the same' if ours == theirs else 'differs'}")
        if ours != theirs:
            differ += 1
            lines = difflib.unified_diff(ours.split("\n"), theirs.split("\n"), "lacuna", "lm-eval", lineterm="")
            print("\n".join(repr(line) for line in lines))
    sys.exit(differ > 0)


main()
