//! Lists of fixed-size records as base64 of their bytes: exact, and shorter than decimal digits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize as _, Deserializer, Serializer};

pub(crate) fn serialize_bytes<S: Serializer>(
    bytes: impl IntoIterator<Item = u8>,
    to: S,
) -> Result<S::Ok, S::Error> {
    let bytes: Vec<u8> = bytes.into_iter().collect();
    to.serialize_str(&STANDARD.encode(bytes))
}

/// Deserializes the bytes of whole records of `size` bytes.
pub(crate) fn deserialize_bytes<'de, D: Deserializer<'de>>(
    from: D,
    size: usize,
) -> Result<Vec<u8>, D::Error> {
    let bytes = STANDARD
        .decode(String::deserialize(from)?)
        .map_err(|_| D::Error::custom("invalid base64"))?;
    let is_whole = bytes.len().is_multiple_of(size);
    is_whole
        .then_some(bytes)
        .ok_or_else(|| D::Error::custom("incomplete record"))
}

/// `#[serde(with)]` for a list of numbers.
pub(crate) mod numbers {
    use super::{Deserializer, Serializer, deserialize_bytes, serialize_bytes};

    pub(crate) fn serialize<S: Serializer>(list: &[f64], to: S) -> Result<S::Ok, S::Error> {
        serialize_bytes(list.iter().flat_map(|number| number.to_le_bytes()), to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        let bytes = deserialize_bytes(from, size_of::<f64>())?;
        let (records, _) = bytes.as_chunks();
        Ok(records.iter().copied().map(f64::from_le_bytes).collect())
    }
}

/// `#[serde(with)]` for amounts by an integer: the bytes of each integer, then those of its amount.
pub(crate) mod amounts {
    use std::collections::BTreeMap;

    use super::{Deserializer, Serializer, deserialize_bytes, serialize_bytes};

    pub(crate) fn serialize<S: Serializer, K: Copy + Into<u64>>(
        amounts: &BTreeMap<K, f64>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let record = |(key, amount): (&K, &f64)| {
            let key = (*key).into().to_le_bytes().into_iter();
            key.take(size_of::<K>()).chain(amount.to_le_bytes())
        };
        serialize_bytes(amounts.iter().flat_map(record), to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, K: Ord + TryFrom<u64>>(
        from: D,
    ) -> Result<BTreeMap<K, f64>, D::Error> {
        let size = size_of::<K>() + size_of::<f64>();
        let bits = |bytes: &[u8]| {
            let bytes = bytes.iter().rev();
            bytes.fold(0, |bits, byte| (bits << 8) | u64::from(*byte))
        };
        let record = |record: &[u8]| {
            let (key, amount) = record.split_at(size_of::<K>());
            Some((K::try_from(bits(key)).ok()?, f64::from_bits(bits(amount))))
        };
        let bytes = deserialize_bytes(from, size)?;
        Ok(bytes.chunks_exact(size).filter_map(record).collect())
    }
}
