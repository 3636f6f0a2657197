"""Runs untrusted programs: each in a forked child with limits on time and memory.

python sandbox.py < programs.json > verdicts.json      (a list of sources; a list of booleans)
"""

import json
import os
import resource
import signal
import sys

LIMIT_S, LIMIT_BYTES, PARALLEL = 3, 1 << 30, 8


def child(source):
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # the alarm kills the process, whatever it is doing
    signal.alarm(LIMIT_S)
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    try:
        exec(compile(source, "program", "exec"), {"__name__": "program"})
        code = 0
    except BaseException:
        code = 1
    os._exit(code)


def run(programs):
    verdicts, running = [False] * len(programs), {}

    def reap():
        pid, status = os.wait()
        verdicts[running.pop(pid)] = status == 0

    for i, source in enumerate(programs):
        if len(running) >= PARALLEL:
            reap()
        pid = os.fork()
        if pid == 0:
            child(source)
        running[pid] = i
    while running:
        reap()
    return verdicts


if __name__ == "__main__":
    json.dump(run(json.load(sys.stdin)), sys.stdout)
