#!/usr/bin/env bash
# Packs each program in target/cli/PLATFORM with licence and notice into target/cli/release, with a Homebrew
# formula and a krew manifest of these archives. The same programs give the same bytes. VERSION is that of
# the release.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
version=${VERSION:-$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)}
address=https://github.com/plimsoll/plimsoll
about="Sizes, scales and places Kubernetes workloads"
output=$PWD/target/cli/release
rm -rf "$output"
mkdir -p "$output"
time=$(git log -1 --format=%ct)
formula= krew=
while read -r platform _; do
  folder=target/cli/$platform
  [[ -d $folder ]] || continue
  cp LICENSE NOTICE "$folder/"
  program=$(cd "$folder" && ls plimsoll*)
  archive=plimsoll-$platform.tar.gz
  tar --create --directory "$folder" --sort=name --mtime="@$time" --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX "$program" LICENSE NOTICE | gzip --no-name >"$output/$archive"
  sum=$(sha256sum "$output/$archive" | cut -d' ' -f1)
  url=$address/releases/download/v$version/$archive
  os=${platform%-*} architecture=${platform#*-}
  krew+="
    - selector: { matchLabels: { os: $os, arch: $architecture } }
      uri: $url
      sha256: $sum
      bin: $program"
  case $platform in
    darwin-*) system=macos ;;
    linux-*) system=linux ;;
    *) continue ;;
  esac
  case $architecture in
    amd64) processor=intel ;;
    arm64) processor=arm ;;
  esac
  formula+="
  on_$system do
    on_$processor do
      url \"$url\"
      sha256 \"$sum\"
    end
  end"
done <deploy/images/cli/platforms.txt
cat >"$output/plimsoll.rb" <<END
class Plimsoll < Formula
  desc "$about"
  homepage "$address"
  version "$version"
  license "Apache-2.0"
$formula

  def install
    bin.install "plimsoll"
    generate_completions_from_executable(bin/"plimsoll", "completion", shells: [:bash, :zsh, :fish])
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/plimsoll --version")
  end
end
END
cat >"$output/plimsoll.yaml" <<END
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: plimsoll
spec:
  version: v$version
  homepage: $address
  shortDescription: $about
  description: |
    Recommends CPU and memory requests from recorded usage, shows why, and prints them for GitOps. It works
    with the VPA objects of a cluster, and without an installation in it.
  platforms:$krew
END
(cd "$output" && sha256sum -- * >checksums.txt)
ls "$output"
