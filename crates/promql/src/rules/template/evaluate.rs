//! Evaluation of templates.

use std::cmp::Ordering;

use super::parse::{Block, BlockKind, Expression, Node};
use super::{Fields, Value};

const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// Evaluates a template, with limited output.
pub(super) fn evaluate(nodes: &[Node], fields: &Fields) -> Result<String, String> {
    let mut scope = Scope {
        fields,
        variables: Vec::new(),
        dot: Value::Bool(false),
        output: String::new(),
    };
    scope.run(nodes)?;
    Ok(scope.output)
}

struct Scope<'a> {
    fields: &'a Fields,
    /// The last one of a name is used.
    variables: Vec<(&'a str, Value)>,
    dot: Value,
    output: String,
}

impl<'a> Scope<'a> {
    fn run(&mut self, nodes: &'a [Node]) -> Result<(), String> {
        let known = self.variables.len();
        for node in nodes {
            match node {
                Node::Text(text) => self.print(text)?,
                Node::Print(expression) => {
                    let value = self.value(expression)?;
                    self.print(&value.to_string())?;
                }
                Node::Declare(name, expression) => {
                    let value = self.value(expression)?;
                    self.variables.push((name, value));
                }
                Node::Block(block) => self.block(block)?,
            }
        }
        self.variables.truncate(known);
        Ok(())
    }

    fn block(&mut self, block: &'a Block) -> Result<(), String> {
        let value = self.value(&block.value)?;
        // The key and the dot of each run of the body.
        let runs = match block.kind {
            BlockKind::Range => elements(value)?,
            _ if !value.holds() => Vec::new(),
            BlockKind::If => vec![(value, self.dot.clone())],
            BlockKind::With => vec![(Value::Nothing, value)],
        };
        if runs.is_empty() {
            return self.run(&block.otherwise);
        }
        for (key, dot) in runs {
            let known = self.variables.len();
            match block.names.as_slice() {
                [name] => self.variables.push((name, dot.clone())),
                [of_key, name] => self
                    .variables
                    .extend([(of_key.as_str(), key), (name.as_str(), dot.clone())]),
                _ => {}
            }
            let outer = std::mem::replace(&mut self.dot, dot);
            self.run(&block.body)?;
            self.dot = outer;
            self.variables.truncate(known);
        }
        Ok(())
    }

    fn print(&mut self, text: &str) -> Result<(), String> {
        if self.output.len() + text.len() > MAX_OUTPUT_BYTES {
            return Err(format!("the text is longer than {MAX_OUTPUT_BYTES} bytes"));
        }
        self.output.push_str(text);
        Ok(())
    }

    fn value(&self, expression: &Expression) -> Result<Value, String> {
        match expression {
            Expression::Dot => Ok(self.dot.clone()),
            Expression::Field(name) => {
                let value = self.fields.get(name.as_str());
                value
                    .cloned()
                    .ok_or_else(|| format!("there is no field .{name}"))
            }
            Expression::Member(name, member) => match self.fields.get(name.as_str()) {
                Some(Value::Map(map)) => {
                    Ok(map.get(member).cloned().map_or(Value::Nothing, Value::Text))
                }
                _ => Err(format!("there is no field .{member} of .{name}")),
            },
            Expression::Variable(name) => {
                let variable = self.variables.iter().rev().find(|(known, _)| known == name);
                let value = variable.map(|(_, value)| value.clone());
                value.ok_or_else(|| format!("there is no variable ${name}"))
            }
            Expression::Text(text) => Ok(Value::Text(text.clone())),
            Expression::Number(number) => Ok(Value::Number(*number)),
            Expression::Bool(bool) => Ok(Value::Bool(*bool)),
            Expression::Call(function, arguments) => self.call(function, arguments),
        }
    }

    fn call(&self, function: &str, arguments: &[Expression]) -> Result<Value, String> {
        if let "and" | "or" = function {
            return self.first_that(function == "or", arguments);
        }
        let values = arguments.iter().map(|argument| self.value(argument));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let is = match (function, values.as_slice()) {
            ("index", [of, at]) => return index(of, at),
            ("len", [value]) => return length(value),
            ("not", [value]) => !value.holds(),
            ("eq", [one, others @ ..]) => {
                let orders = others.iter().map(|other| order(one, other));
                let orders = orders.collect::<Result<Vec<_>, _>>()?;
                orders.contains(&Ordering::Equal)
            }
            ("ne", [one, other]) => order(one, other)?.is_ne(),
            ("lt", [one, other]) => order(one, other)?.is_lt(),
            ("le", [one, other]) => order(one, other)?.is_le(),
            ("gt", [one, other]) => order(one, other)?.is_gt(),
            ("ge", [one, other]) => order(one, other)?.is_ge(),
            _ => return Err(format!("{function} does not take {} values", values.len())),
        };
        Ok(Value::Bool(is))
    }

    /// The first value whose truth equals `holds`, or else the last one.
    fn first_that(&self, holds: bool, arguments: &[Expression]) -> Result<Value, String> {
        let mut last = Value::Bool(!holds);
        for argument in arguments {
            last = self.value(argument)?;
            if last.holds() == holds {
                break;
            }
        }
        Ok(last)
    }
}

fn elements(value: Value) -> Result<Vec<(Value, Value)>, String> {
    match value {
        Value::List(list) => Ok(list
            .into_iter()
            .enumerate()
            .map(|(at, text)| (Value::Number(at as i64), Value::Text(text)))
            .collect()),
        Value::Map(map) => Ok(map
            .into_iter()
            .map(|(name, text)| (Value::Text(name), Value::Text(text)))
            .collect()),
        other => Err(format!("range cannot go over {other}")),
    }
}

fn index(of: &Value, at: &Value) -> Result<Value, String> {
    match (of, at) {
        (Value::Map(map), Value::Text(name)) => {
            Ok(Value::Text(map.get(name).cloned().unwrap_or_default()))
        }
        (Value::List(list), Value::Number(at)) => {
            let text = usize::try_from(*at)
                .ok()
                .and_then(|at| list.get(at))
                .cloned();
            let missing = || format!("index {at} is out of range: there are only {}", list.len());
            text.map(Value::Text).ok_or_else(missing)
        }
        _ => Err("index takes a map and a name, or a list and a number".to_owned()),
    }
}

fn length(value: &Value) -> Result<Value, String> {
    let length = match value {
        Value::Text(text) => text.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        other => return Err(format!("len of {other} does not exist")),
    };
    Ok(Value::Number(i64::try_from(length).unwrap_or(i64::MAX)))
}

fn order(one: &Value, other: &Value) -> Result<Ordering, String> {
    match (one, other) {
        (Value::Text(one), Value::Text(other)) => Ok(one.cmp(other)),
        (Value::Number(one), Value::Number(other)) => Ok(one.cmp(other)),
        (Value::Bool(one), Value::Bool(other)) => Ok(one.cmp(other)),
        _ => Err(format!("{one} and {other} cannot be compared")),
    }
}
