//! Cuts the API server's answers into objects while they arrive, and leaves out of each object what
//! no decision reads.
//!
//! Neither an answer nor a large object is ever held as a whole: memory is bounded by the largest
//! weight of an object, whatever tenants write. Fields are found by the bytes of their names; what
//! is left of an object is text, to be parsed.

#[cfg(test)]
mod tests;

/// Name, namespace and resourceVersion together, which the API server limits to far less.
const MOST_OF_NAMES: usize = 2048;
/// A document without the objects in it: `metadata` of a list, `type` of an event.
const MOST_OF_ENVELOPE: usize = 1 << 16;
/// Values within values. `serde_json` reads no more than 128 levels.
const DEEPEST: usize = 100;
/// The memory of a parsed object or list beyond its text, estimated.
const WEIGHT_OF_BRACKET: usize = 192;
/// The memory of a parsed string beyond its text, estimated.
const WEIGHT_OF_STRING: usize = 32;

/// A part of an object that is left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExcludedField {
    /// The names of the fields that lead to it. Lists on the way have no name.
    pub(crate) path: &'static [&'static str],
    /// Where not empty, `path` leads to a map, of which only the keys that begin so stay.
    pub(crate) keep: &'static [&'static str],
}

impl ExcludedField {
    /// Leaves out a field.
    pub(crate) const fn at(path: &'static [&'static str]) -> Self {
        Self { path, keep: &[] }
    }

    /// Leaves out all entries of a map but those whose keys begin so.
    pub(crate) const fn all_but(
        path: &'static [&'static str],
        keep: &'static [&'static str],
    ) -> Self {
        Self { path, keep }
    }
}

/// The shape of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// One document with objects in its field `items`.
    List,
    /// One document after the other, each with an object in its field `object`.
    Events,
}

/// A piece of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// An object.
    Item(Item<'a>),
    /// A document that ended, without the objects in it.
    Document(&'a [u8]),
}

/// An object, as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    /// Its namespace, empty for one of the cluster.
    pub(crate) namespace: &'a str,
    /// Its name, empty for what is no object.
    pub(crate) name: &'a str,
    /// Its resourceVersion.
    pub(crate) version: &'a str,
    /// About how many bytes it takes once it is parsed.
    pub(crate) weight: usize,
    /// What is left of it; none where its weight is above the limit.
    pub(crate) text: Option<&'a [u8]>,
}

/// Not JSON, or not of the expected shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer is malformed or was cut short")]
pub(crate) struct Malformed;

/// The state between two chunks of an answer.
#[derive(Debug)]
pub(crate) struct Splitter {
    framing: Framing,
    excluded: &'static [ExcludedField],
    most_weight: usize,
    token: Token,
    frames: Vec<Frame>,
    /// The key whose value comes next.
    key: Vec<u8>,
    /// What the value that comes next is to its excluded.
    position: PathMatch,
    /// How many brackets are open of a value that is left out; none while nothing is.
    skipped: Option<usize>,
    /// The number of frames around the object that is being read.
    item: Option<usize>,
    captured: Option<Capture>,
    names: [String; 3],
    text: Vec<u8>,
    weight: usize,
    envelope: Vec<u8>,
}

/// The kind of token that the last chunk ended in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    None,
    Key { escaped: bool },
    String { escaped: bool },
    Number,
}

#[derive(Debug)]
struct Frame {
    bracket: Bracket,
    has_members: bool,
    /// Whether a key comes next.
    expects_key: bool,
    position: PathMatch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bracket {
    Object,
    List,
    /// The list whose elements are the objects of an answer.
    Items,
}

/// What a value is to the excluded: how many names lead to it, and which excluded and captures have agreed
/// so far.
#[derive(Debug, Clone, Copy, Default)]
struct PathMatch {
    level: usize,
    excluded: u32,
    captures: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Capture {
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

impl Splitter {
    /// Begins an answer. Of more than 32 cuts the rest does nothing.
    pub(crate) fn new(
        framing: Framing,
        excluded: &'static [ExcludedField],
        most_weight: usize,
    ) -> Self {
        Self {
            framing,
            excluded,
            most_weight,
            token: Token::None,
            frames: Vec::new(),
            key: Vec::new(),
            position: PathMatch::default(),
            skipped: None,
            item: None,
            captured: None,
            names: Default::default(),
            text: Vec::new(),
            weight: 0,
            envelope: Vec::new(),
        }
    }

    /// Takes in the next bytes, and gives the pieces that they complete.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        mut found: impl FnMut(Piece<'_>),
    ) -> Result<(), Malformed> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = match self.token {
                Token::Key { escaped } | Token::String { escaped } => {
                    self.string(rest, escaped, &mut found)?
                }
                Token::Number => self.number(rest, &mut found)?,
                Token::None if self.skipped.is_some() => self.skip(rest),
                Token::None => self.structure(rest, &mut found)?,
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// The answer is over.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        let is_whole =
            self.frames.is_empty() && self.token == Token::None && self.skipped.is_none();
        if is_whole { Ok(()) } else { Err(Malformed) }
    }

    /// Takes in a part of a string or key, up to its end or that of the bytes.
    fn string(
        &mut self,
        bytes: &[u8],
        escaped: bool,
        found: &mut impl FnMut(Piece<'_>),
    ) -> Result<usize, Malformed> {
        let is_key = matches!(self.token, Token::Key { .. });
        let token = |escaped| {
            if is_key {
                Token::Key { escaped }
            } else {
                Token::String { escaped }
            }
        };
        if escaped {
            self.string_part(is_key, bytes.get(..1).unwrap_or_default())?;
            self.token = token(false);
            return Ok(1);
        }
        let end = bytes
            .iter()
            .position(|byte| matches!(byte, b'"' | b'\\'))
            .unwrap_or(bytes.len());
        self.string_part(is_key, bytes.get(..end).unwrap_or_default())?;
        match bytes.get(end) {
            None => return Ok(end),
            Some(b'\\') => {
                self.string_part(is_key, b"\\")?;
                self.token = token(true);
            }
            Some(_) => {
                self.token = Token::None;
                self.captured = None;
                match self.skipped {
                    _ if is_key => self.key_ended()?,
                    Some(0) => self.skipped = None,
                    Some(_) => {}
                    None => {
                        self.write(b"\"")?;
                        self.value_ended(found);
                    }
                }
            }
        }
        Ok(end + 1)
    }

    fn string_part(&mut self, is_key: bool, part: &[u8]) -> Result<(), Malformed> {
        if is_key {
            if self.key.len() + part.len() > MOST_OF_ENVELOPE {
                self.outgrow();
            } else {
                self.key.extend_from_slice(part);
            }
            return Ok(());
        }
        if let Some(capture) = self.captured {
            let length: usize = self.names.iter().map(String::len).sum();
            match std::str::from_utf8(part) {
                Ok(part) if length + part.len() <= MOST_OF_NAMES => {
                    self.names[capture as usize].push_str(part);
                }
                _ => self.outgrow(),
            }
        }
        self.write(part)
    }

    /// Takes in a part of a number or word, up to its end or that of the bytes.
    fn number(
        &mut self,
        bytes: &[u8],
        found: &mut impl FnMut(Piece<'_>),
    ) -> Result<usize, Malformed> {
        let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
        let end = bytes.iter().position(is_end).unwrap_or(bytes.len());
        self.write(bytes.get(..end).unwrap_or_default())?;
        if end < bytes.len() {
            self.token = Token::None;
            self.value_ended(found);
        }
        Ok(end)
    }

    /// Passes over a value that is left out, up to its next bracket or string.
    fn skip(&mut self, bytes: &[u8]) -> usize {
        let open = self.skipped.unwrap_or_default();
        let is_structure = |byte: &u8| {
            matches!(byte, b'"' | b'{' | b'[' | b']' | b'}') || (open == 0 && *byte == b',')
        };
        let Some(at) = bytes.iter().position(is_structure) else {
            return bytes.len();
        };
        match (bytes.get(at), open) {
            (Some(b'"'), _) => self.token = Token::String { escaped: false },
            (Some(b'{' | b'['), _) => self.skipped = Some(open + 1),
            // A number or a word ends where the value around it goes on.
            (_, 0) => {
                self.skipped = None;
                return at;
            }
            (_, 1) => self.skipped = None,
            _ => self.skipped = Some(open - 1),
        }
        at + 1
    }

    /// Takes in one byte that is part of no string or number.
    fn structure(
        &mut self,
        bytes: &[u8],
        found: &mut impl FnMut(Piece<'_>),
    ) -> Result<usize, Malformed> {
        let Some(byte) = bytes.first().copied() else {
            return Ok(0);
        };
        match (byte, self.frames.last_mut()) {
            (b' ' | b'\n' | b'\r' | b'\t', _) | (b':', Some(_)) => {}
            (b',', Some(frame)) => frame.expects_key = frame.bracket == Bracket::Object,
            (b'}' | b']', Some(frame)) if (frame.bracket == Bracket::Object) == (byte == b'}') => {
                self.frames.pop();
                self.write(&[byte])?;
                self.value_ended(found);
            }
            (b',' | b':' | b'}' | b']', _) => return Err(Malformed),
            (b'"', Some(frame)) if frame.expects_key => {
                self.key.clear();
                self.token = Token::Key { escaped: false };
            }
            _ => return self.value(byte),
        }
        Ok(1)
    }

    /// Begins a value with its first byte, which is not taken in yet if it is that of a number.
    fn value(&mut self, byte: u8) -> Result<usize, Malformed> {
        let depth = self.frames.len();
        let is_member = |splitter: &Self, framing, name: &[u8]| {
            splitter.item.is_none()
                && splitter.framing == framing
                && depth == 1
                && splitter.key == name
        };
        let mut begins_item = is_member(self, Framing::Events, b"object");
        let mut needs_comma = false;
        if let Some(frame) = self
            .frames
            .last_mut()
            .filter(|frame| frame.bracket != Bracket::Object)
        {
            self.position = frame.position;
            begins_item = frame.bracket == Bracket::Items;
            needs_comma = std::mem::replace(&mut frame.has_members, true) && !begins_item;
        }
        if needs_comma {
            self.write(b",")?;
        }
        let bracket = match byte {
            b'[' if is_member(self, Framing::List, b"items") => Bracket::Items,
            b'[' => Bracket::List,
            _ => Bracket::Object,
        };
        if begins_item {
            self.begin_item(depth)?;
        }
        if depth >= DEEPEST {
            self.outgrow();
            self.skipped = Some(0);
            return Ok(0);
        }
        match byte {
            b'"' => {
                self.captured = self.capture();
                self.weigh(WEIGHT_OF_STRING);
                self.token = Token::String { escaped: false };
            }
            b'{' | b'[' => {
                self.weigh(WEIGHT_OF_BRACKET);
                let (position, expects_key) = (self.position, bracket == Bracket::Object);
                self.frames.push(Frame {
                    bracket,
                    has_members: false,
                    expects_key,
                    position,
                });
            }
            _ => {
                self.token = Token::Number;
                return Ok(0);
            }
        }
        self.write(&[byte])?;
        Ok(1)
    }

    /// Writes a key that is whole, or begins to leave its value out.
    fn key_ended(&mut self) -> Result<(), Malformed> {
        let Some(frame) = self.frames.last_mut() else {
            return Err(Malformed);
        };
        frame.expects_key = false;
        if self.item.is_some() {
            let Some(position) = frame.position.under(&self.key, self.excluded) else {
                self.skipped = Some(0);
                return Ok(());
            };
            self.position = position;
        }
        let comma: &[u8] = if std::mem::replace(&mut frame.has_members, true) {
            b",\""
        } else {
            b"\""
        };
        self.weigh(WEIGHT_OF_STRING);
        let key = std::mem::take(&mut self.key);
        self.write(comma)?;
        self.write(&key)?;
        self.key = key;
        self.write(b"\":")
    }

    /// The part of the key that the string which begins now is, if it is one.
    fn capture(&self) -> Option<Capture> {
        let in_object = self
            .frames
            .last()
            .is_some_and(|frame| frame.bracket == Bracket::Object);
        let is_place = self.item.is_some() && in_object && self.position.level == 2;
        let is_it =
            |(index, _): &(usize, &Capture)| is_place && self.position.captures & (1 << index) != 0;
        Capture::ALL
            .iter()
            .enumerate()
            .find(is_it)
            .map(|(_, capture)| *capture)
    }

    fn begin_item(&mut self, depth: usize) -> Result<(), Malformed> {
        if self.framing == Framing::Events {
            self.write(b"null")?;
        }
        self.item = Some(depth);
        self.position = PathMatch {
            level: 0,
            excluded: u32::MAX,
            captures: u8::MAX,
        };
        self.text.clear();
        self.weight = 0;
        self.names.iter_mut().for_each(String::clear);
        Ok(())
    }

    /// Gives the object or the document that ends with the value that has ended.
    fn value_ended(&mut self, found: &mut impl FnMut(Piece<'_>)) {
        let depth = self.frames.len();
        if self.item == Some(depth) {
            self.item = None;
            let [namespace, name, version] = &self.names;
            let text = (self.weight <= self.most_weight).then_some(self.text.as_slice());
            found(Piece::Item(Item {
                namespace,
                name,
                version,
                weight: self.weight,
                text,
            }));
        }
        if depth == 0 {
            found(Piece::Document(&self.envelope));
            self.envelope.clear();
        }
    }

    fn weigh(&mut self, weight: usize) {
        self.weight = self.weight.saturating_add(weight);
    }

    /// From here on the object counts as too large.
    fn outgrow(&mut self) {
        self.weight = usize::MAX;
        self.text = Vec::new();
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        if self.skipped.is_some() {
            return Ok(());
        }
        if self.item.is_none() {
            let is_short = self.envelope.len() + bytes.len() <= MOST_OF_ENVELOPE;
            self.envelope
                .extend_from_slice(if is_short { bytes } else { &[] });
            return if is_short { Ok(()) } else { Err(Malformed) };
        }
        self.weigh(bytes.len());
        if self.weight > self.most_weight {
            self.outgrow();
        } else {
            self.text.extend_from_slice(bytes);
        }
        Ok(())
    }
}

impl PathMatch {
    /// The position of the value of a key; none where that is left out.
    fn under(self, key: &[u8], excluded: &[ExcludedField]) -> Option<Self> {
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
        for (index, cut) in excluded
            .iter()
            .enumerate()
            .take(32)
            .filter(|(index, _)| open & (1 << index) != 0)
        {
            let is_named = cut
                .path
                .get(level)
                .is_some_and(|name| name.as_bytes() == key);
            let is_entry = level == cut.path.len() && !cut.keep.is_empty();
            let is_kept = cut
                .keep
                .iter()
                .any(|start| key.starts_with(start.as_bytes()));
            if (is_named && cut.keep.is_empty() && cut.path.len() == next.level)
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
