#!/usr/bin/env bash
# An OCI image per program in target/images, without a daemon: the static program alone, run by user
# 65532, and its SBOM. The same commit has the same digests. Needs Python, rustup and Go; the cross
# compiler (zig) is installed below target from deploy/images/requirements.txt.
# ARCHITECTURES="amd64 arm64" makes an index of both per program, by itself it is the image of this
# machine's architecture. PROGRAMS names some of the programs, PROFILE=release builds faster, larger
# ones, VERSION is the tag.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
read -ra programs <<<"${PROGRAMS:-recommender updater webhook adapter extender plimsoll}"
profile=${PROFILE:-dist}
folder_of_profile=${profile/#dev/debug}
case $(uname -m) in
  x86_64) own=amd64 ;;
  aarch64) own=arm64 ;;
esac
read -ra architectures <<<"${ARCHITECTURES:-${own:?no image for $(uname -m)}}"
version=${VERSION:-$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)}
revision=$(git rev-parse HEAD)
time=$(git log -1 --format=%ct)
output=target/images
built=${CARGO_TARGET_DIR:-target}

target_of() {
  case $1 in
    amd64) echo x86_64-unknown-linux-musl ;;
    arm64) echo aarch64-unknown-linux-musl ;;
    *) echo "no image for $1" >&2 && exit 1 ;;
  esac
}

source deploy/images/tools.sh
install_zig
for architecture in "${architectures[@]}"; do
  target=$(target_of "$architecture")
  rustup target add "$target"
  cargo zigbuild --locked --profile "$profile" --target "$target" \
    --config "profile.$profile.strip=\"symbols\"" "${programs[@]/#/--package=}"
done

rm -rf "$output"
mkdir -p "$output"
work=$(mktemp -d)
install_crane
# crane changes the configuration of an image in a registry only: one on loopback, for the time of this
# script.
serve_registry "$work"
trap 'kill $registry; rm -rf "$work"' EXIT

# Name in the registry of the image of one architecture.
image_of() { # program, architecture
  local program=$1 architecture=$2 folder=$work/$2/$1
  local image=$address/$program-$architecture:$version
  mkdir -p "$folder"
  install -m 0755 "$built/$(target_of "$architecture")/$folder_of_profile/$program" "$folder/"
  tar --create --file "$folder.tar" --directory "$folder" --sort=name --mtime="@$time" \
    --owner=65532 --group=65532 --numeric-owner "$program"
  crane append --insecure --oci-empty-base \
    --new_layer "$folder.tar" --new_tag "$image" >/dev/null
  crane mutate --insecure "$image" --tag "$image" --entrypoint "/$program" --user 65532:65532 \
    --set-platform "linux/$architecture" \
    --label "org.opencontainers.image.title=$program" \
    --label "org.opencontainers.image.version=$version" \
    --label "org.opencontainers.image.revision=$revision" \
    --label org.opencontainers.image.licenses=Apache-2.0 >/dev/null
  echo "$image"
}

for program in "${programs[@]}"; do
  images=() size=0
  for architecture in "${architectures[@]}"; do
    images+=("$(image_of "$program" "$architecture")")
    size=$((size + $(stat --format=%s "$work/$architecture/$program/$program")))
  done
  if ((${#images[@]} == 1)); then
    image=${images[0]}
  else
    image=$address/$program:$version
    crane index append --insecure --tag "$image" "${images[@]/#/--manifest=}" >/dev/null 2>&1
  fi
  crane pull --insecure --format=oci "$image" "$output/$program"
  echo "$program $(crane digest --insecure "$image") $size bytes"
done
PROGRAMS="${programs[*]}" deploy/images/sbom.sh >&2
