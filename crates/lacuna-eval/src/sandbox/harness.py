# Runs the program that standard input holds and reports how it ended. The first line of standard input is a word that
# the program does not know, so what it prints cannot pass for the report.
import os
import sys
import types

word, source = sys.stdin.buffer.read().split(b"\n", 1)
report = os.dup(1)


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
os.write(report, b"\n" + word + b" " + verdict.encode("utf-8", "replace") + b"\n")
os._exit(0)
