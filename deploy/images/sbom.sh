#!/usr/bin/env bash
# An SBOM per program in target/images: PROGRAM.cdx.json, CycloneDX, with the crates that the program is
# built from at their locked versions. The same commit has the same text.
# cargo-cyclonedx is installed below target. PROGRAMS names some of the programs.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
release=0.5.9
read -ra programs <<<"${PROGRAMS:-recommender updater webhook adapter extender plimsoll}"
output=$PWD/target/images
tools=$PWD/target/tools/cyclonedx-$release
if [[ ! -x $tools/bin/cargo-cyclonedx ]]; then
  cargo install --quiet --locked --root "$tools" "cargo-cyclonedx@$release"
fi
# The files are written next to each Cargo.toml: into a copy of the commit.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git archive HEAD | tar --extract --directory "$work"
mkdir -p "$output"
# A fixed time in place of now; without it, each file also has a random serial number.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
for program in "${programs[@]}"; do
  # The crates of arm64 are among them; tests/images.sh compares both.
  "$tools/bin/cargo-cyclonedx" cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps \
    --target x86_64-unknown-linux-musl --override-filename sbom \
    --manifest-path "$work/crates/$program/Cargo.toml"
  sed "s#$work#/src#g" "$work/crates/$program/sbom.json" >"$output/$program.cdx.json"
  echo "target/images/$program.cdx.json"
done
