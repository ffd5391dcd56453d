#!/usr/bin/env bash
# Builds the images twice: the digests are the same, and each program starts in its unpacked image, an
# otherwise empty folder. Prints digest, size and the median of 21 start-ups. Needs musl-gcc and jq.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
first=$(deploy/images/build.sh)
second=$(deploy/images/build.sh)
diff <(echo "$first") <(echo "$second") || { echo "the second build differs" >&2 && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
while read -r program digest size _; do
  layout=target/images/$program
  blob() { echo "$layout/blobs/${1/://}"; }
  manifest=$(blob "$(jq -r '.manifests[0].digest' "$layout/index.json")")
  [[ $digest == "sha256:$(sha256sum "$manifest" | cut -d' ' -f1)" ]]
  config=$(blob "$(jq -r .config.digest "$manifest")")
  [[ $(jq -c '[.config.User, .config.Entrypoint]' "$config") == "[\"65532:65532\",[\"/$program\"]]" ]]
  [[ $(jq -r '.config.Labels["org.opencontainers.image.revision"]' "$config") == $(git rev-parse HEAD) ]]
  root=$work/$program
  mkdir "$root"
  for layer in $(jq -r '.layers[].digest' "$manifest"); do
    tar --extract --no-same-owner --file "$(blob "$layer")" --directory "$root"
  done
  [[ $(ls "$root") == "$program" ]]
  times=$(for _ in {1..21}; do
    begin=$(date +%s%N)
    unshare --map-root-user chroot "$root" "/$program" --help >/dev/null
    echo $((($(date +%s%N) - begin) / 1000))
  done | sort -n)
  echo "$program: $digest, $size bytes, starts in $(sed -n 11p <<<"$times") us"
done <<<"$second"
