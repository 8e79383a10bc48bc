"""The memory of this process as the operating system counts it: a peer's peak on a CPU, and a limit."""
import ctypes
import resource

LIBRARY_NEEDS = 256 << 20  # stacks, and what a library takes for itself


def status_bytes(field):
    """A line of /proc/self/status; None where the system has no such line."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith(field + ":"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return None


def limit_memory(budget):
    """A tensor beyond the budget is an error that can be caught, not the end of the machine."""
    taken = status_bytes("VmData")
    if taken is not None:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = taken + budget + LIBRARY_NEEDS
        resource.setrlimit(resource.RLIMIT_DATA,
                           (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def give_back_free_memory():
    """What the allocator keeps of earlier runs would hide the growth of this one."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        pass


class Growth:
    """Of the resident size of this process, from here to its peak; `held`: bytes of inputs that are there already."""

    def __init__(self, held=0):
        give_back_free_memory()
        self.held = held
        self.earlier_peak = None
        try:
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")  # the peak begins anew
        except OSError:
            self.earlier_peak = status_bytes("VmHWM")
        self.before = status_bytes("VmRSS")

    def facts(self):
        """As in answers; nothing where the system does not tell, or where an earlier peak hides this one."""
        peak = status_bytes("VmHWM")
        if self.before is None or peak is None or peak == self.earlier_peak:
            return {}
        return {"process_peak_growth_bytes": max(0, peak - self.before) + self.held}
