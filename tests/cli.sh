#!/usr/bin/env bash
# Packs the command-line tool for the platforms that this machine links and checks the others. The second
# packing has the same checksums, the formula and the krew manifest name those of the archives, and each
# program that can start here (that of the other architecture under qemu-user) makes a report from its archive.
# Needs what deploy/images/cli/build.sh needs.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
CHECK=1 deploy/images/cli/build.sh
deploy/images/cli/archive.sh >/dev/null
output=target/cli/release
first=$(cat $output/checksums.txt)
deploy/images/cli/archive.sh >/dev/null
diff <(echo "$first") $output/checksums.txt || { echo "the second packing differs" >&2 && exit 1; }
(cd $output && sha256sum --check --quiet checksums.txt)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for archive in "$output"/*.tar.gz; do
  platform=$(basename "$archive" .tar.gz)
  platform=${platform#plimsoll-}
  sum=$(sha256sum "$archive" | cut -d' ' -f1)
  grep --quiet "$sum" $output/plimsoll.yaml || { echo "the krew manifest lacks $platform" >&2 && exit 1; }
  if [[ $platform != windows-* ]]; then
    grep --quiet "$sum" $output/plimsoll.rb || { echo "the formula lacks $platform" >&2 && exit 1; }
  fi
  mkdir "$work/$platform"
  tar --extract --file "$archive" --directory "$work/$platform"
  case $platform-$(uname -s)-$(uname -m) in
    linux-amd64-Linux-x86_64 | linux-arm64-Linux-aarch64 | darwin-amd64-Darwin-x86_64 | darwin-arm64-Darwin-arm64) start=() ;;
    linux-amd64-Linux-*) start=(qemu-x86_64) ;;
    linux-arm64-Linux-*) start=(qemu-aarch64) ;;
    *) start=(none) ;;
  esac
  if ((${#start[@]})) && ! command -v "${start[0]}" >/dev/null; then
    echo "$platform: not started here"
    continue
  fi
  "${start[@]}" "$work/$platform/plimsoll" report --sample -f - >/dev/null
  echo "$platform: starts"
done
