"""docs/records.md and the pages that it leads to name every column and every field that small runs write, and no column
that they do not write."""

import csv
import glob
import json
import os
import re
import subprocess

import pytest

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs")
PAGES = ["records", "measuring", "models", "roofline", "gemma", "generate", "distributed", "precision", "profile", "memory"]
MODEL = "--d-model 16 --d-ff 32 --layers 1 --heads 2 --vocabulary 32 --context-length 8 --batch-size 1"
COMMANDS = [
    "attention --impl naive,flash --seq-len 16 --d-model 16 -r 6",
    "compare --impl naive,flash results/attention/attention.jsonl",
    "kernel --shape 1,1,16,16 --dtype fp32 --mode hot -r 6 --backward single-pass",
    "gemm --op gemm --size 16 --dtype fp32 -r 6",
    f"model {MODEL} -r 6 --impl vanilla,compiled,fused",
    f"profile {MODEL}",
    f"memory --timeline --model-size small {MODEL}",
    "frontier --impl flash --d-model 16 --batch-size 1 --max-seq-len 256",
    "precision --part accumulate --op repeated",
    "cost gemm --size 64 --gpu A100",
    "comm --ranks 2 --size 1KB --backend threads --collective all-reduce -r 6",
    f"ddp {MODEL} --ranks 2 --strategy bucketed --backend threads -r 6",
    "decode --layer --prompt-length 8 --batch-size 1 --part mlp --phase decode --cache on -r 6",
    "roofline --dtype fp32 --size 64 --memory-budget 64MiB --settle-time 0s -r 6 --no-plot",
]
# The other scenarios and modes of a model have columns of the same names.
SAME = [(r"(backward|fwd_bwd|full_step)(?=_)", "forward"), (r"_(compiled|fused)(?=_|$)", "_vanilla")]
NAMED_BY_MODELS = {"tensors"}  # of a verification: kernels, gradients and scenarios; models.md has the list


def text(page):
    with open(os.path.join(DOCS, page + ".md"), encoding="utf-8") as file:
        return file.read()


def words(markdown):
    return set(re.findall(r"[\w]+", " ".join(re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", markdown, flags=re.S)))))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    on_the_cpu = {**os.environ, "RIDGELINE_CUDA_LIBRARIES": "none"}
    for command in COMMANDS:
        done = subprocess.run([os.environ["RIDGELINE_PROGRAM"], *command.split()], cwd=folder, capture_output=True, text=True,
                              timeout=120, env=on_the_cpu)  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stderr}"
    return folder / "results"


@pytest.fixture(scope="module")
def named():
    known = set().union(*(words(text(page)) for page in PAGES))
    example = re.search(r"```json\n(.*?)```", text("records"), re.S)[1]
    return known | set(re.findall(r'"(\w+)":', example))


def header(path):
    with open(path, newline="", encoding="utf-8") as file:
        return next(csv.reader(file))


def tables(results):
    shown = {"ladder.csv", "points.csv"}  # tables as on the terminal, in words
    paths = [path for path in glob.glob(str(results / "*" / "*.csv")) if "timeline_" not in path]
    return {os.path.basename(path): header(path) for path in paths if os.path.basename(path) not in shown}


def test_every_column_is_named(results, named):
    missing = {}
    for name, columns in tables(results).items():
        for column in columns:
            plain = column
            for pattern, replacement in SAME if name == "model.csv" else []:
                plain = re.sub(pattern, replacement, plain)
            if column not in named and plain not in named:
                missing.setdefault(name, []).append(column)
    assert not missing


def test_every_column_that_is_named_is_there(results):
    found = tables(results)
    checked = set()
    page = text("records")
    for table in re.finditer(r"^\| column \| meaning \|\n\|[-|]+\|\n((?:\|.*\n)+)", page, re.M):
        files = re.findall(r"`(?:results/\w+/)?(\w+\.csv)`", page[: table.start()].rsplit("\n\n", 2)[-2])
        columns = {column for file in files for column in found[file]}
        checked |= set(files)
        for row in table[1].splitlines():
            cells = row.split(" | ")
            if "only of a GPU" not in cells[1]:
                assert set(re.findall(r"`([^`]+)`", cells[0])) - columns <= {"backward", "fwd_bwd", "full_step", "compiled"}, row
    assert {"attention.csv", "kernel.csv", "model.csv", "profile.csv", "memory.csv", "comparison.csv"} <= checked


def fields(value, path=()):
    if isinstance(value, dict):
        for key, member in value.items():
            yield key, path
            if key not in NAMED_BY_MODELS:
                yield from fields(member, (*path, key))
    elif isinstance(value, list):
        for member in value:
            yield from fields(member, path)


def test_every_field_is_named(results, named):
    missing = set()
    for path in glob.glob(str(results / "*" / "*.jsonl")):
        with open(path, encoding="utf-8") as file:
            for line in file:
                record = json.loads(line)
                missing |= {(record["study"], *path, key) for key, path in fields(record)
                            if key not in named and not key.endswith(("_is", "_are"))}  # fmt: skip
    assert not missing
