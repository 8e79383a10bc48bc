"""Random problems on the GPU, held to twice the error of plain formulas, and the GPU cases of tests/python."""

import contextlib
import sys

import torch

import ridgeline

from .harness import Row, failed

PROBLEMS = 500
SIX = ("alibi", "relative bias", "soft cap", "document mask", "window with sinks", "product of tables")


class _NoPytest:
    """Stands in for pytest if it is not installed: the tests are called here as functions."""

    def __getattr__(self, name):
        return self

    def __call__(self, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) else self

    @contextlib.contextmanager
    def raises(self, kind, match=""):
        try:
            yield
        except kind as problem:
            assert match in str(problem), problem
        else:
            raise AssertionError(f"nothing was raised, expected {kind.__name__}")


try:
    import pytest  # noqa: F401
except ImportError:
    sys.modules["pytest"] = _NoPytest()


def problems(bench, first, last):
    """Yields one row: how many of the problems of these seeds are wrong or failed."""
    from support import check_problem, random_problem

    torch.set_num_threads(1)
    wrong, worst = 0, ""
    for seed in range(first, last):
        try:
            with bench.beside_others():
                check_problem(random_problem(seed, bench.device), ridgeline.attention)
        except Exception as problem:
            wrong += 1
            worst = f"problem {seed}: {problem}"
            print(f"  {worst[:300]}", flush=True)
    yield Row("problems", str(wrong), f"{last - first}", worst)


def _course(bench):
    from test_torch_course import test_flash_attention_saves_one_log_sum_exp_and_has_gradients as course

    for is_causal in (False, True):
        course(is_causal, bench.device)


def _attention(name, *arguments):
    def run(bench):
        import test_torch_attention as cases

        getattr(cases, name)(*arguments, *([bench.device] if name == "test_gradcheck" else []))

    return run


def _compile(name):
    def run(bench):
        import test_torch_compile as cases

        getattr(cases, name)(bench.device)

    return run


def _six(name):
    def run(bench):
        import test_torch_score as cases

        for dtype in cases.DTYPES:
            cases.test_the_six_have_values_and_gradients_of_plain_formulas(name, dtype, bench.device)

    return run


def _many_heads(bench):
    import test_torch_score as cases

    for width in (80, 128):
        cases.test_masked_functions_of_many_heads_have_the_values_of_plain_formulas(width, bench.device)


GPU_TESTS = {
    "the course's attention": _course,
    "gradcheck": _attention("test_gradcheck"),
    "opcheck": _compile("test_opcheck_finds_nothing"),
    "a compiled model has the same gradients": _compile("test_a_model_is_compiled_in_one_graph_with_the_same_gradients"),
    **{f"{name} by the rule of twice the error": _six(name) for name in SIX},
    "masked functions of many heads": _many_heads,
}
ONLY_ON_A_GPU = {
    "the current stream": _attention("test_work_goes_to_the_current_stream_and_tensors_of_two_devices_are_refused"),
    "captures": _attention("test_a_captured_call_is_replayed_and_one_that_is_not_compiled_is_refused"),
}
ALONE = {"memory is PyTorch's": _attention("test_memory_is_pytorchs_own")}  # observes the memory of the whole GPU


def test(bench, name):
    try:
        with contextlib.nullcontext() if name in ALONE else bench.beside_others():
            {**GPU_TESTS, **ONLY_ON_A_GPU, **ALONE}[name](bench)
        yield Row(f"test: {name}", "passes", "", "ok")
    except Exception as problem:
        yield failed(f"test: {name}", f"{type(problem).__name__}: {problem}")
    if bench.on_gpu:
        torch.cuda.synchronize()
