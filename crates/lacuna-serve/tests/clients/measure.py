"""Overhead of a server over the bare steps: with sixteen clients at once beside `lacuna bench`, and with one.

LACUNA=BINARY python measure.py
"""

import http.client
import json
import os
import socket
import statistics
import subprocess
import threading
import time

from serving import Server

CLIENTS = 16
PROMPT = [7919 * position % 2000 + 10 for position in range(128)]
# As `lacuna bench` has it: 256 positions, half of them prompt, blocks of 32, one token a step.
BODY = {"prompt": PROMPT, "gen_length": 128, "block_length": 32, "strategy": "dos", "layer": 1, "early_stop": False}


def bench():
    command = [
        os.environ["LACUNA"],
        "bench",
        "--shape",
        "mini",
        "--batch",
        str(CLIENTS),
        "--layer",
        "1",
        "--repetitions",
        "20",
        "--format",
        "json",
    ]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def post(connection, body):
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read())
    assert response.status == 200, answer
    return answer


def connect(server):
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def busy(server, seconds):
    """Tokens a second, and the share of time that goes into steps, while all clients are at work."""
    stop = threading.Event()

    def client():
        connection = connect(server)
        while not stop.is_set():
            post(connection, BODY)

    clients = [threading.Thread(target=client) for _ in range(CLIENTS)]
    for one in clients:
        one.start()
    time.sleep(2)
    before, begun = server.metrics(), time.monotonic()
    time.sleep(seconds)
    after, took = server.metrics(), time.monotonic() - begun
    stop.set()
    for one in clients:
        one.join()
    grown = {name: after[name] - before.get(name, 0) for name in after}
    return {
        "tokens_per_second": grown["lacuna_tokens_committed_total"] / took,
        "ms_per_step": 1e3 * grown["lacuna_step_seconds_sum"] / grown["lacuna_step_seconds_count"],
        "runs_per_step": grown["lacuna_batch_runs_sum"] / grown["lacuna_batch_runs_count"],
        "share_in_steps": grown["lacuna_step_seconds_sum"] / took,
    }


def idle(server, count):
    """Overhead of one request at a time beyond its steps, in milliseconds."""
    connection, beyond = connect(server), []
    for _ in range(count):
        before = server.metrics()["lacuna_step_seconds_sum"]
        begun = time.perf_counter()
        post(connection, {**BODY, "gen_length": 32, "strategy": "random+top32"})
        took = time.perf_counter() - begun
        beyond.append(1e3 * (took - (server.metrics()["lacuna_step_seconds_sum"] - before)))
    beyond.sort()
    return {"median_ms": statistics.median(beyond), "p99_ms": beyond[int(0.99 * count)], "requests": count}


with Server("--log-level", "warn") as server:
    post(connect(server), BODY)
    print("idle ", json.dumps(idle(server, 300)), flush=True)
    for _ in range(3):
        alone = bench()
        print(
            "bench",
            json.dumps({name: alone[name] for name in ("tokens_per_second", "ms_per_step", "precision")}),
            flush=True,
        )
        print("serve", json.dumps(busy(server, 15)), flush=True)
