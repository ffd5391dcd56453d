#!/usr/bin/env bash
# Pushes the images in target/images to a registry, REGISTRY=HOST/PATH, under the tag VERSION. crane takes
# the credentials that docker and podman use. Needs what deploy/images/build.sh made, and Go.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
: "${REGISTRY:?names no registry: REGISTRY=registry.example.com/plimsoll}"
version=${VERSION:-$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)}
source deploy/images/tools.sh
install_crane
compgen -G "target/images/*/index.json" >/dev/null || { echo "target/images has no images: make images" >&2 && exit 1; }
for layout in target/images/*/; do
  crane push "$layout" "$REGISTRY/$(basename "$layout"):$version"
done
