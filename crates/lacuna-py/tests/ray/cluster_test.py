"""lacuna on a Ray cluster of several nodes on this machine, one of which is killed in the middle."""

import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from contextlib import contextmanager

import lacunalm as lacuna
import lacunalm.ray
import ray
from ray.cluster_utils import Cluster

PROMPTS = [
    f"Tom has {a} boxes with {b} apples each. How many apples are there?" for a in range(2, 8) for b in range(2, 18)
]
OPTIONS = {"gen_length": 32, "strategy": "dos+eb"}


class OnACluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
        ray.init(address=cls.cluster.address, log_to_driver=False, logging_level="error")
        ray.data.DataContext.get_current().enable_progress_bars = False

    @classmethod
    def tearDownClass(cls):
        ray.shutdown()
        cls.cluster.shutdown()

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    @contextmanager
    def node_that_dies(self, once):
        """A second node, which is killed once something holds; it must hold before the work is done."""
        node, over, killed = self.cluster.add_node(num_cpus=1), threading.Event(), threading.Event()

        def kill():
            while not over.is_set():
                if once(node):
                    self.cluster.remove_node(node, allow_graceful=False)
                    return killed.set()
                time.sleep(0.02)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            yield
        finally:
            over.set()
            killer.join()
        self.assertTrue(killed.is_set(), "the node was not killed in the middle")

    def test_a_data_set_is_answered_once_though_a_node_is_killed(self):
        rows = [{"id": number, "prompt": prompt, "level": number % 3} for number, prompt in enumerate(PROMPTS)]
        (self.folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        model = lacuna.Model(device="cpu")
        expected = model.generate(PROMPTS, batch=4, **OPTIONS)

        def decode(source, **given):
            return lacuna.ray.generate(source, batch=2, id="id", **given, **OPTIONS)

        def tell(folder=str(self.folder)):
            pathlib.Path(folder, ray.get_runtime_context().get_node_id()).touch()

        source = ray.data.read_json(str(self.folder / "prompts.jsonl")).repartition(12)
        # The second node dies when an actor on it is there and the first answers are written.
        first = self.folder / "first"
        with self.node_that_dies(lambda node: (self.folder / node.node_id).exists() and any(first.glob("*"))):
            decode(source, concurrency=2, setup=tell).write_json(str(self.folder / "first"))
        found = {row["id"]: row for row in ray.data.read_json(str(self.folder / "first")).take_all()}
        self.assertEqual(len(found), len(rows))
        self.assertEqual(ray.data.read_json(str(self.folder / "first")).count(), len(rows))
        for row, result in zip(rows, expected, strict=True):
            self.assertEqual(found[row["id"]]["text"], result.text)
            self.assertEqual(found[row["id"]]["tokens"], result.tokens)
            self.assertEqual(found[row["id"]]["level"], row["level"])
        # Of what is there already nothing is decoded again.
        part = ray.data.from_items([{"id": number} for number in range(len(rows) - 3)])
        rest = decode(source, done=part, concurrency=1).take_all()
        self.assertEqual(sorted(row["id"] for row in rest), [93, 94, 95])

    def test_a_column_that_is_not_there_is_named_before_anything_is_decoded(self):
        rows = ray.data.from_items([{"id": 1, "prompt": PROMPTS[0]}])
        with self.assertRaisesRegex(ValueError, "^the rows have no column 'question': they have id, prompt$"):
            lacuna.ray.generate(rows.materialize(), prompt="question")
        done = ray.data.from_items([{"number": 1}])
        with self.assertRaisesRegex(ValueError, "^the rows of done= have no column 'id': they have number$"):
            lacuna.ray.generate(rows, id="id", done=done)
        with self.assertRaisesRegex(ValueError, "^the rows have no column 'number': they have id, prompt$"):
            lacuna.ray.generate(rows, id="number")
        with self.assertRaisesRegex(ValueError, "^the rows have a column 'nfe' already: give it another name$"):
            lacuna.ray.generate(ray.data.from_items([{"prompt": "Hi", "nfe": 3}]))

    def test_what_is_wrong_with_the_options_is_said_before_anything_starts(self):
        rows = ray.data.from_items([{"id": 1, "prompt": PROMPTS[0]}])
        model = lacuna.Model(device="cpu")
        for wrong in [
            {"strategy": "doss"},
            {"gen_lenght": 3},
            {"gen_length": 0},
            {"gen_length": 64, "block_length": 33},
            {"strategy": "confidence", "gamma": 1.0},
            {"layer": 99},
            {"stop": ""},
            {"raw": True, "system": "Be brief."},
            {"batch": 0},
            {"seed": -1},
        ]:
            with self.subTest(wrong), self.assertRaises((TypeError, ValueError)) as alone:
                model.generate(PROMPTS[0], **wrong)
            with self.subTest(wrong), self.assertRaises(type(alone.exception)) as here:
                lacuna.ray.generate(rows, **wrong)
            self.assertEqual(str(here.exception), str(alone.exception))
        for wrong in [{"path": "/no/model"}, {"precision": "f23"}]:
            with self.subTest(wrong), self.assertRaises((OSError, ValueError)) as alone:
                lacuna.Model(**wrong)
            with self.subTest(wrong), self.assertRaises(type(alone.exception)) as here:
                lacuna.ray.generate(rows, model=wrong.get("path"), precision=wrong.get("precision"))
            self.assertEqual(str(here.exception), str(alone.exception))
        # What setup registers is known in the actors only.
        lacuna.ray.generate(rows, strategy="mine", setup=print)

    def test_the_path_of_another_machine_is_not_missed_but_the_rest_is_checked(self):
        check = lacuna._native.check_options
        check("/no/model", True, layer=99, regex="a*")
        check("/no/model.gguf", True)
        with self.assertRaisesRegex(ValueError, "^unknown strategy 'doss'"):
            check("/no/model", True, strategy="doss")
        with self.assertRaisesRegex(ValueError, "gamma has no effect with 'confidence'"):
            check("/no/model", True, strategy="confidence", gamma=1.0)
        with self.assertRaises(FileNotFoundError):
            check(str(self.folder), False)
        with self.assertRaisesRegex(TypeError, "^unknown option 'elsewhere'"):
            lacuna.ray.generate(ray.data.from_items([{"prompt": PROMPTS[0]}]), elsewhere=True)
        command = lacuna._native.check_command
        command(["serve", "--model", "/no/model"], elsewhere=True)
        command(["serve", "--config", "/no/file"], elsewhere=True)
        with self.assertRaisesRegex(ValueError, "^/no/model is neither a directory nor"):
            command(["eval", "words", "--model", "/no/model"], elsewhere=False)

    def test_a_cluster_without_room_is_refused_or_told_to_be_too_small(self):
        rows = ray.data.from_items([{"id": 1, "prompt": PROMPTS[0]}])
        no_room = "^the cluster has no room for a worker with cpus=1 and gpus=1"
        with self.assertRaisesRegex(ValueError, no_room):
            lacuna.ray.generate(rows, gpus=1)
        with self.assertRaisesRegex(ValueError, no_room):
            lacuna.ray.evaluate(["words", "--out", str(self.folder / "out")], gpus=1)
        with self.assertWarnsRegex(
            UserWarning, "^the cluster has room for 1 of 2 workers with cpus=1, beside 1 CPU: the rest waits"
        ):
            lacuna.ray.generate(rows, concurrency=2)
        for wrong in [{"concurrency": 0}, {"cpus": 0}, {"gpus": -1}]:
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, "must be"):
                lacuna.ray.generate(rows, **wrong)

    def test_prompts_of_rows_stay_apart(self):
        question = [{"role": "user", "content": PROMPTS[0]}]
        rows = ray.data.from_items([{"prompt": question}, {"prompt": [{"role": "system", "content": "Hi"}, *question]}])
        found = lacuna.ray.generate(rows, concurrency=1, **OPTIONS).take_all()
        expected = lacuna.Model(device="cpu").generate([row["prompt"] for row in rows.take_all()], **OPTIONS)
        self.assertEqual(sorted(row["text"] for row in found), sorted(result.text for result in expected))
        # Numbers would make one prompt together, messages one chat.
        wrong = (
            "the column 'prompt' must have texts, lists of messages or lists of token ids, but a row has {!r}: leave"
        )
        for prompt in (3, question[0], None):
            rows = ray.data.from_items([{"prompt": prompt}, {"prompt": prompt or PROMPTS[0]}])
            with self.subTest(prompt), self.assertRaises(Exception) as raised:
                lacuna.ray.generate(rows, concurrency=1, **OPTIONS).take_all()
            self.assertIn(wrong.format(prompt), str(raised.exception))

    def test_an_empty_data_set_has_empty_answers(self):
        rows = ray.data.from_items([{"id": 1, "prompt": PROMPTS[0]}])
        for empty in (ray.data.from_items([]), rows.filter(lambda _: False)):
            self.assertEqual(lacuna.ray.generate(empty, concurrency=1, **OPTIONS).take_all(), [])
        some = lacuna.ray.generate(rows, id="id", done=ray.data.from_items([]), concurrency=1, **OPTIONS)
        self.assertEqual(some.count(), 1)

    def test_wrong_arguments_of_a_server_are_refused_before_it_starts(self):
        for arguments, said in [
            (["--modle", "x"], "unexpected argument '--modle' found; tip: a similar argument exists: '--model'"),
            (["--max-batch", "0"], "max_batch is 0, but it must be 1 or more"),
            (["--port", "80"], "the argument '--port <N>' cannot be used multiple times"),
            (["--model", "/no/model"], "/no/model is neither a directory nor"),
        ]:
            with self.subTest(arguments), self.assertRaises(ValueError) as raised:
                lacuna.ray.serve(arguments)
            self.assertTrue(str(raised.exception).startswith(said), raised.exception)

    def test_an_evaluation_is_that_of_one_machine(self):
        asked = ["words", "--strategy", "dos+eb,left+eb", "--limit", "12", "--gen-length", "64"]
        local, spread = self.folder / "local", self.folder / "spread"
        self.assertEqual(lacuna.main(["eval", *asked, "--out", str(local), "--format", "json"]), 0)
        # Some samples are there already: of a run that was stopped.
        for name in ["configuration.json"]:
            (spread / "samples").mkdir(parents=True)
            (spread / name).write_text((local / name).read_text())
        path = next((local / "samples").glob("*.jsonl"))
        (spread / "samples" / path.name).write_text("".join(path.read_text().splitlines(keepends=True)[:5]))

        def begun(_node):
            lines = [len(path.read_text().splitlines()) for path in (spread / "samples").glob("*.jsonl")]
            return sum(lines) > 5

        # The second node dies when the first shard is done and others are under way.
        with self.node_that_dies(begun):
            status = lacuna.ray.evaluate([*asked, "--out", str(spread), "--format", "json"], shards=6)
        self.assertEqual(status, 0)
        timed = ("seconds", "seconds_per_sample", "tokens_per_second")
        for name in [f"samples/{path.name}" for path in (local / "samples").glob("*.jsonl")]:
            lines = [
                sorted(map(json.loads, (folder / name).read_text().splitlines()), key=lambda s: s["row"])
                for folder in (local, spread)
            ]
            ours, theirs = ([{k: v for k, v in sample.items() if k not in timed} for sample in some] for some in lines)
            self.assertEqual(ours, theirs)
        ours, theirs = (json.loads((folder / "results.json").read_text()) for folder in (local, spread))
        for one, other in zip(ours, theirs, strict=True):
            self.assertEqual(*({k: v for k, v in entry.items() if k not in timed} for entry in (one, other)))

    def test_the_command_says_in_one_line_what_is_wrong(self):
        def command(*arguments):
            line = [sys.executable, "-m", "lacunalm", "eval", "words", *arguments]
            return subprocess.run(line, capture_output=True, text=True, cwd=self.folder, check=False, timeout=120)

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            nobody = f"127.0.0.1:{free.getsockname()[1]}"
            for arguments, said in [
                (["--strategy", "doss", "--ray"], "error: unknown strategy 'doss': did you mean 'dos'?\n"),
                (
                    ["--layer", "99", "--ray", self.cluster.address],
                    "error: layer 99 does not exist: the model has layers",
                ),
                (["--ray", nobody], f"error: there is no Ray cluster at {nobody}: "),
                (["--ray", "nowhere"], "error: Invalid address format: nowhere"),
            ]:
                ended = command(*arguments)
                self.assertEqual((ended.returncode, ended.stderr[: len(said)]), (1, said))
        self.assertIn("--ray [<ADDRESS>]", command("--ray", "--help").stdout)

    def test_a_server_streams_and_answers_as_one_alone(self):
        import http.client
        import urllib.request

        from ray import serve

        serve.start(http_options={"port": 8399})
        lacuna.ray.serve(["--device", "cpu"], replicas=2, cpus=0.5)
        self.addCleanup(serve.shutdown)
        question = "Sara has 24 pens and gives 9 away. How many are left?"
        body = {"messages": [{"role": "user", "content": question}], "stream": True, "max_tokens": 64}
        request = urllib.request.Request(
            "http://127.0.0.1:8399/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        expected = lacuna.Model(device="cpu").generate(question, max_tokens=64).text
        for _ in range(3):
            with urllib.request.urlopen(request, timeout=300) as answer:
                pieces = [line[6:] for line in answer.read().decode().splitlines() if line.startswith("data: {")]
            self.assertGreater(len(pieces), 2)
            told = [
                json.loads(piece)["choices"][0]["delta"].get("content") or ""
                for piece in pieces
                if json.loads(piece)["choices"]
            ]
            self.assertEqual("".join(told), expected)
        # A client that says nothing of compression gets none.
        connection = http.client.HTTPConnection("127.0.0.1", 8399, timeout=300)
        connection.putrequest("GET", "/v1/models", skip_accept_encoding=True)
        connection.endheaders()
        with connection.getresponse() as answer:
            self.assertIsNone(answer.headers["Content-Encoding"])
            self.assertIn("lacuna-mini", answer.read().decode())
        connection.close()


class Samples(unittest.TestCase):
    def test_those_of_a_shard_are_added_to_a_file_that_was_cut_short(self):
        from lacunalm.ray.evaluation import merge, read

        lines = [json.dumps({"row": row, "answer": f"a\u2028{row}"}, ensure_ascii=False) + "\n" for row in range(4)]
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            merge(out, {"seed": 0}, {"a.jsonl": lines[0]})
            with (out / "samples" / "a.jsonl").open("a") as file:
                file.write(lines[1][:9])
            self.assertEqual(read(out)[1], {"a.jsonl": lines[0]})
            merge(out, {"seed": 0}, {"a.jsonl": "".join(lines)})
            self.assertEqual((out / "samples" / "a.jsonl").read_text(), "".join(lines))


if __name__ == "__main__":
    unittest.main()
