//! Evaluation of templates.

use std::cmp::Ordering;

use super::parse::{Expression, Function, Node};
use super::value::Value;
use super::{Fields, TemplateError};

/// Evaluates a template, with limited output.
pub(super) fn evaluate(
    nodes: &[Node],
    fields: &Fields,
    max_bytes: usize,
) -> Result<String, TemplateError> {
    let mut scope = Scope {
        fields,
        variables: Vec::new(),
        dot: Value::Bool(false),
        output: String::new(),
        max_bytes,
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
    max_bytes: usize,
}

impl<'a> Scope<'a> {
    fn run(&mut self, nodes: &'a [Node]) -> Result<(), TemplateError> {
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
                Node::If(branches, otherwise) => self.choose(branches, otherwise)?,
                Node::Range {
                    names,
                    over,
                    body,
                    otherwise,
                } => {
                    let elements = elements(self.value(over)?)?;
                    if elements.is_empty() {
                        self.run(otherwise)?;
                    }
                    for (key, element) in elements {
                        let key = names.key.as_deref().map(|name| (name, key));
                        let named = names.element.as_deref().map(|name| (name, element.clone()));
                        self.run_with(element, key.into_iter().chain(named), body)?;
                    }
                }
                Node::With {
                    name,
                    value,
                    body,
                    otherwise,
                } => {
                    let value = self.value(value)?;
                    if value.holds() {
                        let named = name.as_deref().map(|name| (name, value.clone()));
                        self.run_with(value, named, body)?;
                    } else {
                        self.run(otherwise)?;
                    }
                }
            }
        }
        self.variables.truncate(known);
        Ok(())
    }

    fn choose(
        &mut self,
        branches: &'a [(Expression, Vec<Node>)],
        otherwise: &'a [Node],
    ) -> Result<(), TemplateError> {
        for (condition, body) in branches {
            if self.value(condition)?.holds() {
                return self.run(body);
            }
        }
        self.run(otherwise)
    }

    fn run_with(
        &mut self,
        dot: Value,
        variables: impl IntoIterator<Item = (&'a str, Value)>,
        body: &'a [Node],
    ) -> Result<(), TemplateError> {
        let known = self.variables.len();
        self.variables.extend(variables);
        let outer = std::mem::replace(&mut self.dot, dot);
        let ran = self.run(body);
        self.dot = outer;
        self.variables.truncate(known);
        ran
    }

    fn print(&mut self, text: &str) -> Result<(), TemplateError> {
        if self.output.len() + text.len() > self.max_bytes {
            return Err(TemplateError::new(format!(
                "the text is longer than {} bytes",
                self.max_bytes
            )));
        }
        self.output.push_str(text);
        Ok(())
    }

    fn value(&self, expression: &Expression) -> Result<Value, TemplateError> {
        match expression {
            Expression::Dot => Ok(self.dot.clone()),
            Expression::Field(name) => {
                let value = self.fields.get(name.as_str());
                value
                    .cloned()
                    .ok_or_else(|| TemplateError::new(format!("there is no field .{name}")))
            }
            Expression::Member(name, member) => match self.fields.get(name.as_str()) {
                Some(Value::Map(map)) => {
                    Ok(map.get(member).cloned().map_or(Value::Nothing, Value::Text))
                }
                _ => Err(TemplateError::new(format!(
                    "there is no field .{member} of .{name}"
                ))),
            },
            Expression::Variable(name) => {
                let variable = self.variables.iter().rev().find(|(known, _)| known == name);
                let value = variable.map(|(_, value)| value.clone());
                value.ok_or_else(|| TemplateError::new(format!("there is no variable ${name}")))
            }
            Expression::Text(text) => Ok(Value::Text(text.clone())),
            Expression::Number(number) => Ok(Value::Number(*number)),
            Expression::Bool(bool) => Ok(Value::Bool(*bool)),
            Expression::Call(function, arguments) => self.call(*function, arguments),
        }
    }

    fn call(&self, function: Function, arguments: &[Expression]) -> Result<Value, TemplateError> {
        if let Function::And | Function::Or = function {
            return self.first_that(function == Function::Or, arguments);
        }
        let values = arguments
            .iter()
            .map(|argument| self.value(argument))
            .collect::<Result<Vec<_>, _>>()?;
        match (function, values.as_slice()) {
            (Function::Index, [of, at]) => index(of, at),
            (Function::Len, [value]) => length(value),
            (Function::Not, [value]) => Ok(Value::Bool(!value.holds())),
            (Function::Ne, [one, other]) => Ok(Value::Bool(order(one, other)?.is_ne())),
            (Function::Lt, [one, other]) => Ok(Value::Bool(order(one, other)?.is_lt())),
            (Function::Le, [one, other]) => Ok(Value::Bool(order(one, other)?.is_le())),
            (Function::Gt, [one, other]) => Ok(Value::Bool(order(one, other)?.is_gt())),
            (Function::Ge, [one, other]) => Ok(Value::Bool(order(one, other)?.is_ge())),
            (Function::Eq, [one, others @ ..]) => {
                let orders = others
                    .iter()
                    .map(|other| order(one, other))
                    .collect::<Result<Vec<_>, _>>()?;
                Ok(Value::Bool(orders.contains(&Ordering::Equal)))
            }
            _ => Err(TemplateError::new("a function has too few values")),
        }
    }

    /// The first value whose truth equals `holds`, or else the last one.
    fn first_that(&self, holds: bool, arguments: &[Expression]) -> Result<Value, TemplateError> {
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

fn elements(value: Value) -> Result<Vec<(Value, Value)>, TemplateError> {
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
        other => Err(TemplateError::new(format!("range cannot go over {other}"))),
    }
}

fn index(of: &Value, at: &Value) -> Result<Value, TemplateError> {
    match (of, at) {
        (Value::Map(map), Value::Text(name)) => {
            Ok(Value::Text(map.get(name).cloned().unwrap_or_default()))
        }
        (Value::List(list), Value::Number(at)) => {
            let text = usize::try_from(*at)
                .ok()
                .and_then(|at| list.get(at))
                .cloned();
            let missing = || {
                TemplateError::new(format!(
                    "index {at} is out of range: there are only {}",
                    list.len()
                ))
            };
            text.map(Value::Text).ok_or_else(missing)
        }
        _ => Err(TemplateError::new(
            "index takes a map and a name, or a list and a number",
        )),
    }
}

fn length(value: &Value) -> Result<Value, TemplateError> {
    let length = match value {
        Value::Text(text) => text.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        other => return Err(TemplateError::new(format!("len of {other} does not exist"))),
    };
    Ok(Value::Number(i64::try_from(length).unwrap_or(i64::MAX)))
}

fn order(one: &Value, other: &Value) -> Result<Ordering, TemplateError> {
    match (one, other) {
        (Value::Text(one), Value::Text(other)) => Ok(one.cmp(other)),
        (Value::Number(one), Value::Number(other)) => Ok(one.cmp(other)),
        (Value::Bool(one), Value::Bool(other)) => Ok(one.cmp(other)),
        _ => Err(TemplateError::new(format!(
            "{one} and {other} cannot be compared"
        ))),
    }
}
