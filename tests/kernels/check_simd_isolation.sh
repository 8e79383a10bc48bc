#!/bin/sh
# Fails if an object file of src/kernels/cpu/simd defines a function that the linker may merge with one of another
# instruction set: the portable path could then run AVX-512 code.
status=0
for object in "$@"; do
  merged=$(nm -C --defined-only "$object" | grep ' [WVu] ')
  if [ -n "$merged" ]; then
    echo "$object defines mergeable symbols:"
    echo "$merged"
    status=1
  fi
done
exit $status
