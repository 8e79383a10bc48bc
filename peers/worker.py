"""The loop that answers ridgeline: one JSON line in, one JSON line out."""
import ctypes
import json
import os
import platform
import signal
import sys
import traceback

from . import registry
from .refusal import Refusal
from .rows import AttentionRow, GenerateRow, KernelRow, ProfileRow

PROTOCOL = 1
PR_SET_PDEATHSIG = 1
ROWS = {"attention": AttentionRow, "kernel": KernelRow, "profile": ProfileRow, "generate": GenerateRow}


def take_stdout():
    """Returns a stream for the answers; what libraries print to stdout goes to stderr instead."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def die_with_parent():
    """Ends this process when ridgeline ends."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass


class Worker:
    def __init__(self):
        self.row = None

    def hello(self, _request):
        return {"protocol": PROTOCOL, "python": platform.python_version(), "executable": sys.executable}

    def open(self, request):
        self.close_row()
        problem = registry.open_problem(request)
        self.row = ROWS[request["study"]](problem, request)
        return self.row.first_run()

    def sample(self, request):
        return {"samples": [self.row.sample() for _ in range(request["count"])]}

    def step(self, request):
        return {"step": self.row.step(request["number"])}

    def decode(self, _request):
        return self.row.decode()

    def close(self, _request):
        row, self.row = self.row, None
        return row.close() if row else {}

    def close_row(self):
        if self.row is not None:
            row, self.row = self.row, None
            row.drop()

    def answer(self, request):
        try:
            return getattr(self, request["do"])(request)
        except Refusal as refusal:
            failure = {"failed": refusal.status, "error": refusal.error, "next_step": refusal.next_step}
        except MemoryError as error:
            failure = {"failed": "oom", "error": str(error) or "out of memory"}
        except Exception as error:  # whatever a library raises becomes an answer
            traceback.print_exc(file=sys.stderr)
            failure = {"failed": "invalid", "error": f"{type(error).__name__}: {error}", "leave": True}
        try:
            self.close_row()
        except Exception:
            failure["leave"] = True  # such as a GPU context that an error has corrupted
        return failure


def main():
    answers, worker = take_stdout(), Worker()
    die_with_parent()
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=answers, flush=True)
    return 0
