"""The program that the wheel carries: where it is, which flags it has, and one run of it."""

import difflib
import functools
import json
import os
import signal
import subprocess

from .errors import DeviceError, InvalidArgument, WrongType

_WAIT_AFTER_INTERRUPT_S = 10
OK, GATE_FAILED, BAD_USAGE, WRONG_RESULT, NOT_JUDGED, INTERRUPTED = 0, 1, 2, 3, 5, 130
ANSWERS = (OK, GATE_FAILED, WRONG_RESULT, NOT_JUDGED)  # exit codes of a program that did its work


def path():
    """RIDGELINE_PROGRAM, or the program that the wheel brought."""
    named = os.environ.get("RIDGELINE_PROGRAM")
    return named if named else os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "ridgeline")


def missing(program):
    return (
        f"there is no program {program}. Install the wheel, or let RIDGELINE_PROGRAM name it (build/release/ridgeline in a "
        "checkout)"
    )


class Done:
    """What a run left: exit code, stdout, and stderr where it was not shown."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


def run(words, progress=False):
    """Runs the program with these words and waits. Raises what a user has to mend: InvalidArgument for bad usage,
    DeviceError where the device, the environment or the program fails. With `progress`, stderr goes to the terminal."""
    program = path()
    if not os.access(program, os.X_OK):
        raise DeviceError(missing(program))
    child = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=None if progress else subprocess.PIPE, text=True, errors="replace")  # fmt: skip
    try:
        out, err = child.communicate()
    except BaseException:  # Ctrl-C of a notebook reaches Python alone; a sweep ends after the iteration under way
        child.send_signal(signal.SIGINT)
        try:
            child.wait(_WAIT_AFTER_INTERRUPT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        raise
    if child.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    done = Done(child.returncode, out, err or "")
    if done.code not in ANSWERS:
        raise _failure(done, words)
    return done


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
    """What the program knows: commands with their flags, data sheets of GPUs, sizes of models."""
    return _facts(path())


def words_of(command, positionals, keywords):
    """The words of a call: seq_len=[256, 1024] becomes --seq-len=256,1024, shape=[(1, 2, 3), (4, 5, 6)] --shape=1,2,3
    --shape=4,5,6, dry_run=True --dry-run; None and False leave a flag out. Keywords that are no flag are refused."""
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
    value = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(value, (list, tuple, range)):
        return [f"{flag}={_text(name, 'value', value)}"]
    if not value:
        raise InvalidArgument(f"{name} is an empty list: name at least one value")
    if any(isinstance(x, (list, tuple)) or "," in str(x) for x in value):  # shape=[(1, 2, 3), (4, 5, 6)]: each for itself
        return [word for x in value for word in _words_of_flag(name, x, option)]
    return [f"{flag}={','.join(_text(name, 'value', x) for x in value)}"]


def _text(name, what, value):
    if isinstance(value, bool) or not isinstance(value, (str, int, float, os.PathLike)) or "\0" in str(value):
        raise WrongType(f"{what} {value!r} of {name}: expected a text or a number")
    return os.fspath(value) if isinstance(value, os.PathLike) else f"{value:g}" if isinstance(value, float) else str(value)
