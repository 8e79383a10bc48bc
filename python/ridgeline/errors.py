"""The exceptions of the package: one for each status of the C interface, and one for what is no tensor."""


class Error(Exception):
    """What every exception of this package is."""


class InvalidArgument(Error, ValueError):
    """A shape, a stride, a dtype, a device or an option that does not fit."""


class WrongType(Error, TypeError):
    """An argument that is no tensor, or no number where a number is expected."""


class Unsupported(Error, NotImplementedError):
    """A valid request that the kernels do not serve."""


class OutOfMemory(Error, MemoryError):
    """The host or the GPU has no more memory."""


class DeviceError(Error, RuntimeError):
    """The GPU, its driver, a library or the operating system failed."""


class InternalError(Error, RuntimeError):
    """A bug of the library."""


class NotReady(Error, RuntimeError):
    """A kernel would have to be compiled, or memory taken, while a CUDA graph is captured."""


# rl_status -> exception.
BY_STATUS = {
    1: InvalidArgument,
    2: Unsupported,
    3: OutOfMemory,
    4: DeviceError,
    5: InternalError,
    6: NotReady,
}
