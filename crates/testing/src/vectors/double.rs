//! A double in JSON: a number, or a text for what JSON has no number for.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Double(#[serde(deserialize_with = "double")] pub f64);

pub fn double<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
    }
    match Written::deserialize(deserializer)? {
        Written::Number(number) => Ok(number),
        Written::Text(text) => text.parse().map_err(D::Error::custom),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_doubles() {
        let read: Vec<Double> = serde_json::from_str(r#"[1.5, "NaN", "-Inf"]"#).expect("doubles");
        assert_eq!(
            (read[0].0, read[1].0.is_nan(), read[2].0),
            (1.5, true, f64::NEG_INFINITY)
        );
        let error = serde_json::from_str::<Double>(r#""much""#)
            .map(drop)
            .unwrap_err();
        assert_eq!(error.to_string(), "invalid float literal");
    }
}
