"""Studies as functions: keywords to flags, records to rows, and errors with the program's own text."""

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import ridgeline
from ridgeline import _program, laboratory
from ridgeline._records import Records, flat, rows_of

PYTHON = os.path.join(os.path.dirname(__file__), "..", "..", "python")
TINY = {"device": "cpu", "threads": 1, "batch_size": 1, "d_model": 16, "num_warmup": 1, "num_iterations": 6}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_study_is_a_command_of_the_program_and_in_the_package():
    commands = _program.facts()["commands"]
    for name, (command, _) in laboratory.STUDIES.items():
        assert command in commands, name
        assert getattr(ridgeline, name).__doc__.startswith(f"`ridgeline {command}`")
        flags = laboratory.flags(name)
        assert "json" in flags and "results_dir" in flags, f"{name} has no --json"


def test_every_command_that_writes_records_is_a_study():
    commands = _program.facts()["commands"]
    write = {name for name, command in commands.items() if any("--json" in option["names"] for option in command["options"])}
    assert write == {command for command, _ in laboratory.STUDIES.values()}
    docs = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
    listed = docs[docs.index("Every study is a function:") :].split(". ")[0]
    assert [name for name in laboratory.STUDIES if f"`{name}`" not in listed] == []


def test_attention_rows_are_flat_and_say_what_the_records_say(folder):
    rows = ridgeline.attention_study(impl=["naive", "flash"], seq_len=(32, 64), **TINY)
    assert [(row["implementation"], row["seq_len"]) for row in rows] == [
        ("naive", 32), ("flash", 32), ("naive", 64), ("flash", 64)]  # fmt: skip
    lines = [json.loads(line) for line in (folder / "results/attention/attention.jsonl").read_text().splitlines()]
    assert rows.raw == lines
    for row, record in zip(rows, lines):
        assert row["status"] == "ok" and row["forward_count"] == 6
        assert row["forward_median_ms"] == record["series"]["forward"]["statistics"]["median_ms"]
        assert row["peak_bytes"] == record["memory"]["peak_bytes"]
        assert row["forward_flops"] == record["cost"]["forward"]["flops"]
        assert 0 < row["error_over_tolerance"] < 1
        assert all(value is None or isinstance(value, (str, int, float, bool)) for value in row.values())
    assert any("naive" in note for note in rows.notes)
    assert "seq-len=32,64" in rows.command and rows.exit_code == 0


def test_rows_become_a_frame_of_pandas():
    pandas = pytest.importorskip("pandas")
    rows = ridgeline.cost("gemm", shape="256,256,256", dtype=["fp32", "bf16"], gpu=["A100", "H100"])
    frame = rows.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 4
    assert set(frame["ceilings"]) == {"A100 SXM 80 GB", "H100 SXM"}
    assert (frame["forward_macs"] == 256**3).all() and (frame["least_ms"] > 0).all()


def test_out_of_memory_is_a_row_and_no_exception():
    rows = ridgeline.attention_study(impl="naive", seq_len=4096, **TINY, memory_budget="1MiB")
    assert rows[0]["status"] == "oom" and "budget" in rows[0]["error"]
    assert "forward_median_ms" not in rows[0]


def test_where_there_are_no_records_the_text_is_the_answer(folder):
    account = ridgeline.memory(seq_len=64, d_model=16, batch_size=1, device="cpu")
    assert not account and "The worst moment" in account.text
    assert len(ridgeline.memory(model_config="270m", context_length=64, device="cpu")) == 1
    planned = ridgeline.attention_study(seq_len=32, dry_run=True, **TINY)
    assert not planned and "32" in planned.text and not (folder / "results/attention/attention.jsonl").exists()
    assert "naive" in ridgeline.attention_study(list=True).text


def test_a_file_of_records_that_was_asked_for_is_read(folder):
    rows = ridgeline.attention_study(impl="flash", seq_len=32, **TINY, json="mine.json")
    assert json.loads((folder / "mine.json").read_text()) == rows.raw and len(rows) == 1
    assert len(ridgeline.attention_study(impl="flash", seq_len=[16, 32], **TINY, json="mine.json")) == 2


def test_a_file_of_an_earlier_run_is_not_read(folder):
    ridgeline.attention_study(impl="flash", seq_len=32, **TINY, json="mine.json")
    for without_rows in ({"dry_run": True}, {"list": True}):
        planned = ridgeline.attention_study(impl="flash", seq_len=32, **TINY, json="mine.json", **without_rows)
        assert not planned and not planned.raw and planned.text


def test_a_profile_has_a_row_for_each_fold():
    rows = ridgeline.profile(attention=True, seq_len=32, d_model=16, batch_size=1, device="cpu", threads=1, impl="vanilla",
                             schedule="wait=0,warmup=1,active=2")  # fmt: skip
    kinds = {row["by"] for row in rows}
    assert {"phase", "category", "kernel"} <= kinds
    shares = sum(row["share"] for row in rows if row["by"] == "category")
    assert shares == pytest.approx(1, abs=1e-6)
    assert all(row["seq_len"] == 32 for row in rows)


@pytest.mark.parametrize(
    "study, keywords, column",
    [
        ("kernel", {"shape": "1,1,16,16", "dtype": "fp32", "mode": "hot", "num_warmup": 1, "num_iterations": 6}, "forward_median_ms"),
        ("gemm", {"size": 16, "impl": "naive", "num_warmup": 1, "num_iterations": 6}, "forward_gflops_per_s"),
        ("precision", {"part": "accumulate"}, "total_error"),
        ("comm", {"backend": "threads", "ranks": 2, "size": "1KB", "num_iterations": 6}, "slowest_rank_busbw_gb_per_s"),
        ("ddp", {"strategy": "naive", "backend": "threads", "ranks": 2, "d_model": 16, "d_ff": 32, "layers": 1, "heads": 2,
                 "vocabulary": 32, "context_length": 8, "batch_size": 2, "warmup_steps": 1, "measure_steps": 6}, "step_median_ms"),
        ("roofline", {"gpu": "H100", "dtype": "bf16"}, "ridge"),
        ("model", {"d_model": 16, "d_ff": 32, "layers": 1, "heads": 2, "vocabulary": 32, "context_length": 8, "batch_size": 1,
                   "impl": "vanilla", "warmup_steps": 1, "measure_steps": 6}, "full_step_median_ms"),
    ],
)  # fmt: skip
def test_other_studies_have_rows_by_the_same_mechanism(study, keywords, column):
    rows = getattr(ridgeline, study)(device="cpu", threads=2, **keywords)
    assert rows and all(row["status"] == "ok" for row in rows), rows.text
    assert all(row[column] is not None for row in rows)


def test_ctrl_c_ends_the_program_too(folder, monkeypatch):
    slow = folder / "slow"
    slow.write_text(f"#!/bin/sh\n[ $1 = facts ] && exec {os.environ['RIDGELINE_PROGRAM']} facts\n"
                    "echo $$ > pid\nexec sleep 60\n")  # fmt: skip
    slow.chmod(0o755)
    monkeypatch.setenv("RIDGELINE_PROGRAM", str(slow))
    _program.facts()

    def interrupt():
        while not (folder / "pid").exists() or not (folder / "pid").read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        ridgeline.kernel()
    thread.join()
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), 0)


@pytest.mark.parametrize("progress", [False, True])
def test_a_terminals_ctrl_c_ends_a_sweep_with_the_rows_that_it_has(folder, progress):
    code = ("import ridgeline\n"  # the last row needs a second before it can end: longer than Python waits for a child
            "try: ridgeline.attention_study(impl='naive', seq_len=[32, 48, 2560], num_iterations=50, num_warmup=1, d_model=64,\n"
            f"    batch_size=1, device='cpu', threads=1, progress={progress})\n"
            "except KeyboardInterrupt: print('interrupted')\n")  # fmt: skip
    session = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": PYTHON}, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
    found = folder / "results/attention/attention.jsonl"
    give_up = time.monotonic() + 30
    while not (found.exists() and found.read_text().count("\n") >= 2) and time.monotonic() < give_up:
        time.sleep(0.01)
    time.sleep(0.1)
    os.killpg(session.pid, signal.SIGINT)  # a terminal's Ctrl-C is for all processes of its group
    out, err = session.communicate(timeout=30)
    assert session.returncode == 0 and out == "interrupted\n", err
    lines = [json.loads(line) for line in found.read_text().splitlines()]
    assert [line["workload"]["seq_len"] for line in lines] == [32, 48]
    assert all(len(line["series"]["forward"]["samples_ms"]) == 50 for line in lines)
    table = (folder / "results/attention/attention.csv").read_text().splitlines()  # is written at the end
    assert len(table) == 1 + len(lines)
    assert ("interrupted after 2 of 3 rows" in err) == progress


def test_a_program_that_does_not_end_by_ctrl_c_is_killed_with_its_children(folder, monkeypatch):
    stubborn = folder / "stubborn"
    stubborn.write_text("#!/bin/sh\ntrap '' INT\n(sleep 60) &\necho $! > pid\nhead -c 300000 /dev/zero\nwait\n")
    stubborn.chmod(0o755)
    monkeypatch.setenv("RIDGELINE_PROGRAM", str(stubborn))
    monkeypatch.setattr(_program, "_WAIT_AFTER_INTERRUPT_S", 0.2)

    def interrupt():
        while not (folder / "pid").exists() or not (folder / "pid").read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        _program.run(["kernel"])
    thread.join()
    child = Path("/proc") / (folder / "pid").read_text().strip() / "stat"
    give_up = time.monotonic() + 5
    while time.monotonic() < give_up and child.exists() and child.read_text().split()[2] != "Z":
        time.sleep(0.01)
    assert not child.exists() or child.read_text().split()[2] == "Z"


def test_compare_gives_verdicts(folder):
    for name in ("before", "after"):
        ridgeline.attention_study(impl="flash", seq_len=32, **TINY, output=f"{name}.jsonl")
    rows = ridgeline.compare("before.jsonl", folder / "after.jsonl")
    assert {row["phase"] for row in rows} == {"forward", "backward"}
    assert all(row["verdict"] in ("SAME", "FASTER", "SLOWER", "UNCLEAR") for row in rows)
    assert all(isinstance(row["speedup"], float) for row in rows)
    turns = ridgeline.compare(interleave=True, impl=["naive", "flash"], rounds=6, results_dir="turns",
                              of=("attention", {"seq_len": 32, **TINY}))  # fmt: skip
    assert len(turns) == 2 and "naive" in turns[0]["implementation"] and turns[0]["pairing"] == "interleaved"


@pytest.mark.parametrize(
    "keywords, words",
    [
        ({"seq_len": [256, 1024], "d_model": 64}, ["--seq-len=256,1024", "--d-model=64"]),
        ({"seq_len": range(1, 3), "dry_run": True, "list": False, "json": None}, ["--seq-len=1,2", "--dry-run"]),
        ({"time_budget": "2s", "seed": 7}, ["--time-budget=2s", "--seed=7"]),
        ({"impl": ("naive", "flash")}, ["--impl=naive,flash"]),
        ({"seq_len": 1234567.0, "seed": 0.12345678}, ["--seq-len=1234567", "--seed=0.12345678"]),
        ({"seq_len": np.array([1, 2]), "d_model": np.float64(0.1)}, ["--seq-len=1,2", "--d-model=0.1"]),
        ({"seq_len": [np.int64(3), np.float64(0.3)], "seed": np.int32(4)}, ["--seq-len=3,0.3", "--seed=4"]),
    ],
)
def test_keywords_become_flags_by_one_rule(keywords, words):
    assert _program.words_of("attention", (), keywords) == ["attention", *words]


def test_lists_of_lists_repeat_their_flag():
    shapes = [(1, 2, 3), "4,5,6"]
    assert _program.words_of("cost", ["gemm"], {"shape": shapes}) == ["cost", "gemm", "--shape=1,2,3", "--shape=4,5,6"]
    assert [row["m"] for row in ridgeline.cost("gemm", shape=shapes, gpu="A100", dtype="bf16")] == [1, 4]


@pytest.mark.parametrize(
    "call, kind, part",
    [
        (lambda: ridgeline.attention_study(seq_lenn=3), ValueError, "did you mean seq_len?"),
        (lambda: ridgeline.attention_study(zzz=False), ValueError, "attention has no zzz: it has "),
        (lambda: ridgeline.attention_study(seq_len=-3), ValueError, "-3 is not a size"),
        (lambda: ridgeline.attention_study(seq_len=[]), ValueError, "empty list"),
        (lambda: ridgeline.attention_study(seq_len=True), TypeError, "seq_len is True: expected a value"),
        (lambda: ridgeline.attention_study(dry_run=3), TypeError, "dry_run is 3: expected True or False"),
        (lambda: ridgeline.attention_study(seq_len=object()), TypeError, "expected a text or a number"),
        (lambda: ridgeline.attention_study(seq_len=[{}]), TypeError, "expected a text or a number"),
        (lambda: ridgeline.attention_study(seq_len=[[[]]]), ValueError, "empty list"),
        (lambda: ridgeline.attention_study(dtype="a\0b"), TypeError, "expected a text or a number"),
        (lambda: ridgeline.attention_study(impl="--help"), ValueError, "--help"),
        (lambda: ridgeline.cost("gem"), ValueError, "gem"),
        (lambda: ridgeline.compare("missing.jsonl", "too.jsonl"), ridgeline.Error, "missing.jsonl"),
        (lambda: laboratory.flags("attentoin"), ValueError, "'attentoin' is no study: expected one of attention"),
        (lambda: ridgeline.verify(print, arrays="numpy", benchmark=(1, 16, 16)), ValueError, "expected (batch, heads"),
    ],
)
def test_bad_input_is_an_exception_with_a_text(call, kind, part):
    with pytest.raises(kind, match=re.escape(part)) as caught:
        call()
    assert isinstance(caught.value, ridgeline.Error)


def test_random_keywords_become_words_or_an_error_of_ours():
    chance = random.Random(3)
    names = [*laboratory.flags("attention_study"), "zzz", "", "--help", "seq-len", "self"]
    values = [None, True, False, 0, -1, 2**80, 1.5, math.nan, math.inf, "", " ", "--x", "a,b", "\n", "\0", b"x", object(), [], [[]],
              [1, 2], (None,), [True], {}, {1: 2}, {3}, range(3), lambda: 1, Exception, Path("x"), [Path("y"), "z"]]  # fmt: skip
    kept = 0
    for _ in range(5000):
        keywords = {chance.choice(names): chance.choice(values) for _ in range(chance.randrange(4))}
        try:
            words = _program.words_of("attention", [chance.choice(values)] * chance.randrange(2), keywords)
        except ridgeline.Error:
            continue
        kept += 1
        assert all(isinstance(word, str) and "\0" not in word for word in words), keywords
    assert kept > 500


@pytest.mark.parametrize("value", ["", " ", "--x", "nan", "\n", "a,b", "9" * 400, "\u00e4\u20ac"])
def test_odd_texts_reach_the_program_and_come_back_as_an_error(value):
    for name in ("seq_len", "impl", "dtype", "device", "memory_budget"):
        with pytest.raises(ridgeline.Error):
            ridgeline.attention_study(**{**TINY, "impl": "flash", "seq_len": 16, name: value})


def test_a_program_that_is_missing_or_fails_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("RIDGELINE_PROGRAM", "/nowhere/ridgeline")
    with pytest.raises(ridgeline.DeviceError, match="/nowhere/ridgeline.*RIDGELINE_PROGRAM"):
        ridgeline.kernel()
    dying = tmp_path / "dying"
    dying.write_text("#!/bin/sh\nkill -9 $$\n")
    dying.chmod(0o755)
    monkeypatch.setenv("RIDGELINE_PROGRAM", str(dying))
    with pytest.raises(ridgeline.DeviceError, match="signal 9"):
        ridgeline.kernel()


def test_wrong_rows_are_returned_with_a_warning(monkeypatch, tmp_path):
    real = _program.run

    def with_a_wrong_row(words, progress=False):
        done = real(words, progress)
        if words[0] != "attention":
            return done
        path = next(word for word in words if word.startswith("--json="))[len("--json=") :]
        with open(path) as file:
            records = json.load(file)
        records[0].update(status="wrong", error="output is off")
        with open(path, "w") as file:
            json.dump(records, file)
        return _program.Done(_program.WRONG_RESULT, done.out, done.err)

    monkeypatch.setattr(_program, "run", with_a_wrong_row)
    with pytest.warns(UserWarning, match="naive: output is off"):
        rows = ridgeline.attention_study(impl="naive", seq_len=32, **TINY)
    assert rows.exit_code == 3 and rows[0]["status"] == "wrong"


def test_threads_and_a_forked_process_run_studies_at_once(folder):
    found, failed = {}, []

    def work(i):
        try:
            found[i] = ridgeline.attention_study(impl="flash", seq_len=32 + i, **TINY, results_dir=f"r{i}")
        except Exception as problem:
            failed.append(problem)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    child = os.fork()
    if child == 0:
        rows = ridgeline.attention_study(impl="flash", seq_len=40, **TINY, results_dir="forked")
        os._exit(0 if rows[0]["status"] == "ok" else 1)
    assert os.waitpid(child, 0)[1] == 0
    for thread in threads:
        thread.join()
    assert not failed and [found[i][0]["seq_len"] for i in range(3)] == [32, 33, 34]


def test_studies_need_neither_numpy_nor_torch_nor_pandas(folder):
    code = ("import sys\n"
            "for name in ('numpy', 'torch', 'pandas', 'matplotlib'): sys.modules[name] = None\n"
            "import ridgeline\n"
            "from ridgeline.lab import *\n"
            "rows = ridgeline.cost('gemm', shape='8,8,8', gpu='A100')\n"
            "print(rows[0]['forward_macs'], ridgeline.measure(lambda: sum(range(100)), iterations=7).count)\n"
            "print(round(get_ridge_point('A100')))\n"
            "for call in (rows.to_pandas, lambda: plot_roofline('A100', 1, 1), lambda: benchmark_memory(int),\n"
            "             lambda: create_prefill_inputs(1, 2, 3), lambda: ridgeline.verify(max, arrays='torch')):\n"
            "    try: call()\n"
            "    except ridgeline.Unsupported as problem: print(problem)\n")  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": PYTHON}, capture_output=True,
                          text=True, timeout=60)  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["512 7", "153"]
    assert [word for line, word in zip(lines[2:], ("pandas", "matplotlib", "torch", "PyTorch", "PyTorch")) if word in line] == [
        "pandas", "matplotlib", "torch", "PyTorch", "PyTorch"], lines  # fmt: skip


def test_names_that_are_taken_get_a_prefix_and_lists_stay_in_the_record():
    record = {"study": "own", "implementation": "x", "device": "cpu", "status": "ok", "error": "",
              "workload": {"n": 1, "device": "gpu"}, "settings": {"n": 2}, "series": {}, "metrics": {"a": {"b": [1], "c": 3}}}  # fmt: skip
    assert flat(record) == {"study": "own", "implementation": "x", "device": "cpu", "status": "ok", "error": "", "n": 1,
                            "workload_device": "gpu", "settings_n": 2, "a_c": 3}  # fmt: skip
    folds = {**record, "metrics": {"folds": {"kernel": [{"key": "k", "share": 0.5}], "phase": []}}}
    assert [(row["by"], row["key"], row["n"]) for row in rows_of(folds)] == [("kernel", "k", 1)]
    assert Records([{"a": 1}]).notes == []
