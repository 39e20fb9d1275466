//! The imports of a Rust file, read from its tokens: `use` trees and paths in code alike, except those of its tests.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::iter::Peekable;

/// A path that a file names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// As written: begins with `crate`, `self`, `super`, or a name.
    pub path: Vec<String>,
    /// Its local name.
    pub name: Option<String>,
    /// Whether it is a `use` visible to others.
    pub offers: bool,
    pub line: usize,
}

type Tokens = Peekable<std::vec::IntoIter<TokenTree>>;

/// Every path of at least two names, in the order of the file.
pub fn read(source: &str) -> Result<Vec<Import>, String> {
    let tokens: TokenStream = source.parse().map_err(|e| format!("is no Rust: {e}"))?;
    let mut found = Vec::new();
    items(tokens, &mut found);
    Ok(found)
}

fn items(tokens: TokenStream, found: &mut Vec<Import>) {
    let mut tokens: Tokens = tokens
        .into_iter()
        .collect::<Vec<_>>()
        .into_iter()
        .peekable();
    let mut seen_by_others = false;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(p) if p.as_char() == '#' => {
                if let Some(TokenTree::Group(g)) = tokens.peek()
                    && g.to_string().replace(' ', "") == "[cfg(test)]"
                {
                    skip_item(&mut tokens);
                }
            }
            TokenTree::Ident(i) if i == "pub" => {
                seen_by_others = true;
                tokens.next_if(
                    |t| matches!(t, TokenTree::Group(g) if g.delimiter() == Delimiter::Parenthesis),
                );
                continue;
            }
            TokenTree::Ident(i) if i == "use" => {
                let from = found.len();
                tree(&mut tokens, &[], found);
                found[from..]
                    .iter_mut()
                    .for_each(|i| i.offers = seen_by_others);
            }
            TokenTree::Ident(i) => {
                let line = i.span().start().line;
                path(vec![i.to_string()], line, &mut tokens, found);
            }
            TokenTree::Group(g) => items(g.stream(), found),
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
        seen_by_others = false;
    }
}

/// The item after an attribute: up to its body or its end.
fn skip_item(tokens: &mut Tokens) {
    tokens.next();
    for token in tokens.by_ref() {
        match token {
            TokenTree::Group(g) if g.delimiter() == Delimiter::Brace => return,
            TokenTree::Punct(p) if p.as_char() == ';' => return,
            _ => {}
        }
    }
}

/// Takes `::`; false when there is none.
fn colons(tokens: &mut Tokens) -> bool {
    let colon = |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == ':');
    let mut ahead = tokens.clone();
    if ahead.next().as_ref().is_none_or(|t| !colon(t))
        || ahead.next().as_ref().is_none_or(|t| !colon(t))
    {
        return false;
    }
    *tokens = ahead;
    true
}

/// The rest of a path in code, of which `names` were read.
fn path(mut names: Vec<String>, line: usize, tokens: &mut Tokens, found: &mut Vec<Import>) {
    while colons(tokens) {
        match tokens.peek() {
            Some(TokenTree::Ident(i)) => names.push(i.to_string()),
            _ => break,
        }
        tokens.next();
    }
    if names.len() > 1 {
        found.push(Import {
            path: names,
            name: None,
            offers: false,
            line,
        });
    }
}

/// The tree after `use`, or inside its braces.
fn tree(tokens: &mut Tokens, above: &[String], found: &mut Vec<Import>) {
    let mut names = above.to_vec();
    let mut line = 0;
    loop {
        match tokens.next() {
            Some(TokenTree::Ident(i)) if i == "as" => {
                let name = tokens.next().map(|t| t.to_string());
                if let Some(last) = found.last_mut() {
                    last.name = name;
                }
            }
            Some(TokenTree::Ident(i)) => {
                line = i.span().start().line;
                names.push(i.to_string());
                if !colons(tokens) {
                    // `self` in braces is the module itself.
                    if names.len() > above.len() && i == "self" && !above.is_empty() {
                        names.pop();
                    }
                    found.push(Import {
                        name: names.last().cloned(),
                        path: std::mem::replace(&mut names, above.to_vec()),
                        offers: false,
                        line,
                    });
                }
            }
            Some(TokenTree::Group(g)) => {
                let mut inner: Tokens = g
                    .stream()
                    .into_iter()
                    .collect::<Vec<_>>()
                    .into_iter()
                    .peekable();
                while inner.peek().is_some() {
                    tree(&mut inner, &names, found);
                }
                names = above.to_vec();
            }
            Some(TokenTree::Punct(p)) if p.as_char() == '*' => found.push(Import {
                name: None,
                path: std::mem::replace(&mut names, above.to_vec()),
                offers: false,
                line,
            }),
            Some(TokenTree::Punct(p)) if matches!(p.as_char(), ';' | ',') => return,
            Some(_) => {}
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_from_use_trees_and_from_code() {
        let check = |source: &str, paths: &[&str]| {
            let read = read(source).unwrap();
            let found: Vec<String> = read.iter().map(|i| i.path.join("::")).collect();
            assert_eq!(found, paths, "{source}");
        };
        check("use crate::a::B;", &["crate::a::B"]);
        check(
            "use crate::{a::{self, C as D}, e};",
            &["crate::a", "crate::a::C", "crate::e"],
        );
        check("pub(crate) use a::*;", &["a"]);
        check("fn f() { x(crate::a::g()) }", &["crate::a::g"]);
        check("println!(\"{}\", super::a::N)", &["super::a::N"]);
        check(
            "#[cfg(test)] mod tests { use crate::a::B; } use crate::c;",
            &["crate::c"],
        );
        check("#[cfg(test)] mod tests; fn f(a: b::C) {}", &["b::C"]);
        check("// use crate::a::B;", &[]);
    }

    #[test]
    fn re_exports_have_their_new_name() {
        let read = read("pub use a::B as C;\nuse d::E;").unwrap();
        let seen: Vec<_> = read
            .iter()
            .map(|i| (i.name.as_deref(), i.offers, i.line))
            .collect();
        assert_eq!(seen, [(Some("C"), true, 1), (Some("E"), false, 2)]);
    }
}
