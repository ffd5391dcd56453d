//! The most memory that each program takes with the worst shape of each kind of object and of request,
//! and the time that the work of others takes meanwhile, as a table.
//!
//! | file | shapes |
//! |---|---|
//! | `main.rs` | the largest objects that a tenant can write, of each kind |
//! | `products.rs` | a number of objects times another number |
//! | `servers.rs` | connections, heads and bodies that do not end, long texts |
//!
//! The real programs run as child processes, with their real watches, before an API server that
//! makes the objects while it sends them. What is compared is the high-water mark of resident
//! memory that the kernel keeps of each process (`VmHWM`), and the bound is half of the memory
//! limit in `deploy/`. The work of others takes at most twice its usual time.
//!
//! Readers of the feed that do not read are in `crates/feed/tests/loopback/memory.rs`.
//!
//! `PLIMSOLL_HOSTILE_OBJECTS` is the number of large objects of each kind; `make bench-memory` has
//! 10,000. `--nocapture` shows the table.

mod api_server;
mod connection;
mod objects;
mod products;
mod program;
mod servers;
mod table;

use std::iter;
use std::time::{Duration, Instant};

use api_server::ApiServer;
use objects::Population;
use program::Program;
use table::Row;

/// Flag of the extender, with the file in this folder.
const EXTENDER_CONFIG: &str = concat!(
    "--config=",
    env!("CARGO_MANIFEST_DIR"),
    "/memory/extender.yaml"
);
/// As many as take more than the bound where whole lists are parsed.
const FEW: usize = 8;

/// With large objects of all kinds, then of each of `worst`. `watched`: the lists that the program
/// reads.
fn check(program: &Program, watched: &[&str], worst: &[&'static str]) {
    let _turn = table::turn();
    let all = worst.iter().map(|plural| Some(*plural));
    for only in iter::once(None).chain(all) {
        table::check(|| Row {
            program: program.name,
            shape: format!("large {}", only.unwrap_or("objects of all kinds")),
            grown_bytes: start(program, watched, only),
            most_bytes: program.memory_limit() / 2,
            times: None,
            shortest: table::SHORTEST_START,
        });
    }
}

/// The peak of a program's memory until it watches these.
fn start(program: &Program, watched: &[&str], only: Option<&'static str>) -> usize {
    let objects = std::env::var("PLIMSOLL_HOSTILE_OBJECTS")
        .map_or(FEW, |count| count.parse().expect("a number"));
    let api = ApiServer::start(Population::Large(objects, only));
    let started = Instant::now();
    let mut process = program.start(&api.url());
    let memory = process.memory();
    // In a release build about 100 objects of each kind pass in a second.
    let patience = Duration::from_mins(5)
        + Duration::from_millis(100) * u32::try_from(objects).expect("fewer");
    let deadline = started + patience;
    while !(api.has_watches_of(watched) && only.is_none_or(|plural| api.has_listed(plural))) {
        assert!(process.lives(), "{} ended", program.name);
        let (open, peak) = (api.watches().join(" "), memory.peak_bytes() >> 20);
        assert!(
            Instant::now() < deadline,
            "{}: {peak} MiB, watches {open} of {watched:?}",
            program.name
        );
        api.wait_for_news(Duration::from_secs(1));
    }
    assert_eq!(
        api.unknown(),
        Vec::<String>::new(),
        "lists of kinds of which there are no hostile objects here"
    );
    memory.peak_bytes()
}

const CONTROLLERS: [&str; 7] = [
    "cronjobs",
    "daemonsets",
    "deployments",
    "jobs",
    "replicasets",
    "replicationcontrollers",
    "statefulsets",
];

#[test]
fn the_webhook_starts_among_large_objects() {
    let program = Program::new("webhook", &["--port=0", "--manage-certificates"]);
    check(
        &program,
        &[&CONTROLLERS[..], &["verticalpodautoscalers", "limitranges"]].concat(),
        &[],
    );
}

#[test]
fn the_adapter_starts_among_large_objects() {
    let program = Program::new("adapter", &["--secure-port=0", "--manage-certificates"]);
    let watched = [
        "timeseriespredictions",
        "effectivehorizontalpodautoscalers",
        "pods",
        "deployments",
        "statefulsets",
    ];
    check(&program, &watched, &[]);
}

#[test]
fn the_extender_starts_among_large_objects() {
    let program = Program::new("extender", &["--secure-port=0", EXTENDER_CONFIG]);
    let others = [
        "nodes",
        "pods",
        "timeseriespredictions",
        "verticalpodautoscalers",
    ];
    check(&program, &[&CONTROLLERS[..], &others].concat(), &[]);
}

#[test]
fn the_updater_starts_among_large_objects() {
    let program = Program::new("updater", &["--leader-elect=true"]);
    let others = [
        "verticalpodautoscalers",
        "pods",
        "limitranges",
        "poddisruptionbudgets",
        "namespaces",
        "nodes",
        "configmaps",
        "leases",
    ];
    let watched = [&CONTROLLERS[..], &others].concat();
    check(&program, &watched, &["poddisruptionbudgets"]);
}

#[test]
fn the_recommender_starts_among_large_objects() {
    let program = Program::new(
        "recommender",
        &[
            "--leader-elect=true",
            "--config={capping: {capTo: {nodes: true, quotas: true, limit-ranges: true}}}",
        ],
    );
    let others = [
        "verticalpodautoscalers",
        "verticalpodautoscalercheckpoints",
        "pods",
        "events",
        "limitranges",
        "resourcequotas",
        "namespaces",
        "nodes",
        "effectivehorizontalpodautoscalers",
        "horizontalpodautoscalers",
        "timeseriespredictions",
        "substitutes",
        "sizingpolicies",
        "clustersizingpolicies",
    ];
    let worst = [
        "effectivehorizontalpodautoscalers",
        "events",
        "horizontalpodautoscalers",
        "limitranges",
        "pods",
        "replicasets",
        "timeseriespredictions",
        "verticalpodautoscalercheckpoints",
        "verticalpodautoscalers",
    ];
    check(&program, &[&CONTROLLERS[..], &others].concat(), &worst);
}
