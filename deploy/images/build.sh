#!/usr/bin/env bash
# An OCI image per program in target/images, without a daemon: the static program alone, run by user
# 65532. The same commit has the same digests. Needs musl-gcc (Debian: musl-tools) and Go.
# PROFILE=release builds faster, larger programs; VERSION is the tag.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
programs=(recommender updater webhook adapter extender plimsoll)
profile=${PROFILE:-dist}
machine=$(uname -m)
target=$machine-unknown-linux-musl
case $machine in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) echo "no image for $machine" >&2 && exit 1 ;;
esac
version=${VERSION:-dev}
revision=$(git rev-parse HEAD)
time=$(git log -1 --format=%ct)
output=target/images

rustup target add "$target"
# Paths of this machine do not belong into the programs.
export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="--remap-path-prefix=$PWD=/src --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS=$CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS
cargo build --locked --profile "$profile" --target "$target" \
  --config "profile.$profile.strip=\"symbols\"" "${programs[@]/#/--package=}"

rm -rf "$output"
mkdir -p "$output"
work=$(mktemp -d)
crane=$work/crane
(cd deploy/images && go build -mod=readonly -trimpath -o "$crane" github.com/google/go-containerregistry/cmd/crane)
# crane changes the configuration of an image in a registry only: one on loopback, for the time of this
# script.
"$crane" registry serve --address 127.0.0.1:0 >"$work/registry.log" 2>&1 &
registry=$!
trap 'kill $registry; rm -rf "$work"' EXIT
address=
for _ in {1..100}; do
  address=$(grep -o '127\.0\.0\.1:[0-9]*\|port [0-9]*' "$work/registry.log" | head -1 | sed 's/port /127.0.0.1:/') && [[ $address ]] && break
  sleep 0.1
done
for program in "${programs[@]}"; do
  folder=$work/$program
  mkdir "$folder"
  install -m 0755 "target/$target/$profile/$program" "$folder/"
  tar --create --file "$work/$program.tar" --directory "$folder" --sort=name --mtime="@$time" \
    --owner=65532 --group=65532 --numeric-owner "$program"
  image=$address/$program:$version
  "$crane" append --insecure --oci-empty-base \
    --new_layer "$work/$program.tar" --new_tag "$image" >/dev/null
  "$crane" mutate --insecure "$image" --tag "$image" --entrypoint "/$program" --user 65532:65532 \
    --set-platform "linux/$architecture" \
    --label "org.opencontainers.image.title=$program" \
    --label "org.opencontainers.image.version=$version" \
    --label "org.opencontainers.image.revision=$revision" \
    --label org.opencontainers.image.licenses=Apache-2.0 >/dev/null
  "$crane" pull --insecure --format=oci "$image" "$output/$program"
  echo "$program $("$crane" digest --insecure "$image") $(stat --format=%s "$folder/$program") bytes"
done
