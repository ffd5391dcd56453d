#!/usr/bin/env bash
# Runs all tests, and prints the last output of those that failed once more at the end, where it is found.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
log=target/test.log
if cargo test --locked --workspace --no-fail-fast 2>&1 | tee "$log"; then
  exit
fi
printf '\n== What failed (all output: %s)\n' "$log"
# libtest prints each output under "---- NAME stdout ----", between two lines "failures:". Frames of
# backtraces, of which one can have a hundred lines, are left out.
awk '
  function print_last(  line) {
    for (line = count > 25 ? count - 24 : 1; line <= count; line++) print lines[line]
    count = 0
  }
  /^---- .* stdout ----$/ { print_last(); within = 1; print; next }
  /^failures:$/ { print_last(); within = 0 }
  /^[Ss]tack backtrace:$/ { is_frame = 1; next }
  is_frame && /^ +([0-9]+:|at) / { next }
  { is_frame = 0 }
  within { lines[++count] = substr($0, 1, 500) }
  END { print_last() }
' "$log"
exit 1
