"""Ray Data on two nodes of this machine against `lacuna generate --jsonl` on the same cores: wall time, CPU time, equal answers.

python benches/cluster.py [PROMPTS] [--kill]      needs ray[data] and the package

With --kill one of the two nodes is killed when a quarter of the answers are written, and only the answers count.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

import lacunalm.ray
import ray
from ray.cluster_utils import Cluster

KILL = "--kill" in sys.argv
COUNT = next((int(argument) for argument in sys.argv[1:] if argument.isdigit()), 2000)
OPTIONS = {"gen_length": 32, "strategy": "dos+eb"}
BATCH = 8
TICKS = os.sysconf("SC_CLK_TCK")


class Clock:
    """Wall time, and CPU time of everything that this process has started."""

    def __enter__(self):
        self.seen, self.stop, self.begun = {}, threading.Event(), time.monotonic()
        self.before = dict(processes())
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self

    def watch(self):
        while not self.stop.wait(0.2):
            self.seen.update(processes())

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.seen.update(processes())
        self.wall = time.monotonic() - self.begun
        self.cpu = sum(ticks - self.before.get(process, 0) for process, ticks in self.seen.items()) / TICKS


def processes():
    """CPU ticks of this process and its descendants, by id."""
    parents, ticks = {}, {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        process = int(path.parent.name)
        parents[process], ticks[process] = int(fields[1]), int(fields[11]) + int(fields[12])
    for process in parents:
        above = process
        while above not in (0, 1, os.getpid()):
            above = parents.get(above, 0)
        if above == os.getpid():
            yield process, ticks[process]


def main():
    folder = pathlib.Path(tempfile.mkdtemp())
    prompts = [f"Tom has {i // 50 + 2} boxes with {i % 50 + 2} apples each. How many are there?" for i in range(COUNT)]
    rows = [{"id": number, "prompt": prompt} for number, prompt in enumerate(prompts)]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    cores = os.cpu_count() or 1

    command = [
        sys.executable,
        "-m",
        "lacunalm",
        "generate",
        "--jsonl",
        str(folder / "prompts.jsonl"),
        "--device",
        "cpu",
    ]
    command += ["--batch", str(BATCH), "--threads", str(cores), "--format", "json", "--strategy", OPTIONS["strategy"]]
    command += ["--gen-length", str(OPTIONS["gen_length"])]
    with Clock() as alone:
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    expected = {record["id"]: record["tokens"] for record in map(json.loads, told.splitlines())}

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=cores / 2) for _ in range(2)]
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    # A cluster that is running already has its own actors of Ray Data.
    ray.data.range(4).map(lambda row: row).write_json(str(folder / "warm"))
    answers, over = folder / "answers", threading.Event()

    def kill():
        while not over.wait(0.1):
            written = sum(len(path.read_text().splitlines()) for path in answers.glob("*.json"))
            if written >= COUNT / 4:
                print(f"killed a node when {written} answers were written", flush=True)
                return cluster.remove_node(nodes[1], allow_graceful=False)

    killer = threading.Thread(target=kill if KILL else over.wait)
    killer.start()
    with Clock() as spread:
        source = ray.data.read_json(str(folder / "prompts.jsonl"))
        answered = lacunalm.ray.generate(source, batch=BATCH, cpus=cores / 2, concurrency=2, id="id", **OPTIONS)
        answered.write_json(str(answers))
    over.set()
    killer.join()
    lines = [json.loads(line) for path in answers.glob("*.json") for line in path.read_text().splitlines()]
    found = {row["id"]: row["tokens"] for row in lines}
    ray.shutdown()
    cluster.shutdown()

    equal = sum(found[number] == expected[number] for number in found)
    print(f"{COUNT} prompts, {len(lines)} answers, {len(found)} different ids, {equal} equal to those of one process")
    if KILL:
        return
    for name, clock in (("lacuna generate --jsonl", alone), ("Ray Data, two nodes", spread)):
        print(f"{name:24} {clock.wall:7.1f} s wall  {clock.cpu:7.1f} s CPU  {COUNT / clock.wall:6.2f} prompts/s")
    print(f"throughput {alone.wall / spread.wall:.1%} by wall time, {alone.cpu / spread.cpu:.1%} by CPU time")


if __name__ == "__main__":
    main()
