//! Splits a Rust file into code, comments and strings: enough for rules about words.

/// What a byte of a source file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Code,
    Comment,
    Text,
}

/// One line with everything of another kind blanked out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub code: String,
    pub comment: String,
}

/// Lines of `source`; strings and character literals are dropped.
pub fn lines(source: &str) -> Vec<Line> {
    let mut out = vec![Line::default()];
    for (kind, c) in kinds(source) {
        if c == '\n' {
            out.push(Line::default());
            continue;
        }
        let Some(line) = out.last_mut() else { continue };
        match kind {
            Kind::Code => line.code.push(c),
            Kind::Comment => line.comment.push(c),
            Kind::Text => line.code.push(' '),
        }
    }
    out
}

fn kinds(source: &str) -> Vec<(Kind, char)> {
    let chars: Vec<char> = source.chars().collect();
    let mut out = Vec::with_capacity(chars.len());
    let mut i = 0;
    while i < chars.len() {
        let (kind, end) = token(&chars, i);
        let end = end.clamp(i + 1, chars.len());
        out.extend(chars[i..end].iter().map(|c| (kind, *c)));
        i = end;
    }
    out
}

/// The piece that starts at `i`, and where it ends.
fn token(chars: &[char], i: usize) -> (Kind, usize) {
    let at = |k: usize| chars.get(k).copied().unwrap_or('\0');
    match (at(i), at(i + 1)) {
        ('/', '/') => (Kind::Comment, find(chars, i, |k| at(k) == '\n')),
        ('/', '*') => (Kind::Comment, block(chars, i)),
        ('"', _) => (Kind::Text, quoted(chars, i + 1)),
        ('\'', '\\') => (Kind::Text, find(chars, i + 3, |k| at(k) == '\'') + 1),
        ('\'', _) if at(i + 2) == '\'' => (Kind::Text, i + 3),
        (c, _) if c.is_alphanumeric() || c == '_' => {
            let end = find(chars, i, |k| !(at(k).is_alphanumeric() || at(k) == '_'));
            let word: String = chars[i..end].iter().collect();
            let prefix = matches!(word.as_str(), "r" | "br" | "cr");
            match raw(chars, end).filter(|_| prefix) {
                Some(end) => (Kind::Text, end),
                None => (Kind::Code, end),
            }
        }
        _ => (Kind::Code, i + 1),
    }
}

fn find(chars: &[char], from: usize, stop: impl Fn(usize) -> bool) -> usize {
    (from..chars.len())
        .find(|k| stop(*k))
        .unwrap_or(chars.len())
}

/// The end of a block comment; they nest.
fn block(chars: &[char], from: usize) -> usize {
    let mut depth = 0_u32;
    let mut i = from;
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 1),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 1),
            _ => {}
        }
        i += 1;
        if depth == 0 {
            break;
        }
    }
    i
}

fn quoted(chars: &[char], from: usize) -> usize {
    let mut i = from;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    i
}

/// The end of `"…"` or `#"…"#` that starts at `from`, after an `r`.
fn raw(chars: &[char], from: usize) -> Option<usize> {
    let hashes = chars[from..].iter().take_while(|c| **c == '#').count();
    if chars.get(from + hashes) != Some(&'"') {
        return None;
    }
    let body = from + hashes + 1;
    let closes = |k: usize| {
        chars[k] == '"'
            && chars[k + 1..]
                .iter()
                .take(hashes)
                .filter(|c| **c == '#')
                .count()
                == hashes
    };
    Some(find(chars, body, closes) + 1 + hashes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_strings_are_separated() {
        let check = |source: &str, code: &str, comment: &str| {
            let got = lines(source);
            assert_eq!(got[0].code.trim_end(), code, "{source}");
            assert_eq!(got[0].comment, comment, "{source}");
        };
        check("let a = 1; // why", "let a = 1;", "// why");
        check(r#"f("no // no");"#, "f(          );", "");
        check(r##"f(r#"a " b"#);"##, "f(          );", "");
        check("fn f<'a>(c: &'a str) {}", "fn f<'a>(c: &'a str) {}", "");
        check("a /* b /* c */ d */ e", "a  e", "/* b /* c */ d */");
        check(r"x('\'', '\n', 'b')", "x(    ,     ,    )", "");
    }
}
