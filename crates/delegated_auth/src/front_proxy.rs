//! What a front proxy says about who asks. Only to be believed when the connection is the proxy's.
//!
//! Source: `k8s.io/apiserver/pkg/authentication/request/headerrequest/requestheader.go`. Names of
//! headers are compared without regard to case.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::trust::FrontProxy;
use crate::user::{User, Via};

/// What all headers that name a user begin with, whatever is configured.
const USUAL_PREFIX: &str = "x-remote-";

/// A header that is not text. Names in it would be others than the proxy meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("header {0} is not text")]
pub(crate) struct NotText(HeaderName);

impl FrontProxy {
    /// The user that the headers name; none if they name nobody.
    pub(crate) fn user(&self, headers: &HeaderMap) -> Result<Option<User>, NotText> {
        let Some(name) = first(&self.username_headers, headers)? else {
            return Ok(None);
        };
        let mut user = User {
            name,
            uid: first(&self.uid_headers, headers)?,
            via: Via::FrontProxy,
            ..User::default()
        };
        for header in &self.group_headers {
            for group in headers.get_all(header) {
                user.groups.push(text(header, group)?);
            }
        }
        for (header, value) in headers {
            let prefix = self
                .extra_prefixes
                .iter()
                .find(|prefix| header.as_str().starts_with(&***prefix));
            if let Some(prefix) = prefix {
                let key = &header.as_str()[prefix.len()..];
                let key = unescaped(key).unwrap_or_else(|| key.to_owned());
                user.extra
                    .entry(key)
                    .or_default()
                    .push(text(header, value)?);
            }
        }
        Ok(Some(user))
    }

    fn says_who(&self, header: &HeaderName) -> bool {
        [
            &self.username_headers,
            &self.uid_headers,
            &self.group_headers,
        ]
        .iter()
        .any(|named| named.contains(header))
            || self
                .extra_prefixes
                .iter()
                .any(|prefix| header.as_str().starts_with(&**prefix))
    }
}

/// Takes out everything that names a user: nobody after this may mistake it for something that was
/// checked.
pub(crate) fn strip(proxy: Option<&FrontProxy>, headers: &mut HeaderMap) {
    let says_who = |header: &HeaderName| {
        header == AUTHORIZATION
            || header.as_str().starts_with(USUAL_PREFIX)
            || proxy.is_some_and(|proxy| proxy.says_who(header))
    };
    let named: Vec<HeaderName> = headers
        .keys()
        .filter(|header| says_who(header))
        .cloned()
        .collect();
    for header in named {
        headers.remove(header);
    }
}

/// The first of the headers that says anything.
fn first(names: &[HeaderName], headers: &HeaderMap) -> Result<Option<String>, NotText> {
    for name in names {
        match headers.get(name) {
            Some(value) if !value.is_empty() => return text(name, value).map(Some),
            _ => {}
        }
    }
    Ok(None)
}

fn text(header: &HeaderName, value: &HeaderValue) -> Result<String, NotText> {
    std::str::from_utf8(value.as_bytes())
        .map(str::to_owned)
        .map_err(|_| NotText(header.clone()))
}

/// Takes `%2f` for `/`; none if that is not well-formed.
fn unescaped(text: &str) -> Option<String> {
    let (mut bytes, mut plain) = (text.bytes(), Vec::with_capacity(text.len()));
    while let Some(byte) = bytes.next() {
        plain.push(if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?].map(|digit| char::from(digit).to_digit(16));
            (digits[0]? * 16 + digits[1]?) as u8
        } else {
            byte
        });
    }
    String::from_utf8(plain).ok()
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;
    use crate::authorities::Authorities;

    fn proxy() -> FrontProxy {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params
            .self_signed(&KeyPair::generate().unwrap())
            .unwrap()
            .pem();
        let header = |name: &'static str| vec![HeaderName::from_static(name)];
        FrontProxy {
            authorities: Authorities::read(&pem).unwrap(),
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
        let said = headers(&[
            ("X-Remote-User", "jane"),
            ("X-REMOTE-GROUP", "a"),
            ("x-remote-group", "b, c"),
            ("X-Remote-Uid", "1-2"),
            (
                "X-Remote-Extra-Authentication.kubernetes.io%2fcredential-Id",
                "JTI=7",
            ),
            ("X-Remote-Extra-Scopes", "one"),
            ("X-Remote-Extra-Scopes", "two"),
            ("X-Remote-Extra-100%", "as it is"),
        ]);
        let user = proxy().user(&said).unwrap().unwrap();
        assert_eq!(
            (user.name.as_str(), user.uid.as_deref(), user.via),
            ("jane", Some("1-2"), Via::FrontProxy)
        );
        assert_eq!(user.groups, ["a", "b, c"]);
        let extra: Vec<_> = user
            .extra
            .iter()
            .map(|(key, values)| (key.as_str(), values.join("+")))
            .collect();
        let expected = [
            ("100%", "as it is".to_owned()),
            (
                "authentication.kubernetes.io/credential-id",
                "JTI=7".to_owned(),
            ),
            ("scopes", "one+two".to_owned()),
        ];
        assert_eq!(extra, expected);
    }

    #[test]
    fn the_first_header_that_says_anything_counts() {
        assert_eq!(proxy().user(&headers(&[("X-Remote-Group", "a")])), Ok(None));
        let said = headers(&[("X-Remote-User", ""), ("X-Other-User", "joe")]);
        assert_eq!(proxy().user(&said).unwrap().unwrap().name, "joe");
    }

    #[test]
    fn a_name_that_is_no_text_names_nobody() {
        let mut said = HeaderMap::new();
        said.insert(
            "x-remote-user",
            HeaderValue::from_bytes(b"j\xe4ne").unwrap(),
        );
        assert_eq!(
            proxy().user(&said),
            Err(NotText(HeaderName::from_static("x-remote-user")))
        );
    }

    #[test]
    fn everything_that_names_a_user_is_taken_out() {
        let lines = [
            ("X-Remote-User", "a"),
            ("x-remote-anything", "b"),
            ("X-Other-User", "c"),
            ("Authorization", "Bearer d"),
            ("Accept", "e"),
        ];
        let mut all = headers(&lines);
        strip(Some(&proxy()), &mut all);
        assert_eq!(all, headers(&[("Accept", "e")]));
        let mut all = headers(&lines);
        strip(None, &mut all);
        assert_eq!(all, headers(&[("X-Other-User", "c"), ("Accept", "e")]));
    }
}
