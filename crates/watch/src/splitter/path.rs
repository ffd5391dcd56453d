//! Paths of fields: the excluded ones and those that identify an object.

type Names = &'static [&'static str];

/// Entries of a map that are left out before the object is parsed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExcludedField {
    /// Names of the fields that lead to the map. Lists on the way have no name.
    path: Names,
    entries: Entries,
}

#[derive(Debug, Clone, Copy)]
enum Entries {
    /// Those with one of these keys.
    Only(Names),
    /// All but those whose keys have one of these prefixes.
    AllBut(Names),
}

impl ExcludedField {
    pub(crate) const fn only(path: Names, keys: Names) -> Self {
        let entries = Entries::Only(keys);
        Self { path, entries }
    }

    pub(crate) const fn all_but(path: Names, prefixes: Names) -> Self {
        let entries = Entries::AllBut(prefixes);
        Self { path, entries }
    }

    fn has(&self, key: &[u8]) -> bool {
        match self.entries {
            Entries::Only(keys) => keys.iter().any(|name| name.as_bytes() == key),
            Entries::AllBut(prefixes) => {
                let mut prefixes = prefixes.iter();
                !prefixes.any(|prefix| key.starts_with(prefix.as_bytes()))
            }
        }
    }
}

/// Progress of a value's path along the excluded fields and `metadata`.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PathMatch {
    /// Number of names on the path.
    level: usize,
    /// Bit set of the excluded fields that agree so far.
    excluded: u32,
    is_metadata: bool,
    /// The field that a value with this path captures.
    pub(super) capture: Option<Capture>,
}

/// A metadata field that identifies an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capture {
    Namespace,
    Name,
    Version,
}

impl PathMatch {
    /// The match of a whole object.
    pub(super) const OBJECT: Self = Self {
        level: 0,
        excluded: u32::MAX,
        is_metadata: false,
        capture: None,
    };

    /// The match of the value of a key; `None` if the value is left out.
    pub(super) fn under(self, key: &[u8], excluded: &[ExcludedField]) -> Option<Self> {
        let level = self.level;
        let mut next = Self {
            level: level + 1,
            excluded: 0,
            is_metadata: level == 0 && key == b"metadata",
            capture: match key {
                _ if level != 1 || !self.is_metadata => None,
                b"namespace" => Some(Capture::Namespace),
                b"name" => Some(Capture::Name),
                b"resourceVersion" => Some(Capture::Version),
                _ => None,
            },
        };
        for (index, field) in excluded
            .iter()
            .enumerate()
            .take(32)
            .filter(|(index, _)| self.excluded & (1 << index) != 0)
        {
            if level == field.path.len() && field.has(key) {
                return None;
            }
            let name = field.path.get(level);
            let is_named = name.is_some_and(|name| name.as_bytes() == key);
            next.excluded |= u32::from(is_named) << index;
        }
        Some(next)
    }
}
