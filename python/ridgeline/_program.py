"""The program in the wheel: its path, its flags, and how to run it."""

import contextlib
import difflib
import functools
import json
import os
import signal
import subprocess

from .errors import DeviceError, InvalidArgument, WrongType

_WAIT_AFTER_INTERRUPT_S = 30
OK, GATE_FAILED, BAD_USAGE, WRONG_RESULT, NOT_JUDGED, INTERRUPTED = 0, 1, 2, 3, 5, 130
ANSWERS = (OK, GATE_FAILED, WRONG_RESULT, NOT_JUDGED)  # exit codes of a completed run


def path():
    """Returns RIDGELINE_PROGRAM, or the path of the program in the wheel."""
    named = os.environ.get("RIDGELINE_PROGRAM")
    return named if named else os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "ridgeline")


def missing(program):
    return (
        f"there is no program {program}. Install the wheel, or let RIDGELINE_PROGRAM name it (build/release/ridgeline in a "
        "checkout)"
    )


class Done:
    """The result of a run: exit code, stdout, and stderr unless it was shown."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


def run(words, progress=False):
    """Runs the program with these arguments and waits. Raises InvalidArgument for bad usage, and DeviceError if the
    device, the environment or the program fails. With `progress`, stderr goes to the terminal."""
    program = path()
    if not os.access(program, os.X_OK):
        raise DeviceError(missing(program))
    child = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=None if progress else subprocess.PIPE, text=True, errors="replace",
                             start_new_session=True)  # fmt: skip
    try:
        out, err = child.communicate()
    except BaseException:
        _end(child)
        raise
    if child.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    done = Done(child.returncode, out, err or "")
    if done.code not in ANSWERS:
        raise _failure(done, words)
    return done


def _end(child):
    """Interrupts the program, which writes its results after the current iteration. Sends SIGINT once, because a second
    one ends it immediately; a terminal's Ctrl-C does not reach its session."""
    child.send_signal(signal.SIGINT)
    try:
        child.communicate(timeout=_WAIT_AFTER_INTERRUPT_S)
    except BaseException:  # timeout, or a second Ctrl-C
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _failure(done, words):
    text = done.err.strip() or f"what went wrong was shown above: ridgeline {' '.join(words)}"
    text = text[len("ridgeline: ") :] if text.startswith("ridgeline: ") else text
    if done.code == BAD_USAGE:
        return InvalidArgument(text)
    return DeviceError(text if done.code > 0 else f"the program ended by signal {-done.code}: {text}")


@functools.lru_cache(maxsize=4)
def _facts(program):
    return json.loads(run(["facts"]).out)


def facts():
    """Returns the program's tables: commands with their flags, data sheets of GPUs, sizes of models."""
    return _facts(path())


def words_of(command, positionals, keywords):
    """Returns the arguments of a call: seq_len=[256, 1024] becomes --seq-len=256,1024, shape=[(1, 2, 3), (4, 5, 6)]
    --shape=1,2,3 --shape=4,5,6, dry_run=True --dry-run; None and False omit a flag. Unknown keywords are rejected."""
    options = facts()["commands"][command]["options"]
    flags = {name.lstrip("-").replace("-", "_"): option for option in options for name in option["names"]
             if name.startswith("--")}  # fmt: skip
    words = [command, *(_text(command, "argument", value) for value in positionals)]
    for name, value in keywords.items():
        option = flags.get(name)
        if option is None:
            near = difflib.get_close_matches(name, flags, 1, 0.6)
            meant = f"did you mean {near[0]}?" if near else "it has " + ", ".join(sorted(set(flags) - {"help"}))
            raise InvalidArgument(f"{command} has no {name}: {meant}")
        words += _words_of_flag(name, value, option)
    return words


def _words_of_flag(name, value, option):
    flag = "--" + name.replace("_", "-")
    if value is None or value is False:
        return []
    if not option["takes_value"]:
        if value is not True:
            raise WrongType(f"{name} is {value!r}: expected True or False")
        return [flag]
    if value is True:
        raise WrongType(f"{name} is True: expected a value ({option['description']})")
    value = _plain(value)
    if not isinstance(value, (list, tuple, range)):
        return [f"{flag}={_text(name, 'value', value)}"]
    if not value:
        raise InvalidArgument(f"{name} is an empty list: name at least one value")
    value = [_plain(x) for x in value]
    if any(isinstance(x, (list, tuple)) or "," in str(x) for x in value):  # shape=[(1, 2, 3), (4, 5, 6)]: one flag each
        return [word for x in value for word in _words_of_flag(name, x, option)]
    return [f"{flag}={','.join(_text(name, 'value', x) for x in value)}"]


def _plain(value):
    """Returns arrays and scalars of numpy and PyTorch as lists and numbers."""
    return value.tolist() if hasattr(value, "tolist") else value


def _text(name, what, value):
    value = _plain(value)
    if isinstance(value, bool) or not isinstance(value, (str, int, float, os.PathLike)) or "\0" in str(value):
        raise WrongType(f"{what} {value!r} of {name}: expected a text or a number")
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
