"""Two hundred clients at once: long and short requests, streams and not, some that go away, some that send nonsense.

Every answer is compared with what the same request got alone before; memory must stay bounded.
"""

import argparse
import asyncio
import json
import random
import time

import aiohttp
from serving import Server

STRATEGIES = [
    {"strategy": "dos+eb"},
    {"strategy": "dos+top4", "layer": [0, 1]},
    {"strategy": "confidence+eb", "block_length": 16},
    {"strategy": "klass"},
    {"strategy": "wino", "block_length": 16},
    {"strategy": "margin+threshold", "temperature": 0.7},
    {"strategy": "random+top4"},
]
NONSENSE = [
    (b"{", 400),
    (b"[]", 400),
    (b'{"messages": 3}', 400),
    (b'{"messages": [], "n": -1}', 400),
    (b'{"messages": [{"role": "user", "content": "x"}], "strategy": "nothing"}', 400),
    (b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 100000}', 400),
    (b'{"messages": [{"role": "user", "content": "' + b"x" * (1 << 20) + b'"}]}', 413),
]


def requests(count, draw):
    """Requests of many lengths and strategies."""
    for number in range(count):
        first, second = draw.randrange(5, 90), draw.randrange(2, 9)
        question = f"Sara has {first} pens and buys {second} boxes with {draw.randrange(2, 12)} pens each. How many pens does she have?"
        yield {
            "model": "lacuna-mini",
            "messages": [{"role": "user", "content": question * draw.choice([1, 1, 1, 3])}],
            "max_tokens": draw.choice([16, 16, 32, 48]),
            "seed": number,
            **draw.choice(STRATEGIES),
        }


async def whole(session, body):
    async with session.post("/v1/chat/completions", json=body) as response:
        if response.status == 429:
            return None
        answer = await response.json()
        assert response.status == 200, answer
        return answer["choices"][0]["message"]["content"], answer["usage"]["lacuna"]["nfe"]


async def streamed(session, body, patience=None):
    """The text of a stream; with patience, the client goes away after so many lines."""
    text, nfe, lines = "", None, 0
    options = {"stream": True, "stream_options": {"include_usage": True}}
    async with session.post("/v1/chat/completions", json={**body, **options}) as response:
        if response.status == 429:
            return None
        assert response.status == 200, await response.text()
        async for line in response.content:
            lines += 1
            if patience is not None and lines > patience:
                return None
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            for choice in chunk["choices"]:
                text += choice["delta"]["content"]
            nfe = (chunk["usage"] or {"lacuna": {"nfe": nfe}})["lacuna"]["nfe"]
    return text, nfe


async def client(number, session, expected, until, counts):
    draw = random.Random(number)
    while time.monotonic() < until:
        index = draw.randrange(len(expected))
        body, answer = expected[index]
        kind = draw.random()
        if kind < 0.08:
            content, status = draw.choice(NONSENSE)
            headers = {"Content-Type": "application/json"}
            async with session.post("/v1/chat/completions", data=content, headers=headers) as response:
                assert response.status == status, (content[:80], response.status, await response.text())
                assert "error" in await response.json()
            counts["refused"] += 1
            continue
        if kind < 0.16:
            await streamed(session, body, patience=draw.randrange(0, 6))
            counts["left"] += 1
            continue
        if kind < 0.20:
            try:
                await asyncio.wait_for(whole(session, body), timeout=draw.random() * 0.3)
                counts["answered"] += 1
            except TimeoutError:
                counts["left"] += 1
            continue
        got = await (streamed if kind < 0.6 else whole)(session, body)
        if got is None:
            counts["busy"] += 1
            await asyncio.sleep(draw.random())
            continue
        assert got == answer, f"mixed up: {got!r} instead of {answer!r} for {body}"
        counts["answered"] += 1


async def at_rest(server, within=20):
    """The metrics once nothing is at work: a client that went away is noticed at the next step."""
    until = time.monotonic() + within
    while (metrics := server.metrics())["lacuna_active_runs"] + metrics["lacuna_queue_runs"] > 0:
        assert time.monotonic() < until, "work is left over"
        await asyncio.sleep(0.1)
    return metrics


async def main(arguments):
    draw = random.Random(1)
    with Server("--log-level", "warn", "--max-queue", "64") as server:
        connector = aiohttp.TCPConnector(limit=0)
        limit = aiohttp.ClientTimeout(total=300)
        async with aiohttp.ClientSession(server.url, connector=connector, timeout=limit) as session:
            expected = [(body, await whole(session, body)) for body in requests(arguments.requests, draw)]
            before = server.metrics()["process_resident_memory_bytes"]
            counts = dict.fromkeys(["answered", "left", "refused", "busy"], 0)
            until = time.monotonic() + arguments.seconds
            begun = time.monotonic()
            await asyncio.gather(*(client(n, session, expected, until, counts) for n in range(arguments.clients)))
            took = time.monotonic() - begun
            again = [(body, await whole(session, body)) for body, _ in expected[:4]]
            assert again == expected[:4], "answers have changed"
        after = await at_rest(server)
        grown = (after["process_resident_memory_bytes"] - before) / 1e6
        batch = after["lacuna_batch_runs_sum"] / after["lacuna_batch_runs_count"]
        print(
            f"{arguments.clients} clients for {took:.0f} s: {counts}, {batch:.1f} runs a forward, memory grew {grown:.0f} MB"
        )
        assert after["lacuna_runs_failed_total"] == 0
        assert counts["answered"] > 0 and counts["left"] > 0 and counts["refused"] > 0
        assert grown < arguments.megabytes, f"memory grew by {grown:.0f} MB"


parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=60)
parser.add_argument("--clients", type=int, default=200)
parser.add_argument("--requests", type=int, default=24)
parser.add_argument("--megabytes", type=float, default=300)
asyncio.run(main(parser.parse_args()))
