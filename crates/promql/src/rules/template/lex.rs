//! Lexer: splits a template into text and actions, and an action into words.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    /// Content between `<<` and `>>`, with its text for messages.
    Action(Vec<Word>, String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    Dot,
    /// `.Name`
    Field(String),
    /// `$` (empty) or `$name`
    Variable(String),
    /// A name right after a field or a variable: `.Name.member`, `$.Name`.
    Member(String),
    /// A name: a keyword or a function.
    Name(String),
    /// A quoted string.
    Text(String),
    /// An integer.
    Number(i64),
    /// `(`, `)`, `|`, `,` or `:=`
    Sign(&'static str),
}

/// The pieces of a template, with `-` applied and comments removed.
pub(super) fn pieces(template: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = template;
    let mut trims = false;
    loop {
        let (text, action) = match rest.split_once("<<") {
            Some((text, action)) => (text, Some(action)),
            None => (rest, None),
        };
        let mut text = if trims { text.trim_start() } else { text };
        let Some(action) = action else {
            push(&mut pieces, text);
            return Ok(pieces);
        };
        let length =
            end(action).ok_or_else(|| format!("<<{} is not closed by >>", excerpt(action)))?;
        let (mut inner, after) = (&action[..length], &action[length + 2..]);
        if inner.starts_with('-') && inner[1..].starts_with(char::is_whitespace) {
            inner = &inner[1..];
            text = text.trim_end();
        }
        trims = inner.ends_with('-') && inner[..inner.len() - 1].ends_with(char::is_whitespace);
        if trims {
            inner = &inner[..inner.len() - 1];
        }
        push(&mut pieces, text);
        let inner = inner.trim();
        if !(inner.starts_with("/*") && inner.ends_with("*/") && inner.len() >= 4) {
            pieces.push(Piece::Action(words(inner)?, excerpt(inner)));
        }
        rest = after;
    }
}

fn push(pieces: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

fn excerpt(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Position of `>>` outside quotes.
fn end(action: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (index, letter) in action.char_indices() {
        match quote {
            _ if escaped => escaped = false,
            Some('"') if letter == '\\' => escaped = true,
            Some(open) if letter == open => quote = None,
            None if matches!(letter, '"' | '`') => quote = Some(letter),
            None if action[index..].starts_with(">>") => return Some(index),
            _ => {}
        }
    }
    None
}

fn words(action: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = action.trim_start();
    let mut is_adjacent = false;
    while let Some(first) = rest.chars().next() {
        let (word, length) = match first {
            '.' => {
                let name = name_at(&rest[1..]);
                let follows = is_adjacent
                    && matches!(
                        words.last(),
                        Some(Word::Field(_) | Word::Variable(_) | Word::Member(_))
                    );
                let word = match name {
                    "" => Word::Dot,
                    name if follows => Word::Member(name.to_owned()),
                    name => Word::Field(name.to_owned()),
                };
                (word, 1 + name.len())
            }
            '$' => {
                let name = name_at(&rest[1..]);
                (Word::Variable(name.to_owned()), 1 + name.len())
            }
            '"' => quoted(rest)?,
            '`' => raw(rest)?,
            '(' => (Word::Sign("("), 1),
            ')' => (Word::Sign(")"), 1),
            '|' => (Word::Sign("|"), 1),
            ',' => (Word::Sign(","), 1),
            ':' if rest.starts_with(":=") => (Word::Sign(":="), 2),
            '0'..='9' | '-' => number(rest)?,
            _ => {
                let name = name_at(rest);
                if name.is_empty() {
                    return Err(format!("unexpected {first:?} in <<{}>>", excerpt(action)));
                }
                (Word::Name(name.to_owned()), name.len())
            }
        };
        words.push(word);
        is_adjacent = !rest[length..].starts_with(char::is_whitespace);
        rest = rest[length..].trim_start();
    }
    Ok(words)
}

/// The letters, digits and underscores at the start.
fn name_at(text: &str) -> &str {
    let end = text
        .find(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
        .unwrap_or(text.len());
    &text[..end]
}

fn quoted(text: &str) -> Result<(Word, usize), String> {
    let mut value = String::new();
    let mut letters = text.char_indices().skip(1);
    while let Some((index, letter)) = letters.next() {
        match letter {
            '"' => return Ok((Word::Text(value), index + 1)),
            '\\' => match letters.next().map(|(_, letter)| letter) {
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some(letter @ ('"' | '\\')) => value.push(letter),
                _ => {
                    return Err(format!("an escape in {} is not supported", excerpt(text)));
                }
            },
            letter => value.push(letter),
        }
    }
    Err(format!("{} is not closed", excerpt(text)))
}

fn raw(text: &str) -> Result<(Word, usize), String> {
    let end = text[1..]
        .find('`')
        .ok_or_else(|| format!("{} is not closed", excerpt(text)))?;
    Ok((Word::Text(text[1..=end].to_owned()), end + 2))
}

fn number(text: &str) -> Result<(Word, usize), String> {
    let digits = text[1..]
        .find(|letter: char| !letter.is_ascii_digit())
        .map_or(text.len(), |end| end + 1);
    let number = text[..digits].parse();
    let number = number.map_err(|_| format!("{} is not an integer", excerpt(&text[..digits])))?;
    Ok((Word::Number(number), digits))
}
