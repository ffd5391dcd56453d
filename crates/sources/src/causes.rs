//! Why a question got no answer, in one text: an error and all that is behind it. What an error
//! says already is not said again.

use std::error::Error;

/// The text of an error with those of its causes.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Outer {
        text: &'static str,
        source: io::Error,
    }

    fn check(text: &'static str, cause: &str, expected: &str) {
        assert_eq!(
            with_causes(&Outer {
                text,
                source: io::Error::other(cause)
            }),
            expected
        );
    }

    #[test]
    fn causes_are_told_that_the_error_does_not_tell() {
        check("no answer", "it is down", "no answer: it is down");
        check(
            "no answer: it is down",
            "it is down",
            "no answer: it is down",
        );
    }
}
