//! Parser of template actions into a tree whose fields and variables all exist.

use super::lex::{Piece, Word, pieces};

const MAX_DEPTH: usize = 32;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Text(String),
    Print(Expression),
    Declare(String, Expression),
    Block(Block),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockKind {
    If,
    /// The body once per element, which is the dot.
    Range,
    /// The body with the value as the dot.
    With,
}

/// The block that `<<end>>` closes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Block {
    pub(super) kind: BlockKind,
    /// Variables: of a range that of the element, and before it that of its key or index.
    pub(super) names: Vec<String>,
    pub(super) value: Expression,
    pub(super) body: Vec<Node>,
    /// The nodes after `<<else>>`; `<<else if ..>>` is a block among them.
    pub(super) otherwise: Vec<Node>,
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
    Call(&'static str, Vec<Expression>),
}

/// Functions with the least and the largest number of their values.
const FUNCTIONS: [(&str, usize, usize); 11] = [
    ("index", 2, 2),
    ("len", 1, 1),
    ("eq", 2, usize::MAX),
    ("ne", 2, 2),
    ("lt", 2, 2),
    ("le", 2, 2),
    ("gt", 2, 2),
    ("ge", 2, 2),
    ("and", 1, usize::MAX),
    ("or", 1, usize::MAX),
    ("not", 1, 1),
];

/// Parses a template that may use these fields.
pub(super) fn parse(text: &str, fields: &[&'static str]) -> Result<Vec<Node>, String> {
    let pieces = pieces(text)?;
    let mut parser = Parser {
        pieces: &pieces,
        fields,
        variables: Vec::new(),
        dot_has_fields: true,
        depth: 0,
    };
    let (nodes, end) = parser.nodes()?;
    match end {
        Stop::Over => Ok(nodes),
        Stop::Closed => Err("<<end>> without a beginning".to_owned()),
        Stop::Otherwise(_) => Err("<<else>> without <<if>>, <<range>> or <<with>>".to_owned()),
    }
}

pub(super) fn uses(nodes: &[Node], field: &str) -> bool {
    nodes.iter().any(|node| match node {
        Node::Text(_) => false,
        Node::Print(expression) | Node::Declare(_, expression) => reads(expression, field),
        Node::Block(block) => {
            reads(&block.value, field) || uses(&block.body, field) || uses(&block.otherwise, field)
        }
    })
}

fn reads(expression: &Expression, field: &str) -> bool {
    match expression {
        Expression::Field(name) | Expression::Member(name, _) => name == field,
        Expression::Call(_, arguments) => arguments.iter().any(|argument| reads(argument, field)),
        _ => false,
    }
}

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
    fn nodes(&mut self) -> Result<(Vec<Node>, Stop<'a>), String> {
        self.enter()?;
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
                        nodes.push(node.map_err(|error| format!("{error} in <<{text}>>"))?);
                    }
                },
            }
        };
        self.variables.truncate(known);
        self.depth -= 1;
        Ok((nodes, end))
    }

    fn action(&mut self, words: &'a [Word]) -> Result<Node, String> {
        match words {
            [] => Err("an empty action".to_owned()),
            [Word::Name(name), rest @ ..] if name == "if" => self.block(BlockKind::If, rest),
            [Word::Name(name), rest @ ..] if name == "range" => self.block(BlockKind::Range, rest),
            [Word::Name(name), rest @ ..] if name == "with" => self.block(BlockKind::With, rest),
            [Word::Variable(name), Word::Sign(":="), rest @ ..] if !name.is_empty() => {
                let value = self.whole(rest)?;
                self.variables.push(name.clone());
                Ok(Node::Declare(name.clone(), value))
            }
            words => Ok(Node::Print(self.whole(words)?)),
        }
    }

    fn block(&mut self, kind: BlockKind, words: &'a [Word]) -> Result<Node, String> {
        let (names, words) = match (kind, words) {
            (
                BlockKind::Range,
                [
                    Word::Variable(key),
                    Word::Sign(","),
                    Word::Variable(element),
                    Word::Sign(":="),
                    rest @ ..,
                ],
            ) => (vec![key.clone(), element.clone()], rest),
            (
                BlockKind::Range | BlockKind::With,
                [Word::Variable(name), Word::Sign(":="), rest @ ..],
            ) => (vec![name.clone()], rest),
            (_, words) => (Vec::new(), words),
        };
        let value = self.whole(words)?;
        let known = self.variables.len();
        self.variables.extend(names.iter().cloned());
        let outer = self.dot_has_fields;
        self.dot_has_fields &= kind == BlockKind::If;
        let (body, stop) = self.nodes()?;
        self.dot_has_fields = outer;
        let otherwise = match (kind, stop) {
            (_, Stop::Closed) => Vec::new(),
            (BlockKind::If, Stop::Otherwise([Word::Name(name), rest @ ..])) if name == "if" => {
                self.enter()?;
                let next = self.block(kind, rest)?;
                self.depth -= 1;
                vec![next]
            }
            (_, Stop::Otherwise([_, ..])) => return Err("unexpected words after else".to_owned()),
            (_, Stop::Otherwise([])) => match self.nodes()? {
                (nodes, Stop::Closed) => nodes,
                _ => return Err("there is no <<end>> after else".to_owned()),
            },
            (_, Stop::Over) => return Err("there is no <<end>>".to_owned()),
        };
        self.variables.truncate(known);
        Ok(Node::Block(Block {
            kind,
            names,
            value,
            body,
            otherwise,
        }))
    }

    fn enter(&mut self) -> Result<(), String> {
        if self.depth > MAX_DEPTH {
            return Err("it is nested too deep".to_owned());
        }
        self.depth += 1;
        Ok(())
    }

    fn whole(&self, words: &[Word]) -> Result<Expression, String> {
        let (expression, rest) = self.pipeline(words, 0)?;
        match rest {
            [] => Ok(expression),
            [Word::Sign(")"), ..] => Err("a ) without (".to_owned()),
            _ => Err("expected a function before these words".to_owned()),
        }
    }

    /// `a | f b` is `f b a`.
    fn pipeline<'w>(
        &self,
        words: &'w [Word],
        depth: usize,
    ) -> Result<(Expression, &'w [Word]), String> {
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
    ) -> Result<(Expression, &'w [Word]), String> {
        if let [Word::Name(name), rest @ ..] = words
            && !matches!(name.as_str(), "true" | "false")
        {
            let mut functions = FUNCTIONS.iter();
            let Some((function, least, most)) = functions.find(|(known, ..)| known == name) else {
                let known = FUNCTIONS.map(|(known, ..)| known).join(", ");
                return Err(format!(
                    "function {name:?} is not supported: only {known} are"
                ));
            };
            let mut arguments = Vec::new();
            let mut rest = rest;
            while !matches!(rest, [] | [Word::Sign(")" | "|"), ..]) {
                let argument;
                (argument, rest) = self.operand(rest, depth)?;
                arguments.push(argument);
            }
            arguments.extend(piped);
            if !(*least..=*most).contains(&arguments.len()) {
                return Err(format!("{name} does not take {} values", arguments.len()));
            }
            return Ok((Expression::Call(function, arguments), rest));
        }
        match piped {
            None => self.operand(words, depth),
            Some(_) => Err("expected a function after |".to_owned()),
        }
    }

    fn operand<'w>(
        &self,
        words: &'w [Word],
        depth: usize,
    ) -> Result<(Expression, &'w [Word]), String> {
        let Some((word, rest)) = words.split_first() else {
            return Err("a value is missing".to_owned());
        };
        let expression = match word {
            Word::Dot if self.dot_has_fields => {
                return Err("the dot alone is supported only within range and with".to_owned());
            }
            Word::Dot => Expression::Dot,
            Word::Field(name) if self.dot_has_fields => return self.field(name, rest),
            Word::Field(name) | Word::Member(name) => {
                return Err(format!("there is no field .{name} here"));
            }
            Word::Variable(variable) if let [Word::Member(name), rest @ ..] = rest => {
                return if variable.is_empty() {
                    self.field(name, rest)
                } else {
                    Err(format!("there is no field .{name} here"))
                };
            }
            Word::Variable(name) if self.variables.contains(name) => {
                Expression::Variable(name.clone())
            }
            Word::Variable(name) => {
                return Err(format!("there is no variable ${name}"));
            }
            Word::Text(text) => Expression::Text(text.clone()),
            Word::Number(number) => Expression::Number(*number),
            Word::Name(name) if name == "true" || name == "false" => {
                Expression::Bool(name == "true")
            }
            Word::Name(name) => {
                return Err(format!("{name:?} is not supported here"));
            }
            Word::Sign("(") if depth < MAX_DEPTH => {
                let (expression, rest) = self.pipeline(rest, depth + 1)?;
                return match rest {
                    [Word::Sign(")"), rest @ ..] => Ok((expression, rest)),
                    _ => Err("a ( without )".to_owned()),
                };
            }
            Word::Sign(sign) => return Err(format!("unexpected {sign}")),
        };
        Ok((expression, rest))
    }

    fn field<'w>(&self, name: &str, rest: &'w [Word]) -> Result<(Expression, &'w [Word]), String> {
        if !self.fields.contains(&name) {
            let known: Vec<String> = self
                .fields
                .iter()
                .map(|field| format!(".{field}"))
                .collect();
            return Err(format!(
                "there is no field .{name}: only {} are",
                known.join(", ")
            ));
        }
        match rest {
            [Word::Member(_), Word::Member(member), ..] => {
                Err(format!("there is no field .{member} here"))
            }
            [Word::Member(member), rest @ ..] => {
                Ok((Expression::Member(name.to_owned(), member.clone()), rest))
            }
            rest => Ok((Expression::Field(name.to_owned()), rest)),
        }
    }
}
