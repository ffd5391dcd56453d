//! The most memory that each program takes when it starts in a cluster whose tenants write the
//! largest objects that they can.
//!
//! The real programs run as child processes, with their real watches, before an API server that
//! makes the objects while it sends them. What is compared is the high-water mark of resident
//! memory that the kernel keeps of each process (`VmHWM`), and the bound is half of the memory
//! limit in `deploy/`. `PLIMSOLL_HOSTILE_OBJECTS` is the number of objects of each kind;
//! `make bench-memory` has 10,000.

mod api_server;
mod objects;
mod program;

use std::time::{Duration, Instant};

use api_server::ApiServer;
use program::Program;

/// As many as take more than the bound where whole lists are parsed.
const FEW: usize = 8;

/// `watched`: the lists that the program reads.
fn check(program: &Program, watched: &[&str]) {
    let objects = std::env::var("PLIMSOLL_HOSTILE_OBJECTS")
        .map_or(FEW, |count| count.parse().expect("a number"));
    let api = ApiServer::start(objects);
    let most = program.memory_limit() / 2;
    let started = Instant::now();
    let mut process = program.start(&api.url());
    // In a release build about 100 objects of each kind pass in a second.
    let patience = Duration::from_mins(5)
        + Duration::from_millis(100) * u32::try_from(objects).expect("fewer");
    let deadline = started + patience;
    while !api.has_watches_of(watched) {
        assert!(process.lives(), "{} ended", program.name);
        let (open, peak) = (api.watches().join(" "), process.peak_bytes() >> 20);
        assert!(
            Instant::now() < deadline,
            "{}: {peak} MiB, watches {open} of {watched:?}",
            program.name
        );
        api.wait_for_news(Duration::from_secs(1));
    }
    let (peak, sent) = (process.peak_bytes(), api.sent_bytes());
    println!(
        "{}: at most {} MiB of {} MiB, with {objects} objects of each kind, {} MiB in {:.0} s",
        program.name,
        peak >> 20,
        most >> 20,
        sent >> 20,
        started.elapsed().as_secs_f64()
    );
    assert_eq!(
        api.unknown(),
        Vec::<String>::new(),
        "lists of kinds of which there are no hostile objects here"
    );
    assert!(
        peak < most,
        "{}: {} MiB of {} MiB",
        program.name,
        peak >> 20,
        most >> 20
    );
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
    check(&program, &watched);
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
    check(&program, &[&CONTROLLERS[..], &others].concat());
}

#[test]
fn the_recommender_starts_among_large_objects() {
    let program = Program::new(
        "recommender",
        &[
            "--leader-elect=true",
            "--cap-to-schedulable=nodes,quotas,limit-ranges",
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
    check(&program, &[&CONTROLLERS[..], &others].concat());
}
