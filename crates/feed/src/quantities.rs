//! Amounts of resources in the protocol: maps from the name of a resource to a quantity's text.

use std::collections::HashMap;

use model::{Quantity, ResourceList, ResourceName};

/// Why a message cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A quantity cannot be read.
    #[error("{field}: {text:?} is not a quantity")]
    Quantity {
        /// Where it is.
        field: String,
        /// What it says.
        text: String,
    },
    /// A number is none.
    #[error("{field}: {value} is not a finite number")]
    Number {
        /// Where it is.
        field: String,
        /// What it says.
        value: String,
    },
    /// A field that is always set is not.
    #[error("{0} is missing")]
    Missing(&'static str),
}

/// A list as the protocol has it.
pub(crate) fn to_map(list: &ResourceList) -> HashMap<String, String> {
    list.iter()
        .map(|(name, quantity)| (name.as_str().to_owned(), quantity.to_string()))
        .collect()
}

/// A list from the protocol; `field` says which, for the error.
pub(crate) fn to_list(
    map: HashMap<String, String>,
    field: &str,
) -> Result<ResourceList, MessageError> {
    let read = |(name, text): (String, String)| {
        let quantity = to_quantity(text, || format!("{field}.{name}"))?;
        Ok((ResourceName::from(name.as_str()), quantity))
    };
    map.into_iter().map(read).collect()
}

/// A quantity from the protocol; `field` says which, for the error.
pub(crate) fn to_quantity(
    text: String,
    field: impl FnOnce() -> String,
) -> Result<Quantity, MessageError> {
    text.parse().map_err(|_| MessageError::Quantity {
        field: field(),
        text,
    })
}
