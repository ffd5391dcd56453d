//! Parser of template actions into a tree whose fields and variables all exist.

use super::TemplateError;
use super::lex::{Piece, Word, pieces};

/// Maximum nesting depth.
const MAX_DEPTH: usize = 32;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// Literal text.
    Text(String),
    /// Printed expression.
    Print(Expression),
    /// Variable declaration.
    Declare(String, Expression),
    /// The first branch whose condition is true, or else the rest.
    If(Vec<(Expression, Vec<Node>)>, Vec<Node>),
    /// Loop over elements, which are the dot and the variables, or else the rest once.
    Range {
        names: Names,
        over: Expression,
        body: Vec<Node>,
        otherwise: Vec<Node>,
    },
    /// Block with the value as the dot if it is true, or else the rest.
    With {
        name: Option<String>,
        value: Expression,
        body: Vec<Node>,
        otherwise: Vec<Node>,
    },
}

/// Variables of a range: of keys or indices, and of elements.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) key: Option<String>,
    pub(super) element: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Dot,
    Field(String),
    /// Value of a map field by name.
    Member(String, String),
    Variable(String),
    Text(String),
    Number(i64),
    Bool(bool),
    Call(Function, Vec<Expression>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Index,
    Len,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
    Not,
}

impl Function {
    fn named(name: &str) -> Result<Self, TemplateError> {
        Ok(match name {
            "index" => Self::Index,
            "len" => Self::Len,
            "eq" => Self::Eq,
            "ne" => Self::Ne,
            "lt" => Self::Lt,
            "le" => Self::Le,
            "gt" => Self::Gt,
            "ge" => Self::Ge,
            "and" => Self::And,
            "or" => Self::Or,
            "not" => Self::Not,
            _ => {
                return Err(TemplateError::new(format!(
                    "function {name:?} is not supported: only index, len, eq, ne, lt, le, gt, ge, and, or, not are"
                )));
            }
        })
    }

    fn takes(self, count: usize) -> bool {
        match self {
            Self::Index | Self::Ne | Self::Lt | Self::Le | Self::Gt | Self::Ge => count == 2,
            Self::Len | Self::Not => count == 1,
            Self::Eq => count >= 2,
            Self::And | Self::Or => count >= 1,
        }
    }
}

/// Parses a template that may use these fields.
pub(super) fn parse(text: &str, fields: &[&'static str]) -> Result<Vec<Node>, TemplateError> {
    let pieces = pieces(text)?;
    let mut parser = Parser {
        pieces: &pieces,
        fields,
        variables: Vec::new(),
        dot_has_fields: true,
        depth: 0,
    };
    let (nodes, end) = parser.block()?;
    match end {
        Stop::Over => Ok(nodes),
        Stop::Closed => Err(TemplateError::new("<<end>> without a beginning")),
        Stop::Otherwise(_) => Err(TemplateError::new(
            "<<else>> without <<if>>, <<range>> or <<with>>",
        )),
    }
}

pub(super) fn uses(nodes: &[Node], field: &str) -> bool {
    nodes.iter().any(|node| match node {
        Node::Text(_) => false,
        Node::Print(expression) | Node::Declare(_, expression) => reads(expression, field),
        Node::If(branches, otherwise) => {
            branches
                .iter()
                .any(|(condition, body)| reads(condition, field) || uses(body, field))
                || uses(otherwise, field)
        }
        Node::Range {
            over: value,
            body,
            otherwise,
            ..
        }
        | Node::With {
            value,
            body,
            otherwise,
            ..
        } => reads(value, field) || uses(body, field) || uses(otherwise, field),
    })
}

fn reads(expression: &Expression, field: &str) -> bool {
    match expression {
        Expression::Field(name) | Expression::Member(name, _) => name == field,
        Expression::Call(_, arguments) => arguments.iter().any(|argument| reads(argument, field)),
        _ => false,
    }
}

/// End of a block of nodes.
enum Stop<'a> {
    Over,
    Closed,
    /// The words after `else`.
    Otherwise(&'a [Word]),
}

struct Parser<'a> {
    pieces: &'a [Piece],
    fields: &'a [&'static str],
    variables: Vec<String>,
    /// Within a range the dot is an element, which has no fields.
    dot_has_fields: bool,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn block(&mut self) -> Result<(Vec<Node>, Stop<'a>), TemplateError> {
        if self.depth > MAX_DEPTH {
            return Err(TemplateError::new("it is nested too deep"));
        }
        self.depth += 1;
        let known = self.variables.len();
        let mut nodes = Vec::new();
        let end = loop {
            let Some((piece, rest)) = self.pieces.split_first() else {
                break Stop::Over;
            };
            self.pieces = rest;
            match piece {
                Piece::Text(text) => nodes.push(Node::Text(text.clone())),
                Piece::Action(words, text) => match words.as_slice() {
                    [Word::Name(name)] if name == "end" => break Stop::Closed,
                    [Word::Name(name), rest @ ..] if name == "else" => break Stop::Otherwise(rest),
                    words => {
                        let node = self.action(words);
                        nodes.push(node.map_err(|error| {
                            TemplateError::new(format!("{error} in <<{text}>>"))
                        })?);
                    }
                },
            }
        };
        self.variables.truncate(known);
        self.depth -= 1;
        Ok((nodes, end))
    }

    fn action(&mut self, words: &'a [Word]) -> Result<Node, TemplateError> {
        match words {
            [] => Err(TemplateError::new("an empty action")),
            [Word::Name(name), rest @ ..] if name == "if" => self.choice(rest),
            [Word::Name(name), rest @ ..] if name == "range" => self.range(rest),
            [Word::Name(name), rest @ ..] if name == "with" => self.with(rest),
            [Word::Variable(name), Word::Sign(":="), rest @ ..] if !name.is_empty() => {
                let value = self.whole(rest)?;
                self.variables.push(name.clone());
                Ok(Node::Declare(name.clone(), value))
            }
            words => Ok(Node::Print(self.whole(words)?)),
        }
    }

    fn choice(&mut self, condition: &'a [Word]) -> Result<Node, TemplateError> {
        let mut branches = Vec::new();
        let mut condition = condition;
        loop {
            let holds = self.whole(condition)?;
            let (body, end) = self.block()?;
            branches.push((holds, body));
            match end {
                Stop::Closed => return Ok(Node::If(branches, Vec::new())),
                Stop::Otherwise([Word::Name(name), rest @ ..]) if name == "if" => condition = rest,
                Stop::Otherwise([]) => {
                    let otherwise = self.last_block("if")?;
                    return Ok(Node::If(branches, otherwise));
                }
                Stop::Otherwise(_) => {
                    return Err(TemplateError::new("unexpected words after else"));
                }
                Stop::Over => return Err(TemplateError::new("there is no <<end>> for if")),
            }
        }
    }

    fn range(&mut self, words: &'a [Word]) -> Result<Node, TemplateError> {
        let (names, words) = match words {
            [
                Word::Variable(key),
                Word::Sign(","),
                Word::Variable(element),
                Word::Sign(":="),
                rest @ ..,
            ] => (
                Names {
                    key: Some(key.clone()),
                    element: Some(element.clone()),
                },
                rest,
            ),
            [Word::Variable(element), Word::Sign(":="), rest @ ..] => (
                Names {
                    key: None,
                    element: Some(element.clone()),
                },
                rest,
            ),
            rest => (Names::default(), rest),
        };
        let over = self.whole(words)?;
        let known = self.variables.len();
        self.variables
            .extend(names.key.iter().chain(&names.element).cloned());
        let (body, otherwise) = self.bodies("range")?;
        self.variables.truncate(known);
        Ok(Node::Range {
            names,
            over,
            body,
            otherwise,
        })
    }

    fn with(&mut self, words: &'a [Word]) -> Result<Node, TemplateError> {
        let (name, words) = match words {
            [Word::Variable(name), Word::Sign(":="), rest @ ..] => (Some(name.clone()), rest),
            rest => (None, rest),
        };
        let value = self.whole(words)?;
        let known = self.variables.len();
        self.variables.extend(name.clone());
        let (body, otherwise) = self.bodies("with")?;
        self.variables.truncate(known);
        Ok(Node::With {
            name,
            value,
            body,
            otherwise,
        })
    }

    /// The block with another dot, and the one after `else` with the previous dot.
    fn bodies(&mut self, keyword: &str) -> Result<(Vec<Node>, Vec<Node>), TemplateError> {
        let outer = std::mem::replace(&mut self.dot_has_fields, false);
        let (body, end) = self.block()?;
        self.dot_has_fields = outer;
        match end {
            Stop::Closed => Ok((body, Vec::new())),
            Stop::Otherwise([]) => Ok((body, self.last_block(keyword)?)),
            Stop::Otherwise(_) => Err(TemplateError::new("unexpected words after else")),
            Stop::Over => Err(TemplateError::new(format!(
                "there is no <<end>> for {keyword}"
            ))),
        }
    }

    fn last_block(&mut self, keyword: &str) -> Result<Vec<Node>, TemplateError> {
        match self.block()? {
            (nodes, Stop::Closed) => Ok(nodes),
            _ => Err(TemplateError::new(format!(
                "there is no <<end>> for {keyword}"
            ))),
        }
    }

    fn whole(&self, words: &[Word]) -> Result<Expression, TemplateError> {
        let (expression, rest) = self.pipeline(words, 0)?;
        match rest {
            [] => Ok(expression),
            [Word::Sign(")"), ..] => Err(TemplateError::new("a ) without (")),
            _ => Err(TemplateError::new("expected a function before these words")),
        }
    }

    /// `a | f b` is `f b a`.
    fn pipeline<'w>(
        &self,
        words: &'w [Word],
        depth: usize,
    ) -> Result<(Expression, &'w [Word]), TemplateError> {
        let (mut expression, mut rest) = self.command(words, None, depth)?;
        while let [Word::Sign("|"), after @ ..] = rest {
            (expression, rest) = self.command(after, Some(expression), depth)?;
        }
        Ok((expression, rest))
    }

    fn command<'w>(
        &self,
        words: &'w [Word],
        piped: Option<Expression>,
        depth: usize,
    ) -> Result<(Expression, &'w [Word]), TemplateError> {
        if let [Word::Name(name), rest @ ..] = words
            && !matches!(name.as_str(), "true" | "false")
        {
            let function = Function::named(name)?;
            let mut arguments = Vec::new();
            let mut rest = rest;
            while !matches!(rest, [] | [Word::Sign(")" | "|"), ..]) {
                let argument;
                (argument, rest) = self.operand(rest, depth)?;
                arguments.push(argument);
            }
            arguments.extend(piped);
            if !function.takes(arguments.len()) {
                return Err(TemplateError::new(format!(
                    "{name} does not take {} values",
                    arguments.len()
                )));
            }
            return Ok((Expression::Call(function, arguments), rest));
        }
        match piped {
            None => self.operand(words, depth),
            Some(_) => Err(TemplateError::new("expected a function after |")),
        }
    }

    fn operand<'w>(
        &self,
        words: &'w [Word],
        depth: usize,
    ) -> Result<(Expression, &'w [Word]), TemplateError> {
        let Some((word, rest)) = words.split_first() else {
            return Err(TemplateError::new("a value is missing"));
        };
        let expression = match word {
            Word::Dot if self.dot_has_fields => {
                return Err(TemplateError::new(
                    "the dot alone is supported only within range and with",
                ));
            }
            Word::Dot => Expression::Dot,
            Word::Field(name) if self.dot_has_fields => return self.field(name, rest),
            Word::FieldOf(variable, name) if variable.is_empty() => return self.field(name, rest),
            Word::Field(name) | Word::FieldOf(_, name) | Word::Member(name) => {
                return Err(TemplateError::new(format!(
                    "there is no field .{name} here"
                )));
            }
            Word::Variable(name) if self.variables.contains(name) => {
                Expression::Variable(name.clone())
            }
            Word::Variable(name) => {
                return Err(TemplateError::new(format!("there is no variable ${name}")));
            }
            Word::Text(text) => Expression::Text(text.clone()),
            Word::Number(number) => Expression::Number(*number),
            Word::Name(name) if name == "true" || name == "false" => {
                Expression::Bool(name == "true")
            }
            Word::Name(name) => {
                return Err(TemplateError::new(format!(
                    "{name:?} is not supported here"
                )));
            }
            Word::Sign("(") if depth < MAX_DEPTH => {
                let (expression, rest) = self.pipeline(rest, depth + 1)?;
                return match rest {
                    [Word::Sign(")"), rest @ ..] => Ok((expression, rest)),
                    _ => Err(TemplateError::new("a ( without )")),
                };
            }
            Word::Sign(sign) => return Err(TemplateError::new(format!("unexpected {sign}"))),
        };
        Ok((expression, rest))
    }

    fn field<'w>(
        &self,
        name: &str,
        rest: &'w [Word],
    ) -> Result<(Expression, &'w [Word]), TemplateError> {
        if !self.fields.contains(&name) {
            let known: Vec<String> = self
                .fields
                .iter()
                .map(|field| format!(".{field}"))
                .collect();
            return Err(TemplateError::new(format!(
                "there is no field .{name}: only {} are",
                known.join(", ")
            )));
        }
        match rest {
            [Word::Member(_), Word::Member(member), ..] => Err(TemplateError::new(format!(
                "there is no field .{member} here"
            ))),
            [Word::Member(member), rest @ ..] => {
                Ok((Expression::Member(name.to_owned(), member.clone()), rest))
            }
            rest => Ok((Expression::Field(name.to_owned()), rest)),
        }
    }
}
