//! Removal of credentials from objects and texts.
//!
//! A value is masked by the name of its field, variable or flag; and wherever it looks like a
//! bearer token, a JSON web token, a private key, or a password in a URL.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Replacement of a credential.
pub(super) const MASK: &str = "[masked]";

/// Parts of names of fields, variables and flags with credentials, in lower case.
const SENSITIVE: [&str; 9] = [
    "password",
    "passwd",
    "token",
    "secret",
    "credential",
    "api_key",
    "api-key",
    "apikey",
    "authorization",
];
/// Ends of names that refer to a credential without its value, in lower case.
const REFERENCES: [&str; 7] = [
    "name",
    "file",
    "ref",
    "path",
    "dir",
    "volume",
    "expiration-seconds",
];
/// Annotations that repeat a whole object.
const REPEATED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Patterns of credentials, in lower case. The first group is kept.
static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let name = format!("[a-z0-9_.-]*(?:{})[a-z0-9_.-]*", SENSITIVE.join("|"));
    [
        "()-----begin [a-z ]*private key-----[^-]*(?:-----end [a-z ]*private key-----)?".to_owned(),
        r"((?:bearer|basic) )[a-z0-9._~+/=-]{8,}".to_owned(),
        r"()\beyj[a-z0-9_-]+\.[a-z0-9_-]+\.[a-z0-9_-]*".to_owned(),
        r"(://[^/\s:@]*:)[^/\s@]+@".to_owned(),
        format!(r#"({name}["']?\s*[=:]\s*)"[^"]*""#),
        format!(r#"({name}["']?\s*[=:]\s*)'[^']*'"#),
        format!(r#"({name}\s*[=:]\s*)[^\s"',;&}}]+"#),
        format!(r"(--{name}\s+)[^-\s]\S*"),
    ]
    .iter()
    .map(|pattern| Regex::new(pattern).expect("a valid pattern"))
    .collect()
});

/// Whether a field, variable or flag of this name has a credential.
fn is_sensitive(name: &str) -> bool {
    let name = name.to_lowercase();
    SENSITIVE.iter().any(|part| name.contains(part))
        && !REFERENCES.iter().any(|end| name.ends_with(end))
}

pub(super) fn text(text: &str) -> String {
    let mut text = text.to_owned();
    for pattern in PATTERNS.iter() {
        // ASCII letters keep their position.
        let lower = text.to_ascii_lowercase();
        let mut masked = String::with_capacity(text.len());
        let mut end = 0;
        for found in pattern.captures_iter(&lower) {
            let whole = found.get(0).expect("group 0 always matches");
            let kept = found.get(1).map_or(whole.start(), |group| group.end());
            let name = lower[whole.start()..kept].trim_end_matches(|letter: char| {
                letter.is_whitespace() || matches!(letter, '"' | '\'' | '=' | ':')
            });
            if REFERENCES.iter().any(|reference| name.ends_with(reference)) {
                continue;
            }
            masked.push_str(&text[end..kept]);
            masked.push_str(MASK);
            end = whole.end();
            if text[..end].ends_with('@') {
                masked.push('@');
            }
        }
        masked.push_str(&text[end..]);
        text = masked;
    }
    text
}

/// Removes the credentials of an object. `managedFields` and repetitions of the object go too.
pub(super) fn object(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("managedFields");
            fields.remove(REPEATED);
            // An environment variable, or any other pair of a name and a value.
            let named = fields.get("name").and_then(Value::as_str);
            let names_credential = named.is_some_and(is_sensitive);
            for (name, value) in fields.iter_mut() {
                let is_credential = is_sensitive(name) || names_credential && name == "value";
                if is_credential && value.is_string() {
                    *value = Value::String(MASK.to_owned());
                } else {
                    object(value);
                }
            }
        }
        Value::Array(values) => {
            let mut is_value = false;
            for value in values {
                // The value of a flag that is an argument of its own.
                let flag = value.as_str().and_then(|text| text.strip_prefix("--"));
                let flag = flag.map(|name| !name.contains('=') && is_sensitive(name));
                if is_value && flag.is_none() && value.is_string() {
                    *value = Value::String(MASK.to_owned());
                } else {
                    object(value);
                }
                is_value = flag == Some(true);
            }
        }
        Value::String(line) => *line = text(line),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PLANTED: &str = "S3cr3tV4lue";

    fn check_text(line: &str, expected: &str) {
        let masked = text(line);
        assert_eq!(masked, expected, "{line}");
    }

    #[test]
    fn credentials_in_a_text_are_masked() {
        check_text(
            "Authorization: Bearer S3cr3tV4lue.a-b",
            "Authorization: [masked] [masked]",
        );
        check_text(
            "got bearer S3cr3tV4lue12 from a",
            "got bearer [masked] from a",
        );
        check_text(
            "GET https://me:S3cr3tV4lue@host/x",
            "GET https://me:[masked]@host/x",
        );
        check_text(
            "--prometheus-bearer-token=S3cr3tV4lue -v",
            "--prometheus-bearer-token=[masked] -v",
        );
        check_text("{\"Password\":\"S3cr3t V4lue\"}", "{\"Password\":[masked]}");
        check_text("api_key = S3cr3tV4lue, next", "api_key = [masked], next");
        check_text("jwt eyJhbGci.eyJzdWIi.S3cr3t_V-4 end", "jwt [masked] end");
        let key = "-----BEGIN RSA PRIVATE KEY-----\nS3cr3tV4lue\n-----END RSA PRIVATE KEY-----";
        check_text(key, "[masked]");
    }

    #[test]
    fn names_of_secrets_and_files_are_kept() {
        for line in [
            "--certificate-secret-name=vpa-tls-certs",
            "--metric-routes-token-file=/var/run/token",
            "the Secret plimsoll-updater-feed-tls is missing",
            "https://prometheus:9090/api",
        ] {
            check_text(line, line);
        }
    }

    #[test]
    fn a_planted_credential_is_nowhere_in_an_object() {
        let mut deployment = json!({
            "metadata": {
                "managedFields": [{"x": PLANTED}],
                "annotations": {REPEATED: PLANTED, "auth-token": PLANTED},
            },
            "spec": {
                "args": ["--a=1", format!("--password={PLANTED}"), "--token", PLANTED, "--b", "c"],
                "env": [
                    {"name": "DB_PASSWORD", "value": PLANTED},
                    {"name": "URL", "value": format!("http://u:{PLANTED}@h")},
                    {"name": "MODE", "value": "fast"},
                ],
                "command": ["sh", "-c", format!("curl -H 'Authorization: Bearer {PLANTED}'")],
                "volumes": [{"secret": {"secretName": "certs"}}],
            },
        });
        object(&mut deployment);
        let shown = deployment.to_string();
        assert!(!shown.contains(PLANTED), "{shown}");
        for kept in ["certs", "fast", "--a=1", "\"c\"", "DB_PASSWORD"] {
            assert!(shown.contains(kept), "{kept}: {shown}");
        }
    }
}
