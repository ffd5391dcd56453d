//! The rights that `deploy/` grants are those that the programs use, no more and no less: compares
//! the roles with the audit logs of the last complete run of the end-to-end tests.
//!
//! `cargo test` runs this binary after `e2e`, which makes the record.

mod audit_event;
mod exceptions;
mod grants;
mod record;
mod requests;

use std::collections::BTreeSet;

use anyhow::Result;

use exceptions::{FORBIDDEN, NOT_IN_DEPLOY, OF_CHART, UNUSED};
use grants::{Grant, Role, grants, program};
use record::{COMMAND, recorded};
use requests::Request;

/// The grants of `deploy/`, and the requests of the programs that have them.
struct Comparison {
    grants: BTreeSet<Grant>,
    requests: BTreeSet<Request>,
    /// Audit log, account and role of the requests that were allowed.
    in_effect: BTreeSet<(String, String, Role)>,
}

impl Comparison {
    fn load() -> Result<Self> {
        let grants = grants()?;
        let names = grants.iter().filter_map(|grant| grant.right.name.clone());
        let mut requests = recorded(&names.collect())?;
        let accounts: BTreeSet<_> = grants.iter().map(|grant| &grant.account).collect();
        requests.retain(|request| accounts.contains(&request.account));
        let in_effect = requests.iter().filter_map(|request| {
            let role = request.role()?.clone();
            Some((request.log.clone(), request.account.clone(), role))
        });
        let in_effect = in_effect.collect();
        Ok(Self {
            grants,
            requests,
            in_effect,
        })
    }

    /// Whether a request needs a grant whose role was in effect in its sandbox.
    fn is_granted_by(&self, grant: &Grant, request: &Request) -> bool {
        let (log, account, role) = (&request.log, &request.account, &grant.role);
        let effect = || (log.clone(), account.clone(), role.clone());
        request.account == grant.account
            && request.uses(&grant.right)
            && self.in_effect.contains(&effect())
    }

    /// Whether a request uses a grant. The authorizer names one role, but others that were in effect
    /// may grant the same.
    fn is_use(&self, grant: &Grant, request: &Request) -> bool {
        request.role().is_some() && self.is_granted_by(grant, request)
    }

    /// Whether a request that was forbidden was allowed at another time in its sandbox: the same one, or by a role
    /// that was in effect. For a moment, an API server does not know new roles, nor any role after its own start,
    /// and an uninstallation deletes roles before the programs have ended.
    fn is_allowed_at_times(&self, forbidden: &Request) -> bool {
        let is_same = |request: &Request| {
            request.role().is_some()
                && request.log == forbidden.log
                && request.text() == forbidden.text()
        };
        let mut grants = self.grants.iter();
        grants.any(|grant| self.is_granted_by(grant, forbidden))
            || self.requests.iter().any(is_same)
    }
}

/// Checks that the differences are exactly the exceptions of a table.
fn check(differences: &BTreeSet<String>, exceptions: &[(&str, &str)]) {
    let known: BTreeSet<String> = exceptions
        .iter()
        .map(|(line, _)| (*line).to_owned())
        .collect();
    let new: Vec<_> = differences.difference(&known).collect();
    let obsolete: Vec<_> = known.difference(differences).collect();
    assert!(
        new.is_empty() && obsolete.is_empty(),
        "without an exception: {new:#?}\nexceptions that are not necessary: {obsolete:#?}\n\
         if the last run was cut short or had failures, repeat it: {COMMAND}"
    );
}

#[test]
fn programs_use_each_right_that_they_have() -> Result<()> {
    let comparison = Comparison::load()?;
    let requests = &comparison.requests;
    let is_unused = |grant: &&Grant| {
        !requests
            .iter()
            .any(|request| comparison.is_use(grant, request))
    };
    let unused = comparison.grants.iter().filter(is_unused);
    check(&unused.map(Grant::text).collect(), UNUSED);
    Ok(())
}

#[test]
fn each_request_is_allowed_by_a_role_of_deploy() -> Result<()> {
    let Comparison {
        grants, requests, ..
    } = Comparison::load()?;
    let is_granted = |request: &Request| {
        grants.iter().any(|grant| {
            request.account == grant.account
                && request.role() == Some(&grant.role)
                && request.uses(&grant.right)
        })
    };
    let others = requests.iter().filter(|request| !is_granted(request));
    let others = others.filter_map(|request| {
        let role = request.role()?;
        let is_of_deploy = grants.iter().any(|grant| grant.role == *role);
        Some(if is_of_deploy {
            format!("{}: {role}", request.text())
        } else {
            format!("{}: {role}", program(&request.account))
        })
    });
    let of_chart = OF_CHART.map(|role| (role, "the chart makes it"));
    check(&others.collect(), &[&of_chart, NOT_IN_DEPLOY].concat());
    Ok(())
}

#[test]
fn no_request_is_forbidden_but_those_that_are_expected() -> Result<()> {
    let comparison = Comparison::load()?;
    let requests = &comparison.requests;
    let forbidden = requests.iter().filter(|it| it.role().is_none());
    let unexpected = forbidden.filter(|it| !comparison.is_allowed_at_times(it));
    check(&unexpected.map(Request::text).collect(), FORBIDDEN);
    Ok(())
}
