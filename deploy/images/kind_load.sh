#!/usr/bin/env bash
# Loads the images in target/images into a cluster of kind, CLUSTER=NAME (kind), under the names that the
# chart and the manifests have, so that nothing is pulled. Needs what deploy/images/build.sh made, jq and kind.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# One layout of all images: containerd takes their names from this annotation.
for layout in target/images/*/; do
  cp --recursive "$layout/blobs" "$layout/oci-layout" "$work/"
  jq --arg name "ghcr.io/plimsoll/$(basename "$layout"):$version" \
    '.manifests[0] + {annotations: {"io.containerd.image.name": $name}}' "$layout/index.json"
done | jq --slurp '{schemaVersion: 2, manifests: .}' >"$work/index.json"
tar --create --file target/images.tar --directory "$work" blobs oci-layout index.json
kind load image-archive target/images.tar --name "${CLUSTER:-kind}"
