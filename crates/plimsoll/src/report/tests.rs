//! Pages of many containers, and their sentences.

use super::page;
use crate::prices::Prices;
use crate::usage::tests::{constant, resources, usage};
use crate::usage::{ContainerUsage, PodUsage};

fn page_of(usage: &[ContainerUsage]) -> String {
    page(usage, "normal", &Prices::default(), ["today", "<b>"]).expect("a page")
}

#[test]
fn the_first_sentence_has_requests_usage_savings_and_risks() {
    let large = usage(
        "deployment/large",
        resources(Some(4000), Some(4 << 30)),
        &[constant(4, Some(500.0), Some(256.0))],
    );
    let mut small = usage(
        "deployment/small",
        resources(Some(1000), Some(64 << 20)),
        &[constant(4, Some(500.0), Some(256.0))],
    );
    small.limits = resources(None, Some(256 << 20));
    let page = page_of(&[large, small]);
    let lead = page.split("<p class=\"lead\">").nth(1).expect("a sentence");
    let lead = lead.split("</p>").next().expect("its end");
    assert!(
        lead.starts_with("Your 2 containers request 5 cores and use 1."),
        "{lead}"
    );
    assert!(
        lead.contains(" cores fewer, ") && lead.contains(" USD less a month"),
        "{lead}"
    );
    assert!(
        lead.ends_with(
            "1 container is too small. 1 container reached its memory limit: OOM kills."
        ),
        "{lead}"
    );
    assert!(page.contains("It reached the limit: 1 OOM kill."), "{page}");
    assert!(
        page.contains("requested 64Mi, limit 256Mi, recommended "),
        "{page}"
    );
    assert!(
        page.contains("too little memory nearly all the time"),
        "{page}"
    );
    assert!(page.contains("<dd>&lt;b&gt;</dd>") && !page.contains("<script"));
}

#[test]
fn the_overview_of_a_thousand_workloads_is_small() {
    let pod = PodUsage {
        cpu: (0..288).map(|slot| (300 * slot, slot as f64)).collect(),
        memory: (0..288).map(|slot| (300 * slot, 64.0)).collect(),
        has_ended: false,
    };
    let usage = (0..1000).map(|index| {
        let pods = std::slice::from_ref(&pod);
        let mut usage = usage(
            &format!("deployment/workload-{index}"),
            resources(Some(100), None),
            pods,
        );
        usage.id.namespace = format!("namespace-{}", index / 10);
        usage
    });
    let page = page_of(&usage.collect::<Vec<_>>());
    let (overview, details) = page.split_once("<h2>Details</h2>").expect("details");
    assert!(overview.len() < 300_000, "{}", overview.len());
    assert!(details.len() < 3_000_000, "{}", details.len());
    assert!(details.contains("Plots of 100 of 1000 containers"));
}
