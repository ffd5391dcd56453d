//! Paths of fields: the excluded ones and those that identify an object.

/// A part of an object that is left out before the object is parsed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExcludedField {
    /// Names of the fields that lead to it. Lists on the way have no name.
    pub(crate) path: &'static [&'static str],
    /// Prefixes of the keys that stay in the map at `path`; if empty, the whole field is left out.
    pub(crate) keep: &'static [&'static str],
}

impl ExcludedField {
    /// Leaves out a field.
    pub(crate) const fn at(path: &'static [&'static str]) -> Self {
        Self { path, keep: &[] }
    }

    /// Leaves out all entries of a map but those whose keys have one of these prefixes.
    pub(crate) const fn all_but(
        path: &'static [&'static str],
        keep: &'static [&'static str],
    ) -> Self {
        Self { path, keep }
    }
}

/// Progress of a value's path along the excluded and the captured fields.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PathMatch {
    /// Number of names on the path.
    level: usize,
    /// Bit set of the excluded fields that agree so far.
    excluded: u32,
    /// Bit set of the captures that agree so far.
    captures: u8,
}

/// A metadata field that identifies an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capture {
    Namespace,
    Name,
    Version,
}

impl Capture {
    const ALL: [Self; 3] = [Self::Namespace, Self::Name, Self::Version];

    fn path(self) -> [&'static str; 2] {
        let name = match self {
            Self::Namespace => "namespace",
            Self::Name => "name",
            Self::Version => "resourceVersion",
        };
        ["metadata", name]
    }
}

impl PathMatch {
    /// The match of a whole object.
    pub(super) const OBJECT: Self = Self {
        level: 0,
        excluded: u32::MAX,
        captures: u8::MAX,
    };

    /// The field that a value with this path captures, if any.
    pub(super) fn capture(self) -> Option<Capture> {
        let agrees =
            |(index, _): &(usize, &Capture)| self.level == 2 && self.captures & (1 << index) != 0;
        Capture::ALL
            .iter()
            .enumerate()
            .find(agrees)
            .map(|(_, capture)| *capture)
    }

    /// The match of the value of a key; `None` if the value is left out.
    pub(super) fn under(self, key: &[u8], excluded: &[ExcludedField]) -> Option<Self> {
        let Self {
            level,
            excluded: open,
            captures,
        } = self;
        let mut next = Self {
            level: level + 1,
            excluded: 0,
            captures: 0,
        };
        for (index, field) in excluded
            .iter()
            .enumerate()
            .take(32)
            .filter(|(index, _)| open & (1 << index) != 0)
        {
            let is_named = field
                .path
                .get(level)
                .is_some_and(|name| name.as_bytes() == key);
            let is_entry = level == field.path.len() && !field.keep.is_empty();
            let is_kept = field
                .keep
                .iter()
                .any(|start| key.starts_with(start.as_bytes()));
            if (is_named && field.keep.is_empty() && field.path.len() == next.level)
                || (is_entry && !is_kept)
            {
                return None;
            }
            next.excluded |= u32::from(is_named) << index;
        }
        for (index, capture) in Capture::ALL.iter().enumerate() {
            let is_named = capture
                .path()
                .get(level)
                .is_some_and(|name| name.as_bytes() == key);
            next.captures |= captures & (u8::from(is_named) << index);
        }
        Some(next)
    }
}
