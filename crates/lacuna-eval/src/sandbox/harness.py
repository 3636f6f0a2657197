# Runs the program that standard input holds and reports how it ended. Behind the program comes a word that it does not
# know, so what it prints cannot pass for the report. The word stays in the pipe until the program is done: in here, the
# program could find it.
import os
import sys
import types


def take(count):
    taken = b""
    while len(taken) < count:
        more = os.read(0, count - len(taken))
        if not more:
            break
        taken += more
    return taken


source = take(int(take(16)))
rest, report = os.dup(0), os.dup(1)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)


def line_of(error):
    """The last line of the program that the error passed through."""
    number, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "program.py":
            number = trace.tb_lineno
        trace = trace.tb_next
    lines = source.decode("utf-8", "replace").splitlines()
    return f" at: {lines[number - 1].strip()[:160]}" if 0 < number <= len(lines) else ""


module = types.ModuleType("program")
sys.modules["program"] = module
try:
    exec(compile(source, "program.py", "exec"), module.__dict__)
    verdict = "passed"
except SystemExit:
    verdict = "failed: the program ended itself before its tests were done"
except BaseException as error:
    try:
        verdict = f"failed: {type(error).__name__}: {str(error)[:200]}{line_of(error)}"
    except BaseException:
        verdict = "failed: an exception that cannot be printed"
word = os.read(rest, 64)
os.write(report, b"\n" + word + b" " + verdict.encode("utf-8", "replace") + b"\n")
os._exit(0)
