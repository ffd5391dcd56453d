#!/usr/bin/env bash
# Builds the images twice: the digests are the same, SBOMs too and they list the locked versions, and each
# program starts in its unpacked image, an otherwise empty folder. A program of the other architecture
# (ARCHITECTURES="amd64 arm64") starts under qemu-user, where it is installed. Prints digest, size and the
# median of 21 start-ups. Then it pushes the images to a registry on loopback. Needs what deploy/images/build.sh
# needs, and jq.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
sboms() { sha256sum target/images/*.cdx.json; }
first=$(deploy/images/build.sh)
first_sboms=$(sboms)
second=$(deploy/images/build.sh)
diff <(echo "$first") <(echo "$second") || { echo "the second build differs" >&2 && exit 1; }
diff <(echo "$first_sboms") <(sboms) || { echo "the second SBOM differs" >&2 && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Each crate in a program is in its SBOM, and each one there has a version of Cargo.lock. (Crates that only
# a disabled feature needs are listed too.) Without a time of now and a random serial number the text is
# the same again.
check_sbom() { # program
  local sbom=target/images/$1.cdx.json
  cargo tree --locked --package "$1" --edges normal,no-proc-macro \
    --target x86_64-unknown-linux-musl --target aarch64-unknown-linux-musl \
    --prefix none --format '{p}' | sed 's/^\([^ ]*\) v\([^ ]*\).*/\1 \2/' | sort --unique >"$work/used"
  sed -n '/^name = /{N;s/name = "\(.*\)"\nversion = "\(.*\)"/\1 \2/p}' Cargo.lock | sort --unique >"$work/locked"
  jq -r '[.metadata.component, .components[]][] | "\(.name) \(.version)"' "$sbom" | sort --unique >"$work/listed"
  local wrong
  wrong=$(comm -23 "$work/used" "$work/listed" && comm -13 "$work/locked" "$work/listed")
  [[ -z $wrong ]] || { echo "the SBOM of $1 differs from Cargo.lock: $wrong" >&2 && exit 1; }
  jq --exit-status 'has("serialNumber") | not' "$sbom" >/dev/null
}

# The command that runs programs of an architecture, empty for this machine's own.
emulator() { # architecture
  case $1-$(uname -m) in
    amd64-x86_64 | arm64-aarch64) ;;
    amd64-*) echo qemu-x86_64 ;;
    arm64-*) echo qemu-aarch64 ;;
  esac
}

start() { # emulator, root, program
  if [[ $1 ]]; then
    "$1" "$2/$3" --help >/dev/null
  else
    unshare --map-root-user chroot "$2" "/$3" --help >/dev/null
  fi
}

while read -r program digest size _; do
  layout=target/images/$program
  blob() { echo "$layout/blobs/${1/://}"; }
  top=$(jq -r '.manifests[0].digest' "$layout/index.json")
  [[ $digest == "$top" && $digest == "sha256:$(sha256sum "$(blob "$top")" | cut -d' ' -f1)" ]]
  images=$(jq -r '.manifests[]?.digest' "$(blob "$top")")
  for image in ${images:-$top}; do
    manifest=$(blob "$image")
    config=$(blob "$(jq -r .config.digest "$manifest")")
    [[ $(jq -c '[.config.User, .config.Entrypoint]' "$config") == "[\"65532:65532\",[\"/$program\"]]" ]]
    [[ $(jq -r '.config.Labels["org.opencontainers.image.revision"]' "$config") == $(git rev-parse HEAD) ]]
    architecture=$(jq -r .architecture "$config")
    root=$work/$program-$architecture
    mkdir "$root"
    for layer in $(jq -r '.layers[].digest' "$manifest"); do
      tar --extract --no-same-owner --file "$(blob "$layer")" --directory "$root"
    done
    [[ $(ls "$root") == "$program" ]]
    emulator=$(emulator "$architecture")
    if [[ $emulator ]] && ! command -v "$emulator" >/dev/null; then
      echo "$program: $architecture is not started: $emulator is not installed"
      continue
    fi
    times=$(for _ in {1..21}; do
      begin=$(date +%s%N)
      start "$emulator" "$root" "$program"
      echo $((($(date +%s%N) - begin) / 1000))
    done | sort -n)
    echo "$program: $architecture starts in $(sed -n 11p <<<"$times") us"
  done
  check_sbom "$program"
  echo "$program: $digest, $size bytes, SBOM of $(wc -l <"$work/listed") crates"
done <<<"$second"

# What is pushed is what was built.
source deploy/images/tools.sh
install_crane
serve_registry "$work"
trap 'kill $registry; rm -rf "$work"' EXIT
REGISTRY=$address/plimsoll VERSION=pushed deploy/images/push.sh
while read -r program digest _; do
  [[ $(crane digest "$address/plimsoll/$program:pushed") == "$digest" ]]
done <<<"$second"
