#!/usr/bin/env bash
# `./lab test` gets the browser that tests look at reports with and the packages of Python's tests, whatever was built
# before, and runs without them, too.
# check_lab.sh LAB: in a folder of its own, where programs that install and build only say what they were asked.
set -euo pipefail
lab=$1
grep -qs '^ID=debian' /etc/os-release || exit 0  # elsewhere lab does not ask for it
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$lab" "$folder/lab"
mkdir -p "$folder/bin" "$folder/build/release" "$folder/src" "$folder/tests"
touch "$folder/build/release/build.ninja" "$folder/CMakeLists.txt"  # configured before
for program in apt-get cmake ctest sudo; do
  printf '#!/bin/sh\necho %s "$@" >>"%s/asked"\n' "$program" "$folder" >"$folder/bin/$program"
done
# Everything but the browser and PyTorch is installed.
printf '#!/bin/sh\nfor last; do :; done\n[ "$last" = chromium ] || [ "$last" = python3-torch ] || [ "$last" = "$MISSING" ] || echo installed\n' >"$folder/bin/dpkg-query"
chmod +x "$folder"/bin/*

asked_by() {
  rm -f "$folder/asked"
  env PATH="$folder/bin:$PATH" "$@" "$folder/lab" test >"$folder/said" 2>&1 || { cat "$folder/said"; exit 1; }
}
expect() {
  grep -q "$1" "$folder/asked" || { echo "not asked: $1"; cat "$folder/asked" "$folder/said"; exit 1; }
}
asked_by env
expect 'apt-get install .*chromium'
expect 'apt-get install .*python3-torch'
expect 'ctest --test-dir'
asked_by env LAB_NO_INSTALL=1
expect 'ctest --test-dir'
if grep -q apt-get "$folder/asked"; then echo "LAB_NO_INSTALL installs"; exit 1; fi
# A newer launcher may need a package that the build folder was configured without.
printf '#!/bin/sh\n' >"$folder/build/release/ridgeline"
chmod +x "$folder/build/release/ridgeline"
touch -d '1 hour ago' "$folder/build/release/build.ninja"
rm "$folder/asked"
PATH="$folder/bin:$PATH" MISSING=zlib1g-dev "$folder/lab" doctor 2>/dev/null
expect 'apt-get install .*zlib1g-dev'
rm "$folder/asked"
PATH="$folder/bin:$PATH" MISSING=zlib1g-dev "$folder/lab" doctor 2>/dev/null
if grep -q apt-get "$folder/asked"; then echo "packages are looked for in every call"; exit 1; fi
