//! Lists of fixed-size records as base64 of their bytes: exact, and shorter than decimal digits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

/// Serializes records of `N` bytes as one string.
pub(crate) fn serialize_records<S: Serializer, const N: usize>(
    records: impl IntoIterator<Item = [u8; N]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let bytes: Vec<u8> = records.into_iter().flatten().collect();
    serializer.serialize_str(&STANDARD.encode(bytes))
}

/// Deserializes records of `N` bytes. Incomplete records are an error.
pub(crate) fn deserialize_records<'de, D: Deserializer<'de>, const N: usize>(
    deserializer: D,
) -> Result<Vec<[u8; N]>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = STANDARD
        .decode(text)
        .map_err(|_| D::Error::custom("invalid base64"))?;
    match bytes.as_chunks::<N>() {
        (records, []) => Ok(records.to_vec()),
        _ => Err(D::Error::custom("incomplete record")),
    }
}

/// `#[serde(with)]` for a list of numbers.
pub(crate) mod numbers {
    use super::{Deserializer, Serializer, deserialize_records, serialize_records};

    pub(crate) fn serialize<S: Serializer>(list: &[f64], to: S) -> Result<S::Ok, S::Error> {
        serialize_records(list.iter().map(|number| number.to_le_bytes()), to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        let records = deserialize_records(from)?;
        Ok(records.into_iter().map(f64::from_le_bytes).collect())
    }
}

/// The first `N` bytes of a record at an offset.
pub(crate) fn part<const N: usize>(record: &[u8], offset: usize) -> [u8; N] {
    let mut bytes = [0; N];
    if let Some(part) = record.get(offset..offset + N) {
        bytes.copy_from_slice(part);
    }
    bytes
}
