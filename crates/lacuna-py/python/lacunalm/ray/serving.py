"""The server's API as an application of Ray Serve."""

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import ray
from ray import serve as ray_serve
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from .._native import check_command
from ..checks import positive
from .room import Room

START = 600.0
"""Seconds that a model may take to load."""
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "upgrade", "te", "trailer"}


class Replica:
    """A server of its own, which Ray Serve's requests are handed to as they are."""

    def __init__(self, arguments: Sequence[str] = ()) -> None:
        check_command(_command(0, arguments), elsewhere=False)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        command = [sys.executable, "-m", "lacunalm", *_command(self.port, arguments)]
        self.server = subprocess.Popen(command, env=os.environ)
        end = time.monotonic() + START
        while not self.answers():
            if self.server.poll() is not None:
                raise RuntimeError("the server has stopped: the log of this replica says why")
            if time.monotonic() > end:
                self.server.kill()
                raise TimeoutError(f"the server has not answered within {START:.0f} seconds")
            time.sleep(0.05)

    def answers(self) -> bool:
        """True if the server takes work."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def check_health(self) -> None:
        """Ray Serve replaces a replica whose server is gone."""
        if self.server.poll() is not None:
            raise RuntimeError("the server has stopped")

    async def __call__(self, request: Request) -> Response:
        import aiohttp

        path = request.url.path.removeprefix(request.scope.get("root_path", "").rstrip("/"))
        target = f"http://127.0.0.1:{self.port}{path}" + (f"?{request.url.query}" if request.url.query else "")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        # The request goes on as it is: what the client does not accept, compression for one, it must not be sent.
        session = aiohttp.ClientSession(
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=["Accept", "Accept-Encoding", "Content-Type", "User-Agent"],
        )
        try:
            answer = await session.request(request.method, target, data=await request.body(), headers=headers)
        except BaseException:
            await session.close()
            raise

        async def pieces() -> AsyncIterator[bytes]:
            # When the client goes away, closing the connection tells the server.
            async with session, answer:
                async for piece in answer.content.iter_any():
                    yield piece

        kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
        return StreamingResponse(pieces(), status_code=answer.status, headers=kept)

    def __del__(self) -> None:
        if (server := getattr(self, "server", None)) is not None and server.poll() is None:
            server.terminate()


def _command(port: int, arguments: Sequence[str]) -> list[str]:
    """The command of a replica's server."""
    return ["serve", "--host", "127.0.0.1", "--port", str(port), *arguments]


def application(args: dict[str, Any] | None = None) -> Any:
    """The application, as a configuration file of Ray Serve names it: `import_path: lacunalm.ray:application`.

    `args` has `arguments`, those of `lacuna serve`, and what else is an option of a deployment: `num_replicas`,
    `ray_actor_options`, `max_ongoing_requests`, `autoscaling_config`.
    """
    options = dict(args or {})
    arguments = list(options.pop("arguments", ()))
    options.setdefault("max_ongoing_requests", 256)
    deployment = ray_serve.deployment(name="lacuna", **options)(Replica)
    return deployment.bind(arguments)


def serve(
    arguments: Sequence[str] = (),
    *,
    replicas: int = 1,
    cpus: float = 1,
    gpus: float = 0,
    name: str = "lacuna",
    route: str = "/",
) -> Any:
    """Serves `replicas` of `lacuna serve`, with these arguments, behind Ray Serve; returns its handle.

    The API is the server's own, streams and playground included. `lacunalm.ray:application` is the same for configuration files.
    """
    # Before Ray is there, nobody knows whether other machines are.
    room = Room(cpus, gpus) if ray.is_initialized() else None
    check_command(_command(0, arguments), elsewhere=room is None or room.elsewhere)
    replicas = positive("replicas", replicas)
    if room is not None:
        room.share("replicas", replicas)
    about = {"num_replicas": replicas, "ray_actor_options": {"num_cpus": cpus, "num_gpus": gpus}}
    return ray_serve.run(application({"arguments": list(arguments), **about}), name=name, route_prefix=route)
