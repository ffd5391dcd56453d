//! Headers of every request to a store, such as the name of a tenant. A message never contains a
//! value, which can be a credential.

use anyhow::{Context as _, anyhow, ensure};
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue};

use super::Credentials;

/// Headers that the client sets itself.
const OWN: [HeaderName; 4] = [CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING];

/// Parses headers of the form `NAME=VALUE`.
pub(super) fn headers_of_texts(
    texts: &[String],
    credentials: &Credentials,
) -> anyhow::Result<Vec<(HeaderName, HeaderValue)>> {
    let pairs = texts
        .iter()
        .map(|text| text.split_once('=').context("expected NAME=VALUE"));
    headers(pairs.collect::<anyhow::Result<Vec<_>>>()?, credentials)
}

/// Parses names and values of headers. `Debug` output of a value is `Sensitive`.
pub fn headers<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    credentials: &Credentials,
) -> anyhow::Result<Vec<(HeaderName, HeaderValue)>> {
    let headers = pairs.into_iter().map(|(name, value)| header(name, value));
    let headers = headers.collect::<anyhow::Result<Vec<_>>>()?;
    let is_authorized = headers.iter().any(|(name, _)| *name == AUTHORIZATION);
    ensure!(
        !is_authorized || matches!(credentials, Credentials::None),
        "authorization and a token or user name exclude each other"
    );
    Ok(headers)
}

fn header(name: &str, value: &str) -> anyhow::Result<(HeaderName, HeaderValue)> {
    let name = name.trim();
    let parsed = name.parse::<HeaderName>();
    let name = parsed.map_err(|_| anyhow!("{name:?} is not the name of a header"))?;
    ensure!(!OWN.contains(&name), "{name} is set by the client itself");
    let value = value.trim().parse::<HeaderValue>();
    let mut value =
        value.map_err(|_| anyhow!("the value of {name} has a character that no header has"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prometheus::Secret;

    /// `expected`: name and value, or a part of the error.
    fn check(text: &str, expected: Result<(&str, &str), &str>) {
        let found = headers_of_texts(&[text.to_owned()], &Credentials::None);
        match (found, expected) {
            (Ok(found), Ok((name, value))) => {
                assert_eq!(found[0].0, name);
                assert_eq!(found[0].1, value);
                assert!(!format!("{found:?}").contains(value), "{found:?}");
            }
            (Err(error), Err(part)) => {
                let shown = error.to_string();
                assert!(shown.contains(part) && !shown.contains("s3cret"), "{shown}");
            }
            (found, expected) => panic!("{text}: {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn names_and_values_are_checked_and_values_never_shown() {
        check("X-Scope-OrgID=shop", Ok(("x-scope-orgid", "shop")));
        check("X-Scope-OrgID = a=b ", Ok(("x-scope-orgid", "a=b")));
        check(
            "Authorization=Basic abc",
            Ok(("authorization", "Basic abc")),
        );
        check("s3cret", Err("expected NAME=VALUE"));
        check("X Scope=s3cret", Err(r#""X Scope" is not the name"#));
        check("=s3cret", Err(r#""" is not the name"#));
        check(
            "X-Scope-OrgID=s3cret\u{7f}",
            Err("the value of x-scope-orgid"),
        );
        check(
            "X-Scope-OrgID=s3cret\nHost: a",
            Err("the value of x-scope-orgid"),
        );
        check("Host=s3cret", Err("host is set by the client"));
        check(
            "Content-Length=9",
            Err("content-length is set by the client"),
        );
    }

    #[test]
    fn one_credential_is_enough() {
        let token = Credentials::Bearer(Secret::Text("t".to_owned()));
        assert!(headers([("X-Scope-OrgID", "shop")], &token).is_ok());
        let error = headers([("Authorization", "Basic abc")], &token).expect_err("two credentials");
        assert!(error.to_string().contains("exclude each other"), "{error}");
    }
}
