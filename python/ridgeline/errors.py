"""The exceptions of the package: one for each status of the C interface, and one for arguments of a wrong type."""


class Error(Exception):
    """The base of all exceptions of this package."""


class InvalidArgument(Error, ValueError):
    """A shape, stride, dtype, device or option that is not valid."""


class WrongType(Error, TypeError):
    """An argument that is not a tensor, or not a number where one is expected."""


class Unsupported(Error, NotImplementedError):
    """A valid request that the kernels do not support."""


class OutOfMemory(Error, MemoryError):
    """The host or the GPU is out of memory."""


class DeviceError(Error, RuntimeError):
    """The GPU, its driver, a library or the operating system failed."""


class InternalError(Error, RuntimeError):
    """A bug in the library."""


class NotReady(Error, RuntimeError):
    """A kernel would have to be compiled, or memory allocated, while a CUDA graph is captured."""


# rl_status -> exception.
BY_STATUS = {
    1: InvalidArgument,
    2: Unsupported,
    3: OutOfMemory,
    4: DeviceError,
    5: InternalError,
    6: NotReady,
}
