"""schemathesis: requests made from /openapi.json, and answers compared with it."""

import subprocess
import sys
import tempfile

from serving import Server

# What it makes up is often refused for reasons that a schema cannot say: a prompt without text, a block length that does not
# divide the length, a strategy of another name. So it is not asked that everything it finds valid is taken.
LEFT_OUT = "positive_data_acceptance"

with Server("--max-gen-length", "64", "--log-level", "off") as server, tempfile.TemporaryDirectory() as folder:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "schemathesis.cli",
            "run",
            f"{server.url}/openapi.json",
            "--checks",
            "all",
            "--exclude-checks",
            LEFT_OUT,
            "--max-examples",
            "60",
            "--seed",
            "7",
            "--request-timeout",
            "60",
            "--suppress-health-check",
            "all",
            "--no-color",
        ],
        cwd=folder,
    )
sys.exit(done.returncode)
