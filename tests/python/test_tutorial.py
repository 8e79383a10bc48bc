"""Every command and every piece of Python in docs/tutorial.md runs; long ones with a flag that makes them short."""

import os
import re
import shlex
import subprocess
import sys

import pytest

ROOT = os.path.join(os.path.dirname(__file__), "..", "..")
SHORTER = {"compare": ["--rounds", "2", "--time-budget", "0.2s"]}  # by command: what is added, before the words of the study
HAS = {  # what the page says that an answer holds
    "attention": "forward time grows as",
    "memory": "softmax_gradient of the backward pass",
    "profile": "by category, of one step",
    "cost": "least time in ms, and what bounds it",
    "compare": "verdict",
    "report": "Report: report.html",
}


def blocks(language):
    with open(os.path.join(ROOT, "docs", "tutorial.md"), encoding="utf-8") as file:
        return re.findall(rf"^```{language}\n(.*?)^```", file.read(), re.M | re.S)


COMMANDS = [shlex.split(line) for block in blocks("sh") for line in block.splitlines()]


def test_the_page_has_a_command_for_each_step():
    assert [words[1] for words in COMMANDS] == ["attention", "memory", "profile", "cost", "attention", "compare", "report"]
    assert all(words[0] == "./lab" for words in COMMANDS)


def test_every_command_runs_in_the_order_of_the_page(tmp_path):
    for _, command, *words in COMMANDS:
        at = words.index("--") if "--" in words else len(words)
        words[at:at] = SHORTER.get(command, [])
        done = subprocess.run([os.environ["RIDGELINE_PROGRAM"], command, *words], cwd=tmp_path, capture_output=True, text=True,
                              timeout=120)  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert HAS[command] in done.stdout, f"{command}: {done.stdout}"
    assert "<html" in (tmp_path / "report.html").read_text()


def test_figures_that_are_counted_and_not_measured_are_those_of_the_page(tmp_path):
    with open(os.path.join(ROOT, "docs", "tutorial.md"), encoding="utf-8") as file:
        page = file.read()
    for command, part in (("memory", "MiB   31.4 %"), ("cost", "small, context 8192")):
        words = next(words for words in COMMANDS if words[1] == command)[2:]
        done = subprocess.run([os.environ["RIDGELINE_PROGRAM"], command, *words], cwd=tmp_path, capture_output=True, text=True,
                              timeout=60, env={**os.environ, "COLUMNS": "100"})  # fmt: skip
        shown = {line for line in page.splitlines() if part in line and not line.startswith(("./lab", "["))}
        assert shown and shown <= set(done.stdout.splitlines()), shown - set(done.stdout.splitlines())


@pytest.mark.parametrize("code", blocks("python"))
def test_the_python_of_the_page_runs(code, tmp_path):
    code = code.replace("benchmark=(1, 1, 512, 64)", "problems=6, benchmark=(1, 1, 32, 16), iterations=6")
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "6 problems: all right" in done.stdout
