# Sourced: pinned tools of the scripts here and in `cli`.

# The cross compiler, zig and cargo's driver of it, below target and on PATH. Needs Python with venv.
install_zig() {
  local tools=$PWD/target/tools/zig
  if ! cmp --silent deploy/images/requirements.txt "$tools/requirements.txt"; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --no-deps --require-hashes --requirement deploy/images/requirements.txt
    cp deploy/images/requirements.txt "$tools/"
  fi
  PATH=$tools/bin:$PATH
  # Paths of this machine do not belong into the programs.
  local flags="--remap-path-prefix=$PWD=/src --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
  export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS=$flags
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS=$flags
  export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUSTFLAGS=$flags
}

# crane in target/tools, on PATH. Needs Go.
install_crane() {
  local tools=$PWD/target/tools
  mkdir -p "$tools"
  (cd deploy/images && go build -mod=readonly -trimpath -o "$tools/crane" github.com/google/go-containerregistry/cmd/crane)
  PATH=$tools:$PATH
}

# Starts a registry on loopback, whose log is in a folder. Sets `registry`, its process, and `address`.
serve_registry() { # folder
  crane registry serve --address 127.0.0.1:0 >"$1/registry.log" 2>&1 &
  registry=$!
  for _ in {1..100}; do
    address=$(grep -o '127\.0\.0\.1:[0-9]*\|port [0-9]*' "$1/registry.log" | head -1 | sed 's/port /127.0.0.1:/') && [[ $address ]] && return
    sleep 0.1
  done
  echo "the registry on loopback did not start: $(cat "$1/registry.log")" >&2
  return 1
}
