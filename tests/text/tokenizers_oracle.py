"""Runs the library `tokenizers` for tests: tokenizers_oracle.py MODEL TEXTS RESULTS, files of tests/text/oracle.h."""

import struct
import sys

import tokenizers

model, texts, results = sys.argv[1:]
tokenizer = tokenizers.Tokenizer.from_file(model)
data = open(texts, "rb").read()
at = 0
with open(results, "wb") as out:
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        text = data[at + 4 : at + 4 + size].decode()
        at += 4 + size
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        decoded = tokenizer.decode(ids, skip_special_tokens=True).encode()
        out.write(struct.pack(f"<{len(ids) + 1}I", len(ids), *ids) + struct.pack("<I", len(decoded)) + decoded)
