//! Splits the API server's responses into objects as they arrive, without unread fields.
//!
//! Neither a response nor a large object is ever held as a whole: the weight limit of an object
//! bounds the memory. Fields are found by the bytes of their names. The remaining text of an object
//! is parsed later.

mod path;
#[cfg(test)]
mod tests;

pub(crate) use path::ExcludedField;
use path::{Capture, PathMatch};

/// Limit of name, namespace and resourceVersion together, in bytes; the API server's are far lower.
const MOST_OF_NAMES: usize = 2048;
/// Limit of a document without its objects, in bytes: `metadata` of a list, `type` of an event.
const MOST_OF_ENVELOPE: usize = 1 << 16;
/// Limit of the nesting depth. `serde_json` reads at most 128 levels.
const DEEPEST: usize = 100;
/// Estimated memory of a parsed object or list in addition to its text, in bytes.
const WEIGHT_OF_BRACKET: usize = 192;
/// Estimated memory of a parsed string in addition to its text, in bytes.
const WEIGHT_OF_STRING: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// One document with the objects in `items`.
    List,
    /// A sequence of documents, each with an object in `object`.
    Events,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Item(Item<'a>),
    /// The end of a document, with its text without the objects.
    Document(&'a [u8]),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    /// Namespace; empty for cluster-scoped objects.
    pub(crate) namespace: &'a str,
    /// Name; empty for a document that is not an object, such as a bookmark.
    pub(crate) name: &'a str,
    pub(crate) version: &'a str,
    /// Estimated memory of the parsed object, in bytes.
    pub(crate) weight: usize,
    /// Text without the excluded fields; `None` if the weight exceeds the limit.
    pub(crate) text: Option<&'a [u8]>,
}

/// The response is not JSON, or not of the expected format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed or truncated response")]
pub(crate) struct Malformed;

/// Incremental parser of a response; keeps its state between chunks.
#[derive(Debug)]
pub(crate) struct Splitter {
    framing: Framing,
    excluded: &'static [ExcludedField],
    most_weight: usize,
    token: Token,
    /// Whether the next byte of a string or key follows a backslash.
    is_escaped: bool,
    frames: Vec<Frame>,
    key: Vec<u8>,
    /// Path match of the value that comes next.
    position: PathMatch,
    /// Number of open brackets of an excluded value; `None` outside of one.
    skipped: Option<usize>,
    /// Number of frames around the current object.
    item: Option<usize>,
    captured: Option<Capture>,
    names: [String; 3],
    text: Vec<u8>,
    weight: usize,
    envelope: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    None,
    Key,
    String,
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
    /// The list `items`, whose elements are the objects.
    Items,
}

impl Splitter {
    /// Starts a response. Only the first 32 excluded fields have an effect.
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
            is_escaped: false,
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

    /// Consumes the next bytes and passes the parts that they complete to `found`.
    pub(crate) fn push(
        &mut self,
        bytes: &[u8],
        mut found: impl FnMut(Piece<'_>),
    ) -> Result<(), Malformed> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = match self.token {
                Token::Key | Token::String => self.string(rest, &mut found)?,
                Token::Number => self.number(rest, &mut found)?,
                Token::None if self.skipped.is_some() => self.skip(rest),
                Token::None => self.structure(rest, &mut found)?,
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// Ends the response. Fails if it is incomplete.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        let is_whole =
            self.frames.is_empty() && self.token == Token::None && self.skipped.is_none();
        if is_whole { Ok(()) } else { Err(Malformed) }
    }

    /// Consumes a part of a string or key, up to its end or that of the bytes.
    fn string(
        &mut self,
        bytes: &[u8],
        found: &mut impl FnMut(Piece<'_>),
    ) -> Result<usize, Malformed> {
        let is_key = self.token == Token::Key;
        if std::mem::take(&mut self.is_escaped) {
            self.string_part(is_key, bytes.get(..1).unwrap_or_default())?;
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
                self.is_escaped = true;
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

    /// Consumes a part of a number or literal, up to its end or that of the bytes.
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

    /// Skips an excluded value up to its next bracket or string.
    fn skip(&mut self, bytes: &[u8]) -> usize {
        let open = self.skipped.unwrap_or_default();
        let is_structure = |byte: &u8| {
            matches!(byte, b'"' | b'{' | b'[' | b']' | b'}') || (open == 0 && *byte == b',')
        };
        let Some(at) = bytes.iter().position(is_structure) else {
            return bytes.len();
        };
        match (bytes.get(at), open) {
            (Some(b'"'), _) => self.token = Token::String,
            (Some(b'{' | b'['), _) => self.skipped = Some(open + 1),
            // A number or literal ends where its container continues.
            (_, 0) => {
                self.skipped = None;
                return at;
            }
            (_, 1) => self.skipped = None,
            _ => self.skipped = Some(open - 1),
        }
        at + 1
    }

    /// Consumes one byte outside of strings and numbers.
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
                self.token = Token::Key;
            }
            _ => return self.value(byte),
        }
        Ok(1)
    }

    /// Starts a value with its first byte, which is not consumed yet if it starts a number.
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
                self.token = Token::String;
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

    /// Writes a complete key, or starts skipping its value.
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

    /// The field that the string which begins now captures, if any.
    fn capture(&self) -> Option<Capture> {
        let in_object = self
            .frames
            .last()
            .is_some_and(|frame| frame.bracket == Bracket::Object);
        self.position
            .capture
            .filter(|_| self.item.is_some() && in_object)
    }

    fn begin_item(&mut self, depth: usize) -> Result<(), Malformed> {
        if self.framing == Framing::Events {
            self.write(b"null")?;
        }
        self.item = Some(depth);
        self.position = PathMatch::OBJECT;
        self.text.clear();
        self.weight = 0;
        self.names.iter_mut().for_each(String::clear);
        Ok(())
    }

    /// Passes on the object or document that ends with this value.
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
