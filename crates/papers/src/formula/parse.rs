//! From text to a formula.

/// Longest formula, bytes, and most brackets within brackets: those of `papers/` are far below.
const BYTES_MAX: usize = 4000;
const DEPTH_MAX: usize = 32;

/// An expression over named values.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Number(f64),
    Name(String),
    Minus(Box<Expr>),
    /// One of `+ - * /`, and its sides.
    Of(char, Box<Expr>, Box<Expr>),
    Ceil(Box<Expr>),
    Min(Vec<Expr>),
    Max(Vec<Expr>),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Sign {
    /// As it is written.
    pub fn text(self) -> &'static str {
        match self {
            Sign::Less => "<",
            Sign::AtMost => "<=",
            Sign::More => ">",
            Sign::AtLeast => ">=",
        }
    }
}

/// Comparisons of neighbours: `a < b <= c`. There is one sign less than sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    pub sides: Vec<Expr>,
    pub signs: Vec<Sign>,
}

/// Chains that must all hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Test(pub Vec<Chain>);

impl Expr {
    /// One expression, or what is wrong with it.
    pub fn parse(text: &str) -> Result<Expr, String> {
        let mut parser = Parser::new(text)?;
        let expr = parser.sum()?;
        parser.end()?;
        Ok(expr)
    }

    /// All names in it.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Expr::Number(_) => Vec::new(),
            Expr::Name(name) => vec![name],
            Expr::Minus(of) | Expr::Ceil(of) => of.names(),
            Expr::Of(_, a, b) => [a.names(), b.names()].concat(),
            Expr::Min(of) | Expr::Max(of) => of.iter().flat_map(Expr::names).collect(),
        }
    }
}

impl Test {
    /// A test, or what is wrong with it.
    pub fn parse(text: &str) -> Result<Test, String> {
        let mut parser = Parser::new(text)?;
        let mut chains = vec![parser.chain()?];
        while parser.word("and") {
            chains.push(parser.chain()?);
        }
        parser.end()?;
        Ok(Test(chains))
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Parser<'a>, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("a formula has {BYTES_MAX} bytes at most"));
        }
        Ok(Parser {
            text,
            at: 0,
            depth: 0,
        })
    }

    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let blank = rest.len() - rest.trim_start().len();
        self.at += blank;
        &self.text[self.at..]
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn word(&mut self, word: &str) -> bool {
        let after = self.rest().strip_prefix(word);
        let found = after.is_some_and(|a| a.starts_with(char::is_whitespace));
        if found {
            self.at += word.len();
        }
        found
    }

    fn wrong(&mut self, wanted: &str) -> String {
        let at = self.at;
        let rest: String = self.rest().chars().take(20).collect();
        format!(
            "`{}`: {wanted} is missing at byte {at}, before `{rest}`",
            self.text
        )
    }

    fn end(&mut self) -> Result<(), String> {
        match self.rest() {
            "" => Ok(()),
            _ => Err(self.wrong("an operator")),
        }
    }

    fn chain(&mut self) -> Result<Chain, String> {
        let mut chain = Chain {
            sides: vec![self.sum()?],
            signs: Vec::new(),
        };
        while let Some(sign) = self.sign() {
            chain.signs.push(sign);
            chain.sides.push(self.sum()?);
        }
        match chain.signs.is_empty() {
            true => Err(self.wrong("a comparison")),
            false => Ok(chain),
        }
    }

    fn sign(&mut self) -> Option<Sign> {
        let all = [Sign::AtMost, Sign::AtLeast, Sign::Less, Sign::More];
        all.into_iter().find(|sign| self.take(sign.text()))
    }

    fn sum(&mut self) -> Result<Expr, String> {
        let mut left = self.product()?;
        while let Some(of) = ['+', '-'].into_iter().find(|c| self.take(&c.to_string())) {
            left = Expr::Of(of, Box::new(left), Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expr, String> {
        let mut left = self.unary()?;
        while let Some(of) = ['*', '/'].into_iter().find(|c| self.take(&c.to_string())) {
            left = Expr::Of(of, Box::new(left), Box::new(self.unary()?));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} brackets within brackets"));
        }
        let found = self.operand();
        self.depth -= 1;
        found
    }

    fn operand(&mut self) -> Result<Expr, String> {
        if self.take("-") {
            return Ok(Expr::Minus(Box::new(self.unary()?)));
        }
        if self.take("(") {
            let inside = self.sum()?;
            self.close()?;
            return Ok(inside);
        }
        let rest = self.rest();
        let number = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'));
        let number = &rest[..number.unwrap_or(rest.len())];
        if !number.is_empty() {
            self.at += number.len();
            let value = number.parse();
            return value.map(Expr::Number).map_err(|_| self.wrong("a number"));
        }
        let part = |c: char| c.is_ascii_alphanumeric() || "_.{}".contains(c);
        let name = &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())];
        if name.is_empty() {
            return Err(self.wrong("a value"));
        }
        self.at += name.len();
        if !self.take("(") {
            return Ok(Expr::Name(name.to_owned()));
        }
        let mut inside = vec![self.sum()?];
        while self.take(",") {
            inside.push(self.sum()?);
        }
        self.close()?;
        match (name, inside.len()) {
            ("ceil", 1) => Ok(Expr::Ceil(Box::new(inside.remove(0)))),
            ("min", _) => Ok(Expr::Min(inside)),
            ("max", _) => Ok(Expr::Max(inside)),
            _ => Err(format!(
                "`{}`: there is no such function `{name}`",
                self.text
            )),
        }
    }

    fn close(&mut self) -> Result<(), String> {
        match self.take(")") {
            true => Ok(()),
            false => Err(self.wrong("`)`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_formulas_say_what_is_missing() {
        for (text, part) in [
            ("a <", "a value is missing at byte 3"),
            ("a", "a comparison is missing"),
            ("a < b c", "an operator is missing"),
            ("(a < b", "`)` is missing"),
            ("sin(a) < 1", "no such function `sin`"),
            ("1.2.3 < a", "a number is missing"),
            ("a < b and", "an operator is missing"),
        ] {
            let e = Test::parse(text).expect_err(text);
            assert!(e.contains(part), "{text}: {e}");
        }
        let deep = "(".repeat(100_000);
        assert!(Expr::parse(&deep).is_err());
        assert!(Expr::parse(&"(".repeat(100)).is_err());
    }

    #[test]
    fn products_bind_closer_than_sums() {
        let e = Expr::parse("1 + 2 * x").expect("good");
        let Expr::Of('+', _, right) = e else {
            panic!("{e:?}")
        };
        assert!(matches!(*right, Expr::Of('*', _, _)));
    }
}
