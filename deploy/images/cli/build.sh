#!/usr/bin/env bash
# The command-line tool for the platforms that this machine can link, in target/cli/PLATFORM: a Mac links for
# Macs, since that needs Apple's frameworks, and another machine for Linux and Windows, with the cross compiler
# of the images. PLATFORMS names some of them, PROFILE=release builds faster. With CHECK=1, a machine that is no
# Mac checks what only a Mac links. Needs rustup, and Python where it is not a Mac.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
profile=${PROFILE:-dist}
wanted=${PLATFORMS:-$(cut -d' ' -f1 deploy/images/cli/platforms.txt)}
if [[ $(uname) != Darwin ]]; then
  source deploy/images/tools.sh
  install_zig
fi
while read -r platform target; do
  [[ " ${wanted//$'\n'/ } " == *" $platform "* ]] || continue
  case $platform-$(uname) in
    darwin-*-Darwin) build="cargo build" ;;
    *-Darwin) continue ;;
    darwin-*)
      if [[ ${CHECK:-} ]]; then
        rustup target add "$target"
        cargo-zigbuild check --locked --package plimsoll --target "$target"
        echo "$platform: checked, not linked"
      fi
      continue
      ;;
    *) build="cargo zigbuild" ;;
  esac
  rustup target add "$target"
  $build --locked --profile "$profile" --package plimsoll --target "$target" \
    --config "profile.$profile.strip=\"symbols\""
  program=plimsoll
  if [[ $platform == windows-* ]]; then program=plimsoll.exe; fi
  mkdir -p "target/cli/$platform"
  install -m 0755 "${CARGO_TARGET_DIR:-target}/$target/${profile/#dev/debug}/$program" "target/cli/$platform/"
  echo "$platform: target/cli/$platform/$program"
done <deploy/images/cli/platforms.txt
