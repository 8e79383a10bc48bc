"""How a row of each study runs: a first run that is checked, then samples."""
import time

# An idle GPU waits for the next launch. Before a sample shorter than this it is kept busy, as in `ridgeline kernel`.
LEAD_IN_BELOW_MS = 2


class Row:
    def __init__(self, problem, request):
        self.problem, self.request = problem, request

    def first_run(self):
        """Returns memory and what actually ran, and writes the results to files if ridgeline asks for them."""
        start = time.monotonic()
        self.problem.meet_every_kernel()
        first_run_s = time.monotonic() - start
        memory = self.problem.run_watched(self.request["results"])
        self.prepare()
        return {"memory": memory, "facts": self.problem.facts(), "first_run_s": first_run_s}

    def prepare(self):
        pass

    def close(self):
        """Checks that the timed code is the code that was checked."""
        try:
            self.problem.check_after_samples()
        finally:
            leave = self.problem.leaves_memory_taken
            self.drop()
        return {"leave": leave}

    def drop(self):
        problem, self.problem = self.problem, None
        if problem is not None:
            problem.drop()


class AttentionRow(Row):
    """Like `ridgeline attention`: forward, then backward, each launched on an idle device."""
    last_ms = 0.0

    def sample(self):
        # After waiting for ridgeline, Python is slow to make its first call, and the GPU waits for it.
        if self.problem.has_queue and self.last_ms < LEAD_IN_BELOW_MS:
            self.both_passes()
        taken = self.both_passes()
        self.last_ms = sum(taken)
        return taken

    def both_passes(self):
        forward_ms, state = self.problem.timed(lambda: self.problem.forward(0))
        backward_ms, _ = self.problem.timed(lambda: self.problem.backward(0, state))
        return [forward_ms, backward_ms]


class KernelRow(Row):
    """Like `ridgeline kernel`: calls back to back, over copies, after a flush, or in a launch graph."""

    def prepare(self):
        self.calls, self.copies = self.request["calls"], self.request["copies"]
        self.mode = self.request["mode"]
        self.passes = [self.forward] + ([self.backward] if self.request["gradients"] else [])
        self.next_copy, self.last_ms = [0] * len(self.passes), [0.0] * len(self.passes)
        # Backward needs what the forward of its copy saved.
        self.states = [self.problem.forward(copy) if self.request["gradients"] else None
                       for copy in range(self.copies)]
        self.starts = [self.start_of(index) for index in range(len(self.passes))]

    def forward(self, copy):
        self.problem.forward(copy)

    def backward(self, copy):
        self.problem.backward(copy, self.states[copy])

    def start_of(self, index):
        """Returns a function that makes the calls of one sample."""
        call = self.passes[index]

        def all_calls():
            for _ in range(self.calls):
                call(self.next_copy[index])
                self.next_copy[index] = (self.next_copy[index] + 1) % self.copies
        return self.problem.captured(all_calls) if self.mode == "graph" else all_calls

    def sample(self):
        taken = []
        for index, start in enumerate(self.starts):
            if self.mode == "cold":
                self.problem.flush()
            elif self.problem.has_queue and self.last_ms[index] < LEAD_IN_BELOW_MS:
                start()
            host = 0.0

            def work():
                nonlocal host
                begin = time.perf_counter()
                start()
                host = 1e3 * (time.perf_counter() - begin)
            device_ms, _ = self.problem.timed(work)
            self.last_ms[index] = device_ms
            taken += [device_ms / self.calls, host / self.calls]
        return taken

    def drop(self):
        self.states = self.starts = None
        super().drop()


class GenerateRow(Row):
    """Like `ridgeline generate`: each prompt is a sample; the text is generated once, with a time for each step."""

    def sample(self):
        return self.problem.sample()

    def decode(self):
        tokens, step_ms = self.problem.text()
        return {"tokens": tokens, "step_ms": step_ms}


class ProfileRow(Row):
    """Like `ridgeline profile`: steps under a schedule, returned one by one."""

    def first_run(self):
        from . import torch_profile  # needs torch
        torch_profile.prepare(self.problem)
        answer = super().first_run()
        answer["profile"], self.steps = torch_profile.run(self.problem, self.request)
        return answer

    def step(self, number):
        return self.steps[number]
