"""The studies of the program as functions: keywords are its flags, results are rows for pandas.

    import ridgeline

    rows = ridgeline.attention_study(impl=["naive", "flash"], seq_len=[256, 1024], d_model=64)
    rows.to_pandas().pivot(index="seq_len", columns="implementation", values="forward_median_ms")

Every flag of `ridgeline COMMAND --help` is a keyword: --seq-len 256 1024 is seq_len=[256, 1024], --dry-run is dry_run=True.
The program also writes its results below results_dir, as usual.
"""

import csv
import json
import os
import tempfile
import warnings

from . import _program
from ._records import Records, rows_of
from .errors import InvalidArgument

# function -> (command, what it answers); docs/python.md has the same list.
STUDIES = {
    "attention_study": ("attention", "time and memory of attention over a grid"),
    "kernel": ("kernel", "one attention call: hot, cold and in a launch graph, with percentiles"),
    "model": ("model", "a transformer's forward, backward and full step, vanilla against compiled"),
    "profile": ("profile", "which kernels take the time of a step; a row for each fold"),
    "roofline": ("roofline", "measured ceilings, or with gpu=... those of data sheets"),
    "gemm": ("gemm", "matrix products from three loops to the library's"),
    "memory": ("memory", "where the memory of attention or of a model goes; rows with timeline=True"),
    "cost": ("cost", "MACs, FLOPs, bytes, what bounds them and the least time on a GPU"),
    "decode": ("decode", "attention and MLP of a Gemma-3 layer, prefill against decode"),
    "generate": ("generate", "text from a Gemma-3 model: time to first token, tokens per second"),
    "precision": ("precision", "what 16 bits lose, and what mixed precision brings"),
    "comm": ("comm", "collectives over sizes, ranks and backends"),
    "ddp": ("ddp", "training on several ranks: memory, communication and step time by strategy"),
    "frontier": ("frontier", "the longest sequence that fits in memory"),
    "study": ("study", "all studies at a size that fits this machine, and a report"),
}
__all__ = [*STUDIES, "compare"]


def _has_records(command, keywords):
    """Whether the command writes records; the memory account of attention is text."""
    return command != "memory" or any(keywords.get(name) for name in ("model_size", "model_config", "timeline"))


def _run(command, positionals, keywords, progress):
    """Runs a study and reads the records that it wrote as JSON; with dry_run or list there is only `text`."""
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        words = _program.words_of(command, positionals, keywords)
        file = keywords.get("json") or os.path.join(folder, "records.json")
        adds_file = not keywords.get("json") and _has_records(command, keywords)
        before = _written(file)
        done = _program.run([*words, *([f"--json={file}"] if adds_file else [])], progress)
        raw = []
        if _written(file) != before:
            with open(file, encoding="utf-8") as text:
                raw = json.load(text)
    if done.code == _program.WRONG_RESULT:
        wrong = [f"{x['implementation']}: {x['error']}" for x in raw if x["status"] == "wrong"]
        warnings.warn(f"ridgeline {command}: wrong results. " + "; ".join(wrong[:3]), stacklevel=4)
    rows = [row for record in raw for row in rows_of(record)]
    return Records(rows, raw, done.out, "ridgeline " + " ".join(words), done.code)


def _study(name, command, answers):
    def study(*positionals, progress=False, **flags):
        return _run(command, positionals, flags, progress)

    study.__name__ = study.__qualname__ = name
    study.__doc__ = (
        f"`ridgeline {command}`: {answers}.\n\nKeywords are its flags (help(ridgeline.laboratory)), and `progress`, which "
        "shows the program's progress line and messages on a terminal. Returns Records."
    )
    return study


for _name, (_command, _answers) in STUDIES.items():
    globals()[_name] = _study(_name, _command, _answers)


def flags(study):
    """Returns the keywords of a study: {"seq_len": "sequence lengths", ...}."""
    command = STUDIES[study][0] if study in STUDIES else study
    commands = _program.facts()["commands"]
    if command not in commands:
        raise InvalidArgument(f"{study!r} is no study: expected one of {', '.join(STUDIES)}")
    options = commands[command]["options"]
    return {name[2:].replace("-", "_"): option["description"] for option in options for name in option["names"]
            if name.startswith("--")}  # fmt: skip


def compare(*files, of=None, progress=False, results_dir="results", **flags):
    """`ridgeline compare`: faster, slower, the same or unclear, row by row. Compares two files of records, or one and
    baseline=NAME, or two sides measured alternately: compare(interleave=True, impl=["naive", "flash"], of=("attention",
    {"seq_len": 1024})). Returns Records, whose exit_code is 1 if a gate failed."""
    words = _program.words_of("compare", files, {**flags, "results_dir": results_dir})
    if of is not None:
        words += ["--", *_program.words_of(of[0], (), of[1])]
    table = os.path.join(os.fspath(results_dir), "compare", "comparison.csv")
    before = _written(table)
    done = _program.run(words, progress)
    rows = []
    if _written(table) != before:
        with open(table, newline="", encoding="utf-8") as text:
            rows = [{name: _cell(name, value) for name, value in row.items()} for row in csv.DictReader(text)]
    return Records(rows, [], done.out, "ridgeline " + " ".join(words), done.code)


def _written(path):
    """Returns facts that change when the program replaces the file; None if there is none."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def _cell(name, text):
    """Returns a value of a CSV file, None if it is empty. Commits stay text, as they may look like numbers."""
    if text == "" or name.endswith("_commit"):
        return text or None
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
