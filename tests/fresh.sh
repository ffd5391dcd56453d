#!/usr/bin/env bash
# Runs the commands of README, in their order, in a new clone with empty caches: of this machine, only the
# toolchains and the registry settings of cargo and Go are used. Those of helm need a cluster: the end-to-end
# tests run them. Prints the time of each command; exits non-zero if one fails.
set -euo pipefail
top=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
# The kubelet has sockets below: their paths have 107 bytes at most.
work=$(mktemp -d "${TMPDIR:-/tmp}/fresh.XXXXXX")
finish() {
  if [ "$1" -ne 0 ]; then
    echo "failed; the clone, caches and logs are kept in $work"
  else
    chmod -R u+w "$work" # Go writes its module cache read-only.
    rm -rf "$work"
  fi
}
trap 'finish $?' EXIT

export RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
GOPROXY=$(go env GOPROXY) GOSUMDB=$(go env GOSUMDB)
export GOPROXY GOSUMDB GOENV=off
cargo_home=${CARGO_HOME:-$HOME/.cargo}
PATH=$cargo_home/bin:$PATH
export HOME=$work/home CARGO_HOME=$work/cargo
unset CARGO_TARGET_DIR KUBEBUILDER_ASSETS PLIMSOLL_CONTROL_PLANE
export GOPATH=$work/go GOMODCACHE=$work/go/pkg/mod GOCACHE=$work/go-build
export XDG_CACHE_HOME=$work/cache XDG_STATE_HOME=$work/s
mkdir -p "$HOME" "$CARGO_HOME"
for settings in config.toml credentials.toml; do
  if [ -f "$cargo_home/$settings" ]; then cp "$cargo_home/$settings" "$CARGO_HOME/"; fi
done

times=()
timed() { # command...
  local start=$SECONDS
  printf '\n== %s\n' "$*"
  "$@" </dev/null
  times+=("$(printf '%5d s  %s' $((SECONDS - start)) "$*")")
}

timed git clone --quiet --no-hardlinks "$top" "$work/clone"
cd "$work/clone"
export CI=true
while read -r -a command; do
  timed "${command[@]}"
done < <(sed -n '/^```$/,/^```$/{s/ *#.*//;/^\(cargo\|make\) /p}' README.md)
printf '\n%s\n' "${times[@]}"
