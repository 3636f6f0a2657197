"""Starts and stops the real server."""

import os
import re
import subprocess
import tempfile
import urllib.request


class Server:
    """A running `lacuna serve`, as a context."""

    def __init__(self, *flags, **variables):
        self.flags = flags
        self.variables = {f"LACUNA_{name.upper()}": value for name, value in variables.items()}

    def __enter__(self):
        self.log = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(
            [os.environ["LACUNA"], "serve", "--port", "0", *self.flags],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, **self.variables},
        )
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        if not found:
            self.log.seek(0)
            raise RuntimeError(f"the server did not start: {line}{self.log.read()}")
        self.url = found.group()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        self.log.seek(0)
        log = self.log.read()
        self.log.close()
        assert code == 0, f"the server ended with {code}: {log[-2000:]}"
        assert "panicked" not in log, log[-2000:]

    def metrics(self):
        """The values of /metrics, by name."""
        with urllib.request.urlopen(f"{self.url}/metrics") as page:
            lines = [line for line in page.read().decode().splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
