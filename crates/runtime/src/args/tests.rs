use super::*;
use crate::log::{KlogArgs, Severity};
use crate::pflag::Program;

#[derive(Debug, PartialEq, clap::Parser)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) klog: KlogArgs,
    #[command(flatten)]
    pub(crate) election: LeaderElectionArgs,
}

const PROGRAM: Program = Program {
    name: "recommender",
    version: "0.0.0",
    defaults: &[
        ("address", ":8942"),
        ("leader-elect-resource-name", "vpa-recommender-lease"),
    ],
};

pub(crate) fn parse(line: &str) -> Result<Args, String> {
    PROGRAM.parse_line(line)
}

#[test]
fn the_command_line_is_sound() {
    PROGRAM.command::<Args>().debug_assert();
}

#[test]
fn defaults_are_upstreams() {
    let Args {
        common, election, ..
    } = parse("").unwrap();
    assert_eq!(
        (common.kube_api_qps, common.kube_api_burst, common.log.v),
        (50.0, 100, 4)
    );
    assert_eq!(common.address.to_string(), ":8942");
    assert!(!election.leader_elect);
    assert_eq!(election.leader_elect_lease_duration.to_string(), "15s");
    assert_eq!(election.leader_elect_renew_deadline.to_string(), "10s");
    assert_eq!(election.leader_elect_retry_period.to_string(), "2s");
    assert_eq!(election.leader_elect_resource_name, "vpa-recommender-lease");
    assert_eq!(election.leader_elect_resource_namespace, "kube-system");
}

#[test]
fn arguments_of_existing_manifests_are_accepted() {
    let line = "--v=4 --stderrthreshold=info --leader-elect=true --leader-elect-resource-lock=leases --kube_api_qps=5.5";
    let Args {
        common,
        klog,
        election,
    } = parse(line).unwrap();
    assert!(election.leader_elect);
    let seen = (klog.threshold(), common.kube_api_qps);
    assert_eq!(seen, (Severity::Info, 5.5));
    let fraction = parse("--kube-api-burst=7.5").unwrap().common;
    assert_eq!(fraction.kube_api_burst, 7);
}

#[test]
fn values_without_meaning_are_refused() {
    for line in [
        "--kube-api-qps=0",
        "--kube-api-qps=-1",
        "--kube-api-qps=NaN",
        "--kube-api-burst=0.5",
        "--stderrthreshold=loud",
        "--address=8942",
        "--leader-elect-resource-lock=endpoints",
        "--log-format=xml",
        "--v=-1",
    ] {
        let flag = line.split('=').next().unwrap();
        let error = parse(line).unwrap_err();
        assert!(error.contains(flag), "{line}: {error}");
    }
}
