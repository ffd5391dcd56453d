//! Request headers in which a front proxy names the user. They are accepted only on a front proxy's
//! connection.
//!
//! Source: `k8s.io/apiserver/pkg/authentication/request/headerrequest/requestheader.go`. Names of
//! headers are case-insensitive.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::attributes::{AuthMethod, User};
use crate::config::RequestHeaderConfig;

/// The prefix of headers that are removed in every configuration.
const DEFAULT_PREFIX: &str = "x-remote-";

impl RequestHeaderConfig {
    pub(crate) fn user(&self, headers: &HeaderMap) -> Result<Option<User>, String> {
        let Some(name) = first(&self.username_headers, headers)? else {
            return Ok(None);
        };
        let mut user = User {
            name,
            uid: first(&self.uid_headers, headers)?,
            method: AuthMethod::FrontProxy,
            ..User::default()
        };
        for header in &self.group_headers {
            for group in headers.get_all(header) {
                user.groups.push(text(header, group)?);
            }
        }
        for (header, value) in headers {
            let mut prefixes = self.extra_prefixes.iter();
            if let Some(key) = prefixes.find_map(|prefix| header.as_str().strip_prefix(&**prefix)) {
                let key = percent_decoded(key).unwrap_or_else(|| key.to_owned());
                let values = user.extra.entry(key).or_default();
                values.push(text(header, value)?);
            }
        }
        Ok(Some(user))
    }

    fn is_identity_header(&self, header: &HeaderName) -> bool {
        let lists = [
            &self.username_headers,
            &self.uid_headers,
            &self.group_headers,
        ];
        lists.iter().any(|list| list.contains(header))
            || self
                .extra_prefixes
                .iter()
                .any(|prefix| header.as_str().starts_with(&**prefix))
    }
}

/// Removes all headers that name a user, so that no later code takes them for verified ones.
pub(crate) fn strip_identity_headers(
    config: Option<&RequestHeaderConfig>,
    headers: &mut HeaderMap,
) {
    let is_identity_header = |header: &&HeaderName| {
        *header == AUTHORIZATION
            || header.as_str().starts_with(DEFAULT_PREFIX)
            || config.is_some_and(|config| config.is_identity_header(header))
    };
    let identity: Vec<HeaderName> = headers.keys().filter(is_identity_header).cloned().collect();
    for header in identity {
        headers.remove(header);
    }
}

/// Returns the value of the first header that is not empty.
fn first(names: &[HeaderName], headers: &HeaderMap) -> Result<Option<String>, String> {
    let values = names
        .iter()
        .filter_map(|name| Some((name, headers.get(name)?)));
    let mut values = values.filter(|(_, value)| !value.is_empty());
    values
        .next()
        .map(|(name, value)| text(name, value))
        .transpose()
}

fn text(header: &HeaderName, value: &HeaderValue) -> Result<String, String> {
    std::str::from_utf8(value.as_bytes())
        .map(str::to_owned)
        .map_err(|_| format!("header {header} is not text"))
}

/// Returns `None` for text that is not well-formed.
fn percent_decoded(text: &str) -> Option<String> {
    let (mut bytes, mut decoded) = (text.bytes(), Vec::with_capacity(text.len()));
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?].map(|digit| char::from(digit).to_digit(16));
            (digits[0]? * 16 + digits[1]?) as u8
        } else {
            byte
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ca_bundle::CaBundle;
    use crate::config::tests::ca;

    fn proxy() -> RequestHeaderConfig {
        let header = |name: &'static str| vec![HeaderName::from_static(name)];
        RequestHeaderConfig {
            ca: CaBundle::parse(&ca()).unwrap(),
            allowed_names: Vec::new(),
            username_headers: [header("x-remote-user"), header("x-other-user")].concat(),
            uid_headers: header("x-remote-uid"),
            group_headers: header("x-remote-group"),
            extra_prefixes: vec!["x-remote-extra-".to_owned()],
        }
    }

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let name = |name: &str| HeaderName::from_bytes(name.as_bytes()).unwrap();
        lines
            .iter()
            .map(|(key, value)| (name(key), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn headers_name_the_user() {
        let sent = headers(&[
            ("X-Remote-User", "jane"),
            ("X-REMOTE-GROUP", "a"),
            ("x-remote-group", "b, c"),
            ("X-Remote-Uid", "1-2"),
            ("X-Remote-Extra-Example.com%2fcredential-Id", "JTI=7"),
            ("X-Remote-Extra-Scopes", "one"),
            ("X-Remote-Extra-Scopes", "two"),
            ("X-Remote-Extra-100%", "as it is"),
        ]);
        let user = proxy().user(&sent).unwrap().unwrap();
        assert_eq!(
            (user.name.as_str(), user.uid.as_deref(), user.method),
            ("jane", Some("1-2"), AuthMethod::FrontProxy)
        );
        assert_eq!(user.groups, ["a", "b, c"]);
        let extra = [
            ("100%", vec!["as it is"]),
            ("example.com/credential-id", vec!["JTI=7"]),
            ("scopes", vec!["one", "two"]),
        ];
        assert_eq!(
            serde_json::json!(user.extra),
            serde_json::json!(BTreeMap::from(extra))
        );
    }

    #[test]
    fn the_first_header_that_is_not_empty_counts() {
        assert_eq!(proxy().user(&headers(&[("X-Remote-Group", "a")])), Ok(None));
        let sent = headers(&[("X-Remote-User", ""), ("X-Other-User", "joe")]);
        assert_eq!(proxy().user(&sent).unwrap().unwrap().name, "joe");
    }

    #[test]
    fn a_name_that_is_not_text_is_an_error() {
        let header = HeaderName::from_static("x-remote-user");
        let name = HeaderValue::from_bytes(b"j\xe4ne").unwrap();
        let sent = HeaderMap::from_iter([(header.clone(), name)]);
        assert_eq!(
            proxy().user(&sent),
            Err("header x-remote-user is not text".to_owned())
        );
    }

    #[test]
    fn all_headers_that_name_a_user_are_removed() {
        let lines = [
            ("X-Remote-User", "a"),
            ("x-remote-anything", "b"),
            ("X-Other-User", "c"),
            ("Authorization", "Bearer d"),
            ("Accept", "e"),
        ];
        let mut all = headers(&lines);
        strip_identity_headers(Some(&proxy()), &mut all);
        assert_eq!(all, headers(&[("Accept", "e")]));
        let mut all = headers(&lines);
        strip_identity_headers(None, &mut all);
        assert_eq!(all, headers(&[("X-Other-User", "c"), ("Accept", "e")]));
    }
}
