"""Reads and writes safetensors files: eight bytes with the length of a JSON header, the header, the data."""

import json
import math
import os
import stat
import struct
import uuid

import torch

from ..errors import InvalidArgument

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
           "I32": torch.int32, "U8": torch.uint8, "BOOL": torch.bool}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_LONGEST_HEADER = 100 << 20


def read(path):
    """Returns ({name: tensor}, metadata) of a file."""
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 8 or not 0 < struct.unpack("<Q", data[:8])[0] <= min(len(data) - 8, _LONGEST_HEADER):
        raise InvalidArgument(f"{path} is no safetensors file: {len(data)} bytes without a header")
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    try:
        header = json.loads(data[8:begin])
        metadata = header.pop("__metadata__", {})
        if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
            raise ValueError(f"its metadata is {metadata!r}, expected texts by name")
        return {name: _tensor(facts, data, begin) for name, facts in header.items()}, metadata
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as problem:
        raise InvalidArgument(f"{path} is no safetensors file: {problem}") from None


def _tensor(facts, data, begin):
    dtype, shape, (first, last) = _DTYPES[facts["dtype"]], facts["shape"], facts["data_offsets"]
    count = math.prod(shape)
    if not 0 <= first <= last <= len(data) - begin or last - first != count * torch.empty(0, dtype=dtype).element_size():
        raise ValueError(f"{facts} does not fit {len(data) - begin} bytes of data")
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(data[begin + first : begin + last]), dtype=dtype).view(shape)


def write(path, tensors, metadata=None):
    """Writes {name: tensor} atomically: the file is complete, or unchanged."""
    header, at = {"__metadata__": {key: str(value) for key, value in (metadata or {}).items()}}, 0
    for name, x in tensors.items():
        size = x.numel() * x.element_size()
        header[name] = {"dtype": _NAMES[x.dtype], "shape": list(x.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    beside = f"{os.fspath(path)}.{uuid.uuid4().hex}"
    try:
        with open(beside, "xb") as file:  # with the permissions of the umask
            file.write(struct.pack("<Q", len(text)) + text)
            for x in tensors.values():
                file.write(memoryview(x.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()))
        if os.path.exists(path):
            os.chmod(beside, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(beside, path)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise
