"""The package in a process: imports without what it can do without, threads, forks, and the program beside it."""

import os
import subprocess
import sys
import threading

import numpy as np

import ridgeline

PYTHON = os.path.join(os.path.dirname(__file__), "..", "..", "python")


def run(code, **environment):
    return subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": PYTHON, **environment},
                          capture_output=True, text=True, timeout=60)  # fmt: skip


def test_it_imports_without_numpy_torch_and_a_gpu():
    done = run("import sys\n"
               "for name in ('numpy', 'torch', 'cupy', 'jax'): sys.modules[name] = None\n"
               "import ridgeline\n"
               "print(ridgeline.__version__)\n"
               "try: ridgeline.attention([1], [2], [3])\n"
               "except ridgeline.WrongType as problem: print(problem)", RIDGELINE_CUDA_LIBRARIES="none")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "0.1" in done.stdout and "q is builtins.list" in done.stdout


def test_importing_it_imports_neither_numpy_nor_torch():
    done = run("import ridgeline, sys; print('numpy' in sys.modules, 'torch' in sys.modules)")
    assert done.stdout.split() == ["False", "False"], done.stderr


def test_a_library_that_is_not_there_is_named():
    done = run("import ridgeline", RIDGELINE_LIBRARY="/nowhere/libridgeline.so")
    assert "/nowhere/libridgeline.so" in done.stderr and "pip install" in done.stderr


def test_versions_of_package_and_library_agree():
    with open(os.path.join(PYTHON, "..", "CMakeLists.txt")) as file:
        assert f"VERSION {ridgeline.__version__} " in file.read()


def test_doctor_ends_quietly_where_nobody_reads_on():
    with subprocess.Popen([sys.executable, "-m", "ridgeline", "doctor"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, "PYTHONPATH": PYTHON}) as run:  # fmt: skip
        run.stdout.close()
        assert run.stderr.read() == b""


def test_doctor_tells_of_python_and_runs_the_program():
    done = subprocess.run([sys.executable, "-m", "ridgeline", "doctor"], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": PYTHON, "RIDGELINE_PROGRAM": "/bin/echo"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert f"numpy      {np.__version__}" in done.stdout
    assert "CPU        attention runs" in done.stdout
    assert done.stdout.endswith("doctor\n")  # echo's
    assert subprocess.call([sys.executable, "-m", "ridgeline", "doctor"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           env={**os.environ, "PYTHONPATH": PYTHON, "RIDGELINE_PROGRAM": "/nowhere"}) == 4  # fmt: skip


def problems(count):
    generator = np.random.default_rng(1)
    return [[generator.standard_normal((1, 2, 5 + i % 3, 8)).astype("f4") for _ in range(3)] for i in range(count)]


def test_threads_that_call_at_once_get_their_own_results():
    inputs = problems(60)
    expected = [ridgeline.attention(*each) for each in inputs]
    wrong = []

    def work():
        for each, right in zip(inputs, expected):
            if not np.array_equal(ridgeline.attention(*each), right):
                wrong.append(each)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_forked_process_computes_while_the_parent_does():
    each = problems(1)[0]
    expected = ridgeline.attention(*each)
    stop = threading.Event()

    def keep_busy():  # so that a fork happens while a call is under way
        while not stop.is_set():
            ridgeline.attention(*each)

    thread = threading.Thread(target=keep_busy)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0 if np.array_equal(ridgeline.attention(*each), expected) else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()
