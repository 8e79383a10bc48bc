"""The memory of this process as the operating system counts it: its peak growth on a CPU, and a limit."""
import ctypes
import resource

LIBRARY_NEEDS = 256 << 20  # for stacks and a library's own data


def status_bytes(field):
    """Returns a field of /proc/self/status in bytes, or None if the system has no such field."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(field + ":"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return None


def limit_memory(budget):
    """Limits the process, so that a tensor beyond the budget raises an error instead of exhausting the machine."""
    taken = status_bytes("VmData")
    if taken is not None:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = taken + budget + LIBRARY_NEEDS
        resource.setrlimit(resource.RLIMIT_DATA,
                           (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def give_back_free_memory():
    """Releases memory that the allocator keeps from earlier runs, as it would hide the growth of this one."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        pass


class Growth:
    """Growth of the resident size of this process from now to its peak, plus `held` bytes of existing inputs."""

    def __init__(self, held=0):
        give_back_free_memory()
        self.held = held
        self.earlier_peak = None
        try:
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")  # resets the peak
        except OSError:
            self.earlier_peak = status_bytes("VmHWM")
        self.before = status_bytes("VmRSS")

    def facts(self):
        """Returns the field of an answer; empty if the system does not report it or an earlier peak hides it."""
        peak = status_bytes("VmHWM")
        if self.before is None or peak is None or peak == self.earlier_peak:
            return {}
        return {"process_peak_growth_bytes": max(0, peak - self.before) + self.held}
