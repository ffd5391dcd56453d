#!/usr/bin/env bash
# Prints how long building, clippy and each test binary take, and the slowest tests.
# Arguments: packages; without any, the whole workspace. Building starts from the current target folder.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
packages=(--workspace)
if [ $# -gt 0 ]; then
  packages=()
  for package in "$@"; do packages+=(--package "$package"); done
fi
logs=target/test-times
rm -rf "$logs"
mkdir -p "$logs"
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-5} PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1}

rows=()
failed=0
seconds() { # since a time in nanoseconds
  local now
  now=$(date +%s%N)
  printf '%d.%d' $(((now - $1) / 1000000000)) $(((now - $1) / 100000000 % 10))
}
timed() { # name, log, command...
  local name=$1 log=$logs/$2 start result=ok
  shift 2
  start=$(date +%s%N)
  "$@" >"$log" 2>&1 || { result=FAILED failed=1; }
  rows+=("$(printf '%9s s  %-6s %s' "$(seconds "$start")" "$result" "$name")")
  printf '%s\n' "${rows[-1]}"
}

timed 'build' build.log cargo build --locked "${packages[@]}" --bins --tests --examples
timed 'clippy' clippy.log cargo clippy --locked "${packages[@]}" --all-targets -- -D warnings

# Folder of the package, kind and name of the target, and path of the binary, of everything with tests.
cargo test --locked "${packages[@]}" --no-run --message-format=json 2>"$logs/list.log" |
  sed -nE 's/.*"package_id":"path\+file:\/\/([^"#]+)#[^"]*".*"kind":\["([a-z]+)".*"name":"([^"]+)","src_path".*"overflow_checks":[a-z]+,"test":true.*"executable":"([^"]+)".*/\1 \2 \3 \4/p' |
  sort -u >"$logs/binaries"
# libtest reports times to nightly toolchains only, or where this variable is set; it must not be set for
# cargo, which would build everything again.
while read -r folder kind target binary; do
  crate=$(basename "$folder")
  timed "$crate: $kind $target" "$crate $kind $target.test" env -C "$folder" CARGO_MANIFEST_DIR="$folder" RUSTC_BOOTSTRAP=1 \
    "$binary" -Z unstable-options --report-time
done <"$logs/binaries"
timed 'documentation tests' doc.log cargo test --locked "${packages[@]}" --doc

printf '\nseconds of each step, the longest first:\n'
printf '%s\n' "${rows[@]}" | sort -rn
printf '\nslowest tests:\n'
for log in "$logs"/*.test; do
  crate=$(basename "$log" .test)
  sed -nE "s/^test (.*) \.\.\. ([a-zA-Z]+) <([0-9.]+)s>\$/\3 \2 ${crate%% *}: \1/p" "$log"
done | sort -rn | head -20 | awk '{printf "%9.1f s  %-6s %s %s\n", $1, $2, $3, $4}'
if [ $failed -ne 0 ]; then
  printf '\nsome steps failed; their output is in %s\n' "$logs"
  exit 1
fi
