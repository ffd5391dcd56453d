//! Notes about a metric, and the reason for a missing forecast, for the status.

use super::access::{Expression, SCOPE_LABEL};
use super::method::Method;
use super::model::FARTHEST;
use super::spec::ForecastSpec;
use super::truncate::truncate;

/// Maximum length of an expression in a message, in characters.
const MAX_SHOWN: usize = 300;

/// Seconds that a method always reaches ahead.
pub(super) fn farthest(method: &Method) -> i64 {
    match method {
        Method::Plimsoll { .. } => FARTHEST.into(),
        _ => i64::MAX,
    }
}

/// The note of a spec, and one about a window that is too long for its method.
pub(super) fn note(spec: &ForecastSpec, window_seconds: u32) -> Option<String> {
    let short = (i64::from(window_seconds) > farthest(&spec.method)).then(|| {
        "the method forecasts one day, which is repeated for the rest of the window".to_owned()
    });
    [spec.note.clone(), short]
        .into_iter()
        .flatten()
        .reduce(|one, other| format!("{one}; {other}"))
}

/// The reason for a missing forecast if an expression has no samples.
pub(super) fn no_samples(Expression { text, confined_by }: &Expression) -> String {
    let text = truncate(text, MAX_SHOWN);
    let confinement = confined_by.as_ref().map(|matcher| {
        format!("; only series with {matcher} are read, unless the namespace has the label {SCOPE_LABEL}=cluster")
    });
    format!(
        "there are no samples of {text}{}",
        confinement.unwrap_or_default()
    )
}
