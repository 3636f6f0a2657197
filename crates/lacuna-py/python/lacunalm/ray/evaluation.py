"""Benchmarks on a cluster: `lacuna eval` in shards."""

import json
import logging
import pathlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import ray
import ray.exceptions

from .._native import Error, check_command, main
from ..checks import positive
from .room import Room

CONFIGURATION = "configuration.json"
REACH = 20.0
"""Seconds within which a cluster's address must answer."""
WHOLE = {"index": 1, "count": 1}


def evaluate(
    arguments: Sequence[str], *, address: str | None = None, shards: int | None = None, cpus: float = 1, gpus: float = 0
) -> int:
    """Runs `lacuna eval` with these arguments over a cluster and returns its exit status.

    At `address` is a cluster; "auto" is the one that this machine is part of, else one is started here. What is wrong with the
    arguments is said before. The problems are split into `shards`, by default four for each worker that the cluster has room for;
    each is a task with `cpus` and `gpus`, which is done again if it fails with its node. The results folder (`--out`) is that of a
    local run: it is written to after each shard, the same command goes on where a stopped one ended, and a local run may go on with
    it, too. Model and data must be found under the same path here and on every node.
    """
    arguments = list(arguments)
    names = {argument.split("=")[0] for argument in arguments}
    if "--shard" in names:
        raise ValueError("--shard says which of several machines this is, but here Ray says it: leave it out")
    if "--ray" in names:
        raise ValueError("--ray is for the command line, but here address= says which cluster it is: leave it out")
    shards = None if shards is None else positive("shards", shards)
    check_command(["eval", *arguments], elsewhere=False)
    out = pathlib.Path(_value(arguments, "--out", "results"))
    begun = not ray.is_initialized()
    if begun:
        _connect(address)
    waiting: list[Any] = []
    try:
        workers = Room(cpus, gpus).share("shards", None if shards is None else 1)
        count = 4 * workers if shards is None else shards
        task = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=-1)(run_shard)
        there = ray.put(read(out))
        waiting = [task.remote(arguments, index + 1, count, there) for index in range(count)]
        for done in range(1, count + 1):
            ready, waiting = ray.wait(waiting, num_returns=1)
            configuration, samples = ray.get(ready[0])
            merge(out, configuration, samples)
            print(
                f"\r{done} of {count} shards done\x1b[K", end="\n" if done == count else "", file=sys.stderr, flush=True
            )
    except ray.exceptions.RayTaskError as error:
        # What a shard says is wrong is all there is to say.
        raise (error.cause if isinstance(error.cause, Error) else error) from None
    finally:
        for one in waiting:
            ray.cancel(one)
        if begun:
            ray.shutdown()
    # Nothing is left to decode: it checks that, and writes the results.
    return main(["eval", *arguments])


def read(out: pathlib.Path) -> tuple[Any, dict[str, str]]:
    """The configuration and the samples of a results folder, by file; None if there is none yet."""
    if not (out / CONFIGURATION).exists():
        return None, {}
    samples = {path.name: _whole_lines(path) for path in (out / "samples").glob("*.jsonl")}
    return json.loads((out / CONFIGURATION).read_text()), samples


def run_shard(
    arguments: list[str], index: int, count: int, there: tuple[Any, dict[str, str]]
) -> tuple[Any, dict[str, str]]:
    """A shard on some node, from what there is already; returns its configuration and samples."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "results"
        configuration, samples = there
        if configuration is not None:
            (out / "samples").mkdir(parents=True)
            shard = {"index": index, "count": count}
            (out / CONFIGURATION).write_text(json.dumps(configuration | {"shard": shard}))
            for name, lines in samples.items():
                (out / "samples" / name).write_text(lines)
        command = [sys.executable, "-m", "lacunalm", "eval", *_without(arguments, "--out")]
        command += ["--out", str(out), "--shard", f"{index}/{count}"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            said = ended.stderr.strip().splitlines() or [f"a shard ended with status {ended.returncode}"]
            raise Error(said[-1].removeprefix("error: "))
        return read(out)


def merge(out: pathlib.Path, configuration: dict[str, Any], samples: dict[str, str]) -> None:
    """Adds the samples of a shard to those that the folder has."""
    (out / "samples").mkdir(parents=True, exist_ok=True)
    if not (out / CONFIGURATION).exists():
        _write(out / CONFIGURATION, json.dumps(configuration | {"shard": WHOLE}, indent=2) + "\n")
    for name, text in samples.items():
        path = out / "samples" / name
        there = _whole_lines(path)
        known = {row for row, _ in _rows(there)}
        _write(path, there + "".join(line + "\n" for row, line in _rows(text) if row not in known))


def _whole_lines(path: pathlib.Path) -> str:
    """The text of a file up to its last line break: a line that was cut short when a run was killed is dropped."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text[: text.rfind("\n") + 1]


def _rows(text: str) -> list[tuple[int, str]]:
    """The samples of a text, with their rows. Line breaks of other kinds than \\n may be part of an answer."""
    return [(json.loads(line)["row"], line) for line in text.split("\n")[:-1]]


def _write(path: pathlib.Path, text: str) -> None:
    """Writes a file at once: whoever is killed leaves the old one or the new one."""
    new = path.with_name(path.name + ".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def command(arguments: Sequence[str]) -> int:
    """`lacuna eval … --ray [ADDRESS]`."""
    if {"-h", "--help", "--list-protocols"} & set(arguments):
        return main(["eval", *arguments])
    address = _value(arguments, "--ray", "auto")
    try:
        return evaluate(_without(arguments, "--ray"), address=address)
    except KeyboardInterrupt:
        print("\nstopped: the same command goes on where this one ended", file=sys.stderr)
        return 130
    except (Error, ValueError, ConnectionError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except ray.exceptions.RayError as error:
        print(f"error: a shard failed: {str(error).strip().splitlines()[-1]}", file=sys.stderr)
        return 1


def _connect(address: str | None) -> None:
    """Connects to the cluster, or starts one."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if port.isdigit():
        # Ray would try for minutes.
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=REACH).close()
        except (OSError, OverflowError) as error:
            raise ConnectionError(f"there is no Ray cluster at {address}: {error}") from None
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        ray.init(address=address, **settings)
    except ConnectionError:
        if address != "auto":
            raise
        ray.init(**settings)


def _value(arguments: Sequence[str], flag: str, default: str) -> str:
    """The value of a flag."""
    for number, argument in enumerate(arguments):
        if argument.startswith(flag + "="):
            return argument.partition("=")[2]
        if argument == flag:
            following = arguments[number + 1 : number + 2]
            return following[0] if following and not following[0].startswith("-") else default
    return default


def _without(arguments: Sequence[str], flag: str) -> list[str]:
    """The arguments without a flag and what stands behind it."""
    rest = []
    skip = False
    for argument in arguments:
        if skip and not argument.startswith("-"):
            skip = False
            continue
        skip = argument == flag
        if not skip and not argument.startswith(flag + "="):
            rest.append(argument)
    return rest
