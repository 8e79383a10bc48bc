"""Reads what ran in each step from a trace exported by torch.profiler: pieces of work and the calls that launched them.
Needs no PyTorch."""
import bisect

RANGE = "ridgeline: "  # prefix of the names of our ranges: steps and phases
STEP = "step"
PHASES = ("forward", "backward", "optimizer")
NONE = -1
KERNEL, COPY, FILL = range(3)
WORK = {"kernel": KERNEL, "gpu_memcpy": COPY, "gpu_memset": FILL}
CALLS = ("cuda_runtime", "cuda_driver")


def nanoseconds(microseconds):
    return round(1000 * float(microseconds))


class Slice:
    def __init__(self, event):
        self.name, self.thread = str(event["name"]), (event.get("pid"), event.get("tid"))
        self.begin = nanoseconds(event["ts"])
        self.end = self.begin + nanoseconds(event.get("dur", 0))
        arguments = event.get("args", {})
        self.correlation, self.operation = arguments.get("correlation"), arguments.get("External id")
        self.kind = WORK.get(event["cat"], KERNEL)


class Ranges:
    """Ranges on the host that do not overlap; finds the one that contains a time."""

    def __init__(self, slices):
        self.slices = sorted(slices, key=lambda each: each.begin)
        self.begins = [each.begin for each in self.slices]

    def find(self, time):
        index = bisect.bisect_right(self.begins, time) - 1
        return index if index >= 0 and time <= self.slices[index].end else NONE


class Step:
    """One step in the format of docs/peers.md."""

    def __init__(self, slice_):
        self.begin, self.end = slice_.begin, slice_.end
        self.names, self.calls, self.work = {}, [], []
        self.call_numbers = {}

    def name(self, text):
        return self.names.setdefault(text, len(self.names))

    def call(self, slice_):
        if slice_ is None:
            return NONE
        if id(slice_) not in self.call_numbers:
            self.call_numbers[id(slice_)] = len(self.calls)
            self.calls.append((slice_.name, slice_.begin, slice_.end))
        return self.call_numbers[id(slice_)]

    def as_json(self, origin):
        work = [[self.name(name), kind, phase, begin - origin, end - begin, call]
                for name, kind, phase, begin, end, call in sorted(self.work, key=lambda each: each[3])]
        calls = [[self.name(name), begin - origin, end - begin] for name, begin, end in self.calls]
        return {"begin_ns": self.begin - origin, "end_ns": self.end - origin, "names": list(self.names),
                "calls": calls, "work": work}


def self_times(slices):
    """Yields (operation, begin, end) with the self time of each operation, one after the other on each thread. An
    operation that only calls another of the same name is merged with it, as in torch.profiler's own tables."""
    slices.sort(key=lambda each: (each.thread, each.begin, -each.end))
    open_, parents, children = [], [], [0] * len(slices)
    own = [each.end - each.begin for each in slices]
    for index, each in enumerate(slices):
        while open_ and (slices[open_[-1]].thread != each.thread or slices[open_[-1]].end <= each.begin):
            open_.pop()
        parents.append(open_[-1] if open_ else NONE)
        if open_:
            own[open_[-1]] -= each.end - each.begin
            children[open_[-1]] += 1
        open_.append(index)
    same_as = list(range(len(slices)))
    for index, parent in enumerate(parents):
        if parent != NONE and children[parent] == 1 and slices[parent].name == slices[index].name:
            same_as[index] = same_as[parent]
            own[same_as[parent]] += own[index]
    free = {}  # by thread: the end of the last operation placed there
    for index, each in enumerate(slices):
        if same_as[index] == index:
            begin = max(each.begin, free.get(each.thread, each.begin))
            free[each.thread] = begin + max(0, own[index])
            yield each, begin, free[each.thread]


def steps_of(trace, on_gpu):
    """Returns the steps of a trace: on a GPU kernels, copies and fills, on a CPU operations with their self times."""
    slices = {}
    for event in trace["traceEvents"]:
        if event.get("ph") == "X":
            slices.setdefault(event.get("cat"), []).append(event)
    ours = [Slice(event) for event in slices.get("user_annotation", []) if str(event["name"]).startswith(RANGE)]
    ranges = Ranges([each for each in ours if each.name == RANGE + STEP])
    phases = Ranges([each for each in ours if each.name != RANGE + STEP])
    steps = [Step(each) for each in ranges.slices]

    def phase_at(time):
        index = phases.find(time)
        return PHASES.index(phases.slices[index].name[len(RANGE):]) if index != NONE else NONE

    if on_gpu:
        calls, operations = {}, {}
        for cat in CALLS:
            for each in map(Slice, slices.get(cat, [])):
                calls.setdefault(each.correlation, each)
        for each in map(Slice, slices.get("cpu_op", [])):
            operations.setdefault(each.operation, each)
        for cat in WORK:
            for each in map(Slice, slices.get(cat, [])):
                call = calls.get(each.correlation) if each.correlation else None
                # Not every driver call is traced; where it is missing, the operation that made it stands in.
                cause = call or (operations.get(each.operation) if each.operation else None)
                if (index := ranges.find((cause or each).begin)) != NONE:
                    phase = phase_at(cause.begin) if cause else NONE
                    steps[index].work.append((each.name, each.kind, phase, each.begin, each.end,
                                              steps[index].call(call)))
    else:
        for each, begin, end in self_times([Slice(event) for event in slices.get("cpu_op", [])]):
            if (index := ranges.find(each.begin)) != NONE:
                steps[index].work.append((each.name, KERNEL, phase_at(each.begin), begin, end, NONE))
    origin = min([each.begin for each in steps] + [piece[3] for each in steps for piece in each.work], default=0)
    return [each.as_json(origin) for each in steps]
