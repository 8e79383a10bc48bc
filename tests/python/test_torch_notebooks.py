"""Every cell of the notebooks runs, in order, at a tiny size.

The cells are run here, in one namespace, and not by nbclient: a kernel and its messages would bring seventy packages and
test nothing of ours. The form of the files is checked, and that no output was committed."""

import ast
import glob
import json
import os

import pytest

pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

FOLDER = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "notebooks")
NAMES = sorted(os.path.basename(path) for path in glob.glob(os.path.join(FOLDER, "*.ipynb")))
TINY_GEMMA = {"model_type": "gemma3_text", "vocab_size": 128, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
              "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "sliding_window": 16,
              "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 128,
              "query_pre_attn_scalar": 16}  # fmt: skip
SMALL = {  # in the place of the cell that is tagged "parameters", as papermill has it
    "attention_study.ipynb": {"seq_lens": [16, 32, 64], "d_model": 16, "iterations": 6, "problems": 4, "turns": 32,
                              "rounds": 2, "device": "cpu"},
    "efficiency_lab.ipynb": {"sizes": [16, 32], "tile": 8, "repeats": 6, "gemma": "gemma.json", "prompt_lengths": [4, 8],
                             "attention_lengths": [16, 32], "gpu": "A100", "cache_state": "hot",
                             "profiled_model": {"d_model": 16, "d_ff": 32, "layers": 1, "heads": 2, "vocabulary": 32,
                                                "context_length": 8, "batch_size": 1}},
}  # fmt: skip


def cells_of(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return json.load(file)


def test_every_notebook_has_a_tiny_size():
    assert NAMES == sorted(SMALL)


@pytest.mark.parametrize("name", NAMES)
def test_files_are_notebooks_without_outputs(name):
    book = cells_of(name)
    assert book["nbformat"] == 4 and book["cells"][0]["cell_type"] == "markdown"
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_runs(name, tmp_path, monkeypatch, recwarn):
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    (tmp_path / "gemma.json").write_text(json.dumps(TINY_GEMMA))
    space = {"__name__": "__main__"}
    figures = 0
    for cell in cells_of(name)["cells"]:
        if cell["cell_type"] != "code":
            continue
        code = "".join(cell["source"])
        if "parameters" in cell["metadata"].get("tags", ()):
            given = ast.parse(code)
            assert {node.targets[0].id for node in given.body} == set(SMALL[name]), "sizes of the test and of the notebook"
            space.update(SMALL[name])
            continue
        run_cell(code, f"{name} {cell['id']}", space)
        figures += len(plt.get_fignums())
        plt.close("all")
    assert figures >= 2


def run_cell(code, name, space):
    """Runs a cell; the value of a last expression is shown, as Jupyter does, which may fail as well."""
    tree = ast.parse(code, name)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    try:
        exec(compile(tree, name, "exec"), space)
        if last is not None:
            repr(eval(compile(ast.Expression(last.value), name, "eval"), space))
    except Exception as problem:
        raise AssertionError(f"{name}: {type(problem).__name__}: {problem}\n{code}") from problem
