#!/usr/bin/env bash
# Builds plimsoll as a static program and starts it in an empty folder as its root. Prints its size
# and the median start-up time of 21 starts. Needs musl-gcc (Debian: musl-tools).
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
target=$(uname -m)-unknown-linux-musl
rustup target add "$target"
cargo build --locked --release -p plimsoll --target "$target" --config 'profile.release.strip="symbols"'
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "target/$target/release/plimsoll" "$folder/"
start() { unshare --map-root-user chroot "$folder" /plimsoll "$@"; }
start report --sample -f - >/dev/null
times=$(for _ in {1..21}; do
  begin=$(date +%s%N)
  "$folder/plimsoll" --version >/dev/null
  echo $((($(date +%s%N) - begin) / 1000))
done | sort -n)
echo "size: $(stat --format=%s "$folder/plimsoll") bytes"
echo "start-up: $(sed -n 11p <<<"$times") us"
