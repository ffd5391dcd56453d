//! `$(NAME)` in commands, arguments and environment values, as a kubelet expands it (upstream
//! `third_party/forked/golang/expansion`): known names are replaced, unknown ones stay as written,
//! `$$` is a plain `$`.

use std::collections::BTreeMap;

pub(super) fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) = rest
            .strip_prefix('(')
            .and_then(|inner| inner.split_once(')'))
        {
            match variables.get(name) {
                Some(value) => expanded.push_str(value),
                None => expanded.extend(["$(", name, ")"]),
            }
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let variables = [("NAME", "web"), ("EMPTY", ""), ("NESTED", "$(NAME)")];
        let variables = variables
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        assert_eq!(expand(text, &variables), expected, "{text}");
    }

    #[test]
    fn known_names_are_replaced_once() {
        check("plain", "plain");
        check("$(NAME)", "web");
        check("--id=$(NAME)-$(NAME)$(EMPTY)", "--id=web-web");
        check("$(NESTED)", "$(NAME)");
    }

    #[test]
    fn unknown_names_stay() {
        check("$(OTHER)/x", "$(OTHER)/x");
        check("$()", "$()");
    }

    #[test]
    fn a_double_dollar_is_one_dollar() {
        check("$$(NAME)", "$(NAME)");
        check("$$$(NAME)", "$web");
        check("$$$$", "$$");
    }

    #[test]
    fn unfinished_expressions_stay() {
        check("$", "$");
        check("$(NAME", "$(NAME");
        check("price: 5$ or $NAME", "price: 5$ or $NAME");
    }
}
