//! Resource lists in the protocol: maps from a resource name to the text of a quantity.

use std::collections::HashMap;

use model::{Quantity, ResourceList, ResourceName};

/// Errors in a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// A quantity cannot be parsed.
    #[error("{field}: {text:?} is not a quantity")]
    Quantity {
        /// Field of the quantity.
        field: String,
        /// Its text.
        text: String,
    },
    /// A number is NaN or infinite.
    #[error("{field}: {value} is not a finite number")]
    Number {
        /// Field of the number.
        field: String,
        /// Its value.
        value: String,
    },
}

/// Converts a list to its protocol form.
pub(crate) fn to_map(list: &ResourceList) -> HashMap<String, String> {
    list.iter()
        .map(|(name, quantity)| (name.as_str().to_owned(), quantity.to_string()))
        .collect()
}

/// Parses a list; `field` is its name in errors.
pub(crate) fn to_list(
    map: HashMap<String, String>,
    field: &str,
) -> Result<ResourceList, MessageError> {
    let read = |(name, text): (String, String)| {
        let quantity: Quantity = text.parse().map_err(|_| MessageError::Quantity {
            field: format!("{field}.{name}"),
            text,
        })?;
        Ok((ResourceName::from(name.as_str()), quantity))
    };
    map.into_iter().map(read).collect()
}
