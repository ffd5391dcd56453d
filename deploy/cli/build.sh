#!/usr/bin/env bash
# The command-line tool for the platforms that this machine can link, in target/cli/PLATFORM. A Mac links
# for both kinds of Macs, since Apple's frameworks are needed; another machine links for Linux and Windows
# with the cross compiler of the images. PLATFORMS names some of them, PROFILE=release builds faster. What
# cannot be linked is checked with CHECK=1. Needs rustup, and Python where it is not a Mac.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
profile=${PROFILE:-dist}
folder=${profile/#dev/debug}
wanted=${PLATFORMS:-$(cut -d' ' -f1 deploy/cli/platforms.txt)}
mac=
if [[ $(uname) == Darwin ]]; then
  mac=1
else
  source deploy/images/tools.sh
  install_zig
fi
while read -r platform target; do
  [[ " ${wanted//$'\n'/ } " == *" $platform "* ]] || continue
  # Unlike a Mac's, a build elsewhere is by zig.
  build=(cargo zigbuild) check=(cargo-zigbuild check)
  if [[ $platform == darwin-* ]]; then build=(cargo build); fi
  if [[ $platform == darwin-* && ! $mac || $platform != darwin-* && $mac ]]; then
    if [[ ${CHECK:-} ]]; then
      rustup target add "$target"
      "${check[@]}" --locked --package plimsoll --target "$target"
      echo "$platform: checked, not linked"
    fi
    continue
  fi
  rustup target add "$target"
  "${build[@]}" --locked --profile "$profile" --package plimsoll --target "$target" \
    --config "profile.$profile.strip=\"symbols\""
  mkdir -p "target/cli/$platform"
  suffix=
  if [[ $platform == windows-* ]]; then suffix=.exe; fi
  install -m 0755 "${CARGO_TARGET_DIR:-target}/$target/$folder/plimsoll$suffix" "target/cli/$platform/"
  echo "$platform: target/cli/$platform/plimsoll$suffix"
done <deploy/cli/platforms.txt
