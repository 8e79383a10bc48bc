"""Runs the program and reads the records that it writes."""
import concurrent.futures
import dataclasses
import gc
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import NamedTuple


class Cell(NamedTuple):
    """One attention problem."""
    dtype: str
    batch: int
    heads: int
    length: int
    width: int
    causal: bool = False

    def __str__(self):
        return f"{self.dtype} ({','.join(map(str, self.shape))}){' causal' if self.causal else ''}"

    @property
    def shape(self):
        return (self.batch, self.heads, self.length, self.width)

    def flops(self, phase):
        """By convention: forward 4 B H S S d, halved when causal; backward 2.5 times that."""
        forward = 4 * self.batch * self.heads * self.length**2 * self.width / (2 if self.causal else 1)
        return forward * (2.5 if phase == "backward" else 1)


def cell_of(record):
    size = record["workload"]
    width = size["d_model"] if "d_model" in size else size["head_dim"]
    return Cell(size["dtype"], size["batch_size"], size["heads"], size["seq_len"], width, size["causal"])


def name_of(record):
    size = record["workload"]
    if "model_size" in size:
        return " ".join(f"{size[each]}" for each in ("model_size", "context_length", "precision"))
    if "seq_len" in size:
        return str(cell_of(record))
    return " ".join([record["implementation"], *map(str, size.values())])


def command_line(options):
    """Returns the words of a command: num_warmup=3 becomes --num-warmup 3, True a flag, a list a,b; a list of shapes
    repeats its option."""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif isinstance(value, list) and value and isinstance(value[0], tuple):
            for shape in value:
                words += [option, ",".join(map(str, shape))]
        elif isinstance(value, list):
            words += [option, ",".join(map(str, value))]
        elif value is not False and value is not None:
            words += [option, str(value)]
    return words


@dataclasses.dataclass
class Ridgeline:
    binary: pathlib.Path
    cache: pathlib.Path  # of compiled kernels
    tune: str = "off"
    device: str = "cuda"
    build: str = ""  # version and commit: read_build()
    clocks_mhz: list[float] = dataclasses.field(default_factory=list)  # of the GPU, after each row

    def command(self, study, results, **options):
        return [str(self.binary), study, "--device", self.device, "--tune", self.tune,
                "--results-dir", str(results), *command_line(options)]

    def environment(self, cache=None, variables=None):
        return dict(os.environ, RIDGELINE_CACHE_DIR=str(cache or self.cache), **(variables or {}))

    def why_no_gpu(self):
        """Returns an empty string if the program can use the device, else the reason."""
        command = [str(self.binary), "attention", "--device", self.device, "--dry-run", "--seq-len", "64"]
        done = subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=120)
        return "" if done.returncode == 0 else done.stderr.strip() or f"it ended with {done.returncode}"

    def read_build(self):
        done = subprocess.run([str(self.binary), "doctor", "--device", "cpu"], capture_output=True, text=True, timeout=120)
        if found := re.search(r"version +(\S+) \(.*commit (\S+)\)", done.stdout):
            self.build = " ".join(found.groups())

    def rows(self, study, cache=None, variables=None, **options):
        """Runs `ridgeline STUDY --OPTION ...` and returns its records."""
        leave_gpu_memory()
        with tempfile.TemporaryDirectory(prefix="ridgeline-results-") as results:
            command = self.command(study, results, **options)
            done = subprocess.run(command, env=self.environment(cache, variables), capture_output=True, text=True,
                                  timeout=300)
            file = pathlib.Path(results) / study / f"{study}.jsonl"
            if done.returncode not in (0, 3) or not file.is_file():  # 3: a row is wrong; its record says so
                raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-800:]}")
            records = [json.loads(line) for line in file.read_text().splitlines()]
        for record in records:
            self.build = "{version} {git_commit}".format(**record["build"])
            if clock := record.get("device_after", {}).get("clock_mhz"):
                self.clocks_mhz.append(clock)
            if record["status"] != "ok":
                print(f"   {name_of(record)}: {record['status']}: {record['error']}", flush=True)
        return records

    def compile_for(self, study, problems, **options):
        """Compiles the kernels of many problems in parallel processes, so that later runs find them on the disk."""
        def meet(problem):
            return self.rows(study, num_warmup=0, num_iterations=1, no_verify=True, **options, **problem)
        with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            list(pool.map(meet, problems))


def leave_gpu_memory():
    """Releases the memory that PyTorch caches, so that both programs find the GPU empty."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def samples(record, phase):
    """Returns milliseconds; empty if the row was not measured."""
    return record["series"][phase]["samples_ms"] if record["status"] == "ok" else []


@dataclasses.dataclass
class Bench:
    """The context that every section gets."""
    ridgeline: Ridgeline
    tests: pathlib.Path
    quick: bool = False

    @property
    def passes(self):
        """Returns the interleaved order of passes, so that a slow drift of the clock affects both sides alike."""
        return ["torch", "ours"] if self.quick else ["torch", "ours", "ours", "torch"]
