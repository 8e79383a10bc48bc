"""Rows of figures with their bars, clocks of the host and of the GPU, and processes with a time limit."""

import contextlib
import fcntl
import multiprocessing
import os
import time
import traceback
from dataclasses import dataclass

import torch


@dataclass
class Row:
    name: str
    value: str
    bar: str = ""
    verdict: str = ""  # ok, MISSED, or empty without a bar


def bar(name, value, least=None, most=None, unit=""):
    """Returns the row of a figure, with its bar and verdict."""
    missed = (least is not None and value < least) or (most is not None and value > most)
    aim = f">= {least}" if least is not None else f"<= {most}" if most is not None else ""
    return Row(name, f"{value:.2f} {unit}".strip(), aim, "MISSED" if missed else "ok" if aim else "")


def failed(name, problem):
    return Row(name, f"failed: {problem}".replace("\n", " ")[:110], "", "MISSED")


def median(values):
    return sorted(values)[len(values) // 2]


class Bench:
    """The context of all sections: the device and the sizes. Tiny sizes only test the sections themselves: the figures
    mean nothing."""

    def __init__(self, device, folder, is_tiny):
        self.device, self.on_gpu, self.folder, self.is_tiny = device, device == "cuda", folder, is_tiny

    @contextlib.contextmanager
    def _lock(self, name, how):
        with open(os.path.join(self.folder, name), "w") as file:
            fcntl.flock(file, how)
            yield

    @contextlib.contextmanager
    def alone(self):
        """A context for measuring, in which concurrent sections do not use the GPU; they may compile."""
        with self._lock("next", fcntl.LOCK_EX), self._lock("gpu", fcntl.LOCK_EX):
            yield

    @contextlib.contextmanager
    def beside_others(self):
        """A context for checks. A section that waits to measure goes first."""
        with self._lock("next", fcntl.LOCK_SH):
            pass
        with self._lock("gpu", fcntl.LOCK_SH):
            yield

    def size(self, real, tiny):
        return tiny if self.is_tiny else real

    def wait(self):
        if self.on_gpu:
            torch.cuda.synchronize()

    def inputs(self, *shape, dtype=torch.bfloat16, count=3, grad=False):
        torch.manual_seed(0)
        return [torch.randn(*shape, device=self.device).to(dtype).requires_grad_(grad) for _ in range(count)]

    def host_us(self, *calls, times=100, rounds=31):
        """Returns the microseconds until each call returns, measured in turns; waiting for the GPU is not timed."""
        times, rounds = self.size((times, rounds), (3, 3))
        for call in calls:
            for _ in range(20):
                call()
        taken = [[] for _ in calls]
        for _ in range(rounds):
            for call, list_ in zip(calls, taken):
                self.wait()
                start = time.perf_counter()
                for _ in range(times):
                    call()
                list_.append((time.perf_counter() - start) / times * 1e6)
        self.wait()
        return [median(list_) for list_ in taken]

    def sample_ms(self, call, calls=1):
        """Returns milliseconds: of one call by the host's clock, or on the GPU's, where several calls hide the host's
        time, unless that is longer."""
        if not self.on_gpu:
            start = time.perf_counter()
            call()
            return (time.perf_counter() - start) * 1e3
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / calls

    def in_turns_ms(self, first, second, rounds=15, calls=1):
        """Returns the medians of both, measured alternately."""
        times = ([], [])
        for turn in range(self.size(rounds, 2) + 2):  # two to warm up
            for call, list_ in zip((first, second), times):
                list_.append(self.sample_ms(call, calls if turn > 1 else 1))
        return median(times[0][2:]), median(times[1][2:])


def _child(pipe, function, arguments):
    try:
        for row in function(*arguments):
            pipe.send(row)
    except BaseException as problem:
        traceback.print_exc()
        pipe.send(failed(function.__name__, f"{type(problem).__name__}: {problem}"))
    pipe.close()


def in_processes(tasks, limit_s, at_once=1):
    """Runs tasks (name, function, arguments) in forked processes, and yields (name, rows). A task that exceeds the
    limit, counted from the start of all, is killed and gets a row that says so; its earlier rows are kept."""
    fork = multiprocessing.get_context("fork")  # this process has imported PyTorch, but not touched the GPU
    end = time.monotonic() + limit_s
    waiting, running = list(tasks), []
    while waiting or running:
        while waiting and len(running) < at_once and time.monotonic() < end:
            name, function, arguments = waiting.pop(0)
            ours, theirs = fork.Pipe(duplex=False)
            process = fork.Process(target=_child, args=(theirs, function, arguments))
            process.start()
            theirs.close()
            running.append((name, process, ours, []))
        late = time.monotonic() >= end
        for each in list(running):
            name, process, pipe, rows = each
            try:
                while pipe.poll(0.02):
                    rows.append(pipe.recv())
                if not late:
                    continue
                process.kill()
                rows.append(failed(name, f"not done after {limit_s:.0f} s"))
            except EOFError:
                if not rows:
                    process.join()
                    rows.append(failed(name, f"ended with {process.exitcode} and no figure"))
            process.join()
            running.remove(each)
            yield name, rows
        if late:
            for name, _, _ in waiting:
                yield name, [failed(name, f"not begun after {limit_s:.0f} s")]
            waiting = []
