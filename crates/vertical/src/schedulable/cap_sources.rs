//! Enabled sources of caps (nodes, quotas, limit ranges): by flag, narrowed by an object's
//! annotation.

use std::str::FromStr;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CapSources {
    /// Free resources of nodes.
    pub nodes: bool,
    /// Room in quotas.
    pub quotas: bool,
    /// Maxima of limit ranges.
    pub limit_ranges: bool,
}

impl CapSources {
    /// The sources that both name.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            nodes: self.nodes && other.nodes,
            quotas: self.quotas && other.quotas,
            limit_ranges: self.limit_ranges && other.limit_ranges,
        }
    }

    /// The sources that either names.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            nodes: self.nodes || other.nodes,
            quotas: self.quotas || other.quotas,
            limit_ranges: self.limit_ranges || other.limit_ranges,
        }
    }

    /// Whether no source is named.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl FromStr for CapSources {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut cap_to = Self::default();
        for word in text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty() && *word != "none")
        {
            match word {
                "nodes" => cap_to.nodes = true,
                "quotas" => cap_to.quotas = true,
                "limit-ranges" => cap_to.limit_ranges = true,
                _ => {
                    return Err(format!(
                        "{word:?} is not one of nodes, quotas, limit-ranges"
                    ));
                }
            }
        }
        Ok(cap_to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_can_only_ask_for_less() {
        let all: CapSources = "nodes,quotas,limit-ranges".parse().expect("known words");
        let some: CapSources = "nodes, quotas".parse().expect("known words");
        assert_eq!(all.and(some), some);
        assert_eq!(
            "limit-ranges"
                .parse::<CapSources>()
                .expect("known words")
                .and(some),
            CapSources::default()
        );
    }
}
