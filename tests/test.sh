#!/usr/bin/env bash
# Runs all tests, and prints the output of those that failed once more at the end, where it is found.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
log=target/test.log
if cargo test --locked --workspace --no-fail-fast 2>&1 | tee "$log"; then
  exit
fi
printf '\n== What failed (all output: %s)\n' "$log"
# libtest prints each output under "---- NAME stdout ----", between two lines "failures:".
awk '/^---- .* stdout ----$/ { within = 1 } /^failures:$/ { within = 0 } within' "$log"
exit 1
