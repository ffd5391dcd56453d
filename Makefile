# Every target is one or two lines; what they run lives in the crates.
.PHONY: demo screenshots test test-node test-fleet test-keda conformance test-versions test-times lint chaos chaos-node bench accuracy bench-decisions bench-feed bench-latency bench-recommender bench-scale bench-scan bench-scheduler bench-updater fuzz certs manifests bench-webhook bench-adapter bench-memory bench-node bench-tenants fresh static images push kind-load cli test-cli sbom test-images docs

demo: ## the demonstration on a real control plane: sizes, updated pods, an OOM kill, a rise, a busy node; KEEP=1 leaves it running
	cargo build --locked --workspace --bins
	target/debug/demo

screenshots: ## the pictures in docs/images, of a run of the demonstration (needs Chromium)
	mkdir -p docs/images
	SCREENSHOTS=docs/images $(MAKE) demo

# Property tests try the same cases in each run; PROPTEST_RNG_SEED=N make test tries others.
export PROPTEST_RNG_SEED ?= 1

# Programs and tests are built in one go, so that they share the dependencies as the tests need them.
# More threads than cores: the end-to-end tests wait for their control planes. With many more, slow cores starve these.
test: lint ## formatting, lints, conventions, unit, property, golden and end-to-end tests
	cargo build --locked --workspace --bins --tests --example hello
	RUST_TEST_THREADS=5 tests/test.sh

test-node: ## the suite as containers on a real kubelet, part of `make test` (root, runc, iptables, iproute2)
	cargo build --locked --workspace --bins
	RUST_TEST_THREADS=5 cargo test --locked -p e2e --test node

test-fleet: ## 200 pods of all kinds (PODS=N) on a real kubelet, sized by the updater and reverted by `plimsoll revert`, compared with their manifests (what `make test-node` needs)
	cargo build --locked --workspace --bins
	PLIMSOLL_FLEET=$(or $(PODS),200) cargo test --locked -p e2e --test node -- --nocapture fleet::

test-keda: ## the plan of `plimsoll migrate keda` against KEDA itself, and back; builds KEDA, once per machine (what `make test-node` needs, 4 GiB for Go)
	cargo build --locked --workspace --bins
	PLIMSOLL_KEDA=1 cargo test --locked -p e2e --test node -- --nocapture keda::

# PROFILE=release builds and runs release programs.
conformance: ## upstream's own end-to-end specs against our programs; AUTOSCALER=checkout of kubernetes/autoscaler, SUITE=NAME or fast, FOCUS=regular expression, NODE=real or kind, PROGRAMS=upstream, PROFILE=release; SUITE=kubernetes for Kubernetes' own specs
	cargo build --locked --workspace --bins $(if $(PROFILE),--profile $(PROFILE))
	target/$(or $(PROFILE),debug)/conformance

test-versions: ## end-to-end tests on the oldest and the newest supported version of Kubernetes; VERSIONS=oldest for one
	cargo build --locked --workspace --bins --tests --examples
	for version in $(or $(VERSIONS),oldest newest); do PLIMSOLL_SANDBOX_KUBERNETES_VERSION=$$version RUST_TEST_THREADS=5 cargo test --locked --workspace --test e2e --test oom_kills --no-fail-fast || exit 1; done

test-times: ## seconds of building, of clippy and of each test binary, and the slowest tests; PACKAGES="model sizing" for some crates
	tests/times.sh $(PACKAGES)

fresh: ## both README commands in a new clone with empty caches, as on a new machine; prints the time of each phase
	tests/fresh.sh

static: ## plimsoll as a static program, started in an empty folder as its root: size and start-up time (rustup target, musl-gcc)
	tests/static.sh

images: ## an OCI image and an SBOM per program in target/images, without a daemon (Python, Go; ARCHITECTURES="amd64 arm64", PROFILE=release is faster, VERSION=TAG)
	deploy/images/build.sh

push: ## the images of `make images` to REGISTRY=HOST/PATH under the tag VERSION (Go)
	deploy/images/push.sh

kind-load: ## the images of `make images` into a cluster of kind, CLUSTER=NAME, under the names that the chart has (jq, kind)
	deploy/images/kind_load.sh

cli: ## archives of the command-line tool for the platforms that this machine links, with checksums, a Homebrew formula and a krew manifest, in target/cli/release (Python, rustup; PROFILE=release is faster, CHECK=1 checks the others)
	deploy/images/cli/build.sh
	deploy/images/cli/archive.sh

test-cli: ## the archives twice with the same checksums, and each program that can start here, started from its archive
	tests/cli.sh

sbom: ## an SBOM per program in target/images: CycloneDX, with the locked versions
	deploy/images/sbom.sh

test-images: ## the images twice with the same digests, and each program started in its own, also with ARCHITECTURES="amd64 arm64" where qemu-user is installed
	tests/images.sh

docs: ## docs/ and the reference as a book in target/book; builds the programs, and the pinned mdbook into target/tools once
	test -x $(MDBOOK) || cargo install --locked --quiet mdbook --version $(MDBOOK_VERSION) --no-default-features --features search --root target/tools
	cargo build --locked --workspace --bins
	rm -rf $(PAGES) && cp -R docs $(PAGES) && mkdir $(PAGES)/reference
	PLIMSOLL_REFERENCE=$(CURDIR)/$(PAGES)/reference cargo test -q --locked -p e2e --test reference
	cd $(PAGES) && for page in reference/*.md; do echo "  - [$$(sed -n '1s/# //p' $$page)]($$page)"; done | sed -i '/(reference.md)/r /dev/stdin' SUMMARY.md
	$(MDBOOK) build $(PAGES)

MDBOOK_VERSION = 0.5.4
MDBOOK = target/tools/bin/mdbook
PAGES = target/book-pages

lint: ## formatting, clippy, and links of the doc comments
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --quiet --workspace --no-deps --document-private-items --locked

deny: ## licences, advisories and duplicate versions, with cargo-deny (cargo install --locked cargo-deny)
	cargo deny --locked check

chaos: ## the whole suite on a real control plane while its parts are killed, paused, cut off, slowed down and have wrong clocks, under load; ROUNDS=N (100), SEED=N repeats a run
	cargo build --locked --workspace --bins
	PLIMSOLL_CHAOS_ROUNDS=$(or $(ROUNDS),100) $(if $(SEED),PLIMSOLL_CHAOS_SEED=$(SEED)) cargo test --locked -p e2e --test e2e -- --nocapture chaos::

chaos-node: ## the suite on a real kubelet while kubelet, containerd and its containers are killed; ROUNDS=N (50), SEED=N repeats a run (needs root)
	cargo build --locked --workspace --bins
	PLIMSOLL_CHAOS_NODE_ROUNDS=$(or $(ROUNDS),50) $(if $(SEED),PLIMSOLL_CHAOS_SEED=$(SEED)) cargo test --locked -p e2e --test node -- --nocapture chaos::

bench: ## ns per sample, percentile, replica count, review and decision, bytes per container, recomputation; scores of 5,000 nodes; refit and step of forecasts
	cargo bench --locked -p sizing -p vertical -p scaling -p forecast -p admission -p rollout -p placement -p extender

accuracy: ## forecasts of recorded series against simple methods and Crane's, as a table; PLIMSOLL_TRACES names the folder
	cargo run -q --locked --release -p forecast --example accuracy

bench-decisions: ## sizing policies, horizontal scaling and placement on recorded usage, as tables; TRACES names the folder, PLOTS one for plots
	cargo run -q --locked --release -p replay --example decisions -- sizes $(TRACES) $(PLOTS)
	cargo run -q --locked --release -p replay --example decisions -- horizontal $(TRACES) $(PLOTS)
	cargo run -q --locked --release -p replay --example decisions -- vpa-with-hpa $(TRACES) $(PLOTS)
	cargo run -q --locked --release -p replay --example decisions -- placement $(TRACES) $(PLOTS)

bench-feed: ## memory of a feed server while two readers do not read for a minute and 10,000 objects change all the time
	PLIMSOLL_SLOW_READER_SECONDS=60 cargo test -q --locked --release -p feed --test loopback -- --nocapture stop_reading

bench-latency: ## time from an OOM kill to the new target and to the larger pod, and until the stop switch works, with their bounds
	cargo build --locked --release --workspace --bins
	PLIMSOLL_LATENCY=1 cargo test -q --locked --release -p e2e --test oom_kills -- --nocapture --test-threads=1
	PLIMSOLL_LATENCY=1 cargo test -q --locked --release -p e2e --test e2e -- --nocapture --test-threads=1 kill_switch an_oom_kill_is_seen

bench-node: ## on a real kubelet: time from an OOM kill to usable memory; processor time and memory of the programs over ten minutes with 50 pods (MINUTES=N; needs root)
	cargo build --locked --release --workspace --bins
	PLIMSOLL_LATENCY=1 PLIMSOLL_NODE_MINUTES=$(or $(MINUTES),10) cargo test -q --locked --release -p e2e --test node -- --nocapture --test-threads=1 heal_times:: cost::

bench-webhook: ## latency, throughput and processor time per review of the webhook over TLS, with a pod matched among 10,000 VPA objects
	cargo bench --locked -p webhook --bench load
	cargo bench --locked -p webhook --bench load -- http2

bench-adapter: ## latency, throughput and memory of the adapter over TLS, with the requests of 10,000 HPAs
	cargo bench --locked -p adapter --bench load

bench-memory: ## peak memory of each program when it starts among 10,000 large objects of each kind (some 200 GB of lists; takes a while), and with the worst requests, as a table
	cargo build --locked --release -p webhook -p adapter -p updater -p recommender -p extender --bins
	PLIMSOLL_HOSTILE_OBJECTS=10000 cargo test -q --locked --release -p e2e --test memory -- --nocapture --test-threads=1

bench-scale: ## recommender, updater and webhook on a real control plane with 10,000 VPA objects (VPAS=N) and twice as many pods; BEFORE names an earlier recommender to compare
	cargo build --locked --release --workspace --bins
	target/release/scale

bench-recommender: ## processor time and memory of the recommender and of upstream's with the same 500 young VPA objects (VPAS=N)
	cargo build --locked --release --workspace --bins
	target/release/scale beside-upstream

bench-scan: ## plimsoll scan over 1,000 workloads (WORKLOADS=N) and 8 days on a real control plane and Prometheus
	cargo build --locked --release -p sandbox -p plimsoll -p e2e --bin sandbox --bin plimsoll --bin scan
	target/release/scan

bench-scheduler: ## pods per second of kube-scheduler on a real control plane with and without the extender; NODES and PODS set the size, IDENTICAL=1 makes all pods alike
	cargo build --locked --release -p sandbox -p extender -p e2e --bin sandbox --bin extender --bin scheduler
	target/release/scheduler

bench-tenants: ## response times of one tenant, alone and next to one that creates large, numerous and slow objects of all kinds
	cargo build --locked --release --workspace --bins
	target/release/tenants

bench-updater: ## 2,000 pods of 1,000 VPA objects (VPAS=N) on a real control plane, all evicted and created again with their new sizes
	cargo build --locked --release --workspace --bins
	target/release/evictions

fuzz: ## a million malformed reviews to the webhook, 100,000 malformed requests to the adapter, a million malformed objects in watches, a million malformed answers of Prometheus and metrics servers: no panic; a million workloads of which webhook and updater agree
	PLIMSOLL_HOSTILE_REVIEWS=1000000 cargo test -q --locked --release -p admission --test reviews -- --nocapture hostile
	PLIMSOLL_HOSTILE_REQUESTS=100000 cargo test -q --locked --release -p adapter --test hostile -- --nocapture
	PLIMSOLL_HOSTILE_EVENTS=1000000 cargo test -q --locked --release -p watch --lib -- --nocapture hostile
	PLIMSOLL_HOSTILE_ANSWERS=1000000 cargo test -q --locked --release -p sources --lib -- --nocapture hostile
	PROPTEST_CASES=1000000 cargo test -q --locked --release -p rollout --test agreement

certs: ## a development CA and a certificate per program, in certs/
	cargo run -q --locked -p feed --example development_ca -- certs

manifests: ## regenerate deploy/crds from the types
	cargo run -q -p api --example crds -- deploy/crds
