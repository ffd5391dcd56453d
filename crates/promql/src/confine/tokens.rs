//! Tokens of `PromQL`. Comments and white space are dropped; strings get quotes for all stores.

use std::borrow::Cow;

use super::ConfineError;

/// Longer ones first.
const SIGNS: &[&str] = &[
    "=~", "!~", "!=", "==", ">=", "<=", "=", ">", "<", "+", "-", "*", "/", "%", "^", "(", ")", "{",
    "}", "[", "]", ",", "@",
];
const UNITS: &[&str] = &["ms", "s", "m", "h", "d", "w", "y"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// The name of a metric, a label or a function, or a keyword.
    Name(&'a str),
    /// A number or a duration.
    Number(&'a str),
    /// A quoted string.
    Text(Cow<'a, str>),
    /// An operator, a bracket or a comma.
    Sign(&'static str),
}

/// The tokens of an expression, each with its offset in bytes.
pub(crate) fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, ConfineError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut in_range = false;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (length, token) = match first {
            ' ' | '\t' | '\r' | '\n' => (1, None),
            '#' => (rest.find('\n').unwrap_or(rest.len()), None),
            '"' | '\'' | '`' => {
                let length =
                    quoted(rest).ok_or_else(|| ConfineError::new(at, "the string does not end"))?;
                (length, Some(Token::Text(plain(&rest[..length]))))
            }
            // In a range it is a separator, elsewhere part of a name.
            ':' if in_range => (1, Some(Token::Sign(":"))),
            '0'..='9' | '.' => {
                let length = number(rest);
                if !is_number(&rest[..length]) {
                    return Err(ConfineError::new(
                        at,
                        "this is neither a number nor a duration",
                    ));
                }
                (length, Some(Token::Number(&rest[..length])))
            }
            letter if is_of_name(letter) => {
                let length = rest
                    .find(|letter| !is_of_name(letter))
                    .unwrap_or(rest.len());
                (length, Some(Token::Name(&rest[..length])))
            }
            other => {
                let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
                let sign = *sign.ok_or_else(|| {
                    ConfineError::new(at, format!("{other:?} is not part of an expression"))
                })?;
                in_range = if in_range { sign != "]" } else { sign == "[" };
                (sign.len(), Some(Token::Sign(sign)))
            }
        };
        tokens.extend(token.map(|token| (at, token)));
        at += length;
    }
    Ok(tokens)
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'
}

/// The length of the string at the start, with its quotes.
fn quoted(text: &str) -> Option<usize> {
    let mut letters = text.char_indices();
    let (_, quote) = letters.next()?;
    while let Some((index, letter)) = letters.next() {
        match letter {
            '\\' if quote != '`' => {
                letters.next().filter(|(_, escaped)| *escaped != '\n')?;
            }
            '\n' if quote != '`' => return None,
            letter if letter == quote => return Some(index + letter.len_utf8()),
            _ => {}
        }
    }
    None
}

/// The same string without raw quotes, which not every store supports.
fn plain(text: &str) -> Cow<'_, str> {
    match text
        .strip_prefix('`')
        .and_then(|text| text.strip_suffix('`'))
    {
        Some(inner) => Cow::Owned(super::super::query::quoted(inner)),
        None => Cow::Borrowed(text),
    }
}

/// The length of a possible number or duration at the start.
fn number(text: &str) -> usize {
    let mut before = ' ';
    let is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
    let end = text.find(|letter: char| {
        let is_sign = matches!(letter, '+' | '-') && matches!(before, 'e' | 'E') && !is_hexadecimal;
        before = letter;
        !(letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_') || is_sign)
    });
    end.unwrap_or(text.len())
}

fn is_number(text: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    if is_duration(text) {
        return true;
    }
    let (mantissa, exponent) = text
        .split_once(['e', 'E'])
        .map_or((text, None), |(one, other)| (one, Some(other)));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_mantissa = (is_digits(whole) || is_digits(fraction))
        && (whole.is_empty() || is_digits(whole))
        && (fraction.is_empty() || is_digits(fraction));
    is_mantissa
        && exponent
            .is_none_or(|exponent| is_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

fn is_duration(mut text: &str) -> bool {
    if text.is_empty() {
        return false;
    }
    while !text.is_empty() {
        let unit = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let Some(found) = UNITS
            .iter()
            .find(|known| unit.starts_with(**known))
            .filter(|_| unit.len() < text.len())
        else {
            return false;
        };
        text = &unit[found.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[Token<'_>]) {
        let found: Result<Vec<_>, _> =
            tokens(text).map(|tokens| tokens.into_iter().map(|(_, token)| token).collect());
        let expected = (!expected.is_empty()).then_some(expected);
        assert_eq!(found.as_deref().ok(), expected, "{text}: {found:?}");
    }

    #[test]
    fn numbers_durations_and_names_are_distinguished() {
        let all = [
            "1", "08", ".5", "5.", "1.5", "1e5", "1E-3", "1.5e+3", "0x1F", "5m", "1h30m", "250ms",
            "2w",
        ];
        for text in all {
            check(text, &[Token::Number(text)]);
        }
        for text in [
            "5x", "1.2.3", ".", "1e", "0x", "0xg", "1_000", "5m3", "1e5e5",
        ] {
            check(text, &[]);
        }
        check("a:b_1", &[Token::Name("a:b_1")]);
        let [open, colon, close] = ["[", ":", "]"].map(Token::Sign);
        let [five, one] = ["5m", "1m"].map(Token::Number);
        let [a, b] = ["a", ":b"].map(Token::Name);
        let range = [open.clone(), five.clone(), colon, one, close.clone()];
        check("[5m:1m]", &range);
        check("a[5m] :b", &[a, open, five, close, b]);
    }

    #[test]
    fn strings_end_where_every_store_ends_them() {
        let text = |text: &'static str| Token::Text(Cow::Borrowed(text));
        check(r#""a\"b""#, &[text(r#""a\"b""#)]);
        check(r#"'a"b'"#, &[text(r#"'a"b'"#)]);
        check(r#""\\""a""#, &[text(r#""\\""#), text(r#""a""#)]);
        check(r#"`a\` "b""#, &[text(r#""a\\""#), text(r#""b""#)]);
        check("`a\"\nb`", &[text(r#""a\"\nb""#)]);
        for open in [r#""a"#, r#""a\""#, "'a", "`a", "\"a\nb\"", "\"a\\\nb\""] {
            check(open, &[]);
        }
    }

    #[test]
    fn comments_and_white_space_are_dropped() {
        check("a # or b\n\t", &[Token::Name("a")]);
        check("a # or b", &[Token::Name("a")]);
        check("a;b", &[]);
        check("ä", &[]);
    }
}
