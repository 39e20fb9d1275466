//! A TOML table with lines: values by key, and complaints about keys that nobody asked for.

use super::problem::Problem;
use std::cell::RefCell;
use std::collections::BTreeSet;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where a text's lines begin, and what was found wrong in it.
pub(super) struct Source {
    file: String,
    starts: Vec<usize>,
    problems: RefCell<Vec<Problem>>,
}

impl Source {
    pub(super) fn new(file: &str, text: &str) -> Source {
        let starts = text.bytes().enumerate().filter(|(_, b)| *b == b'\n');
        Source {
            file: file.to_owned(),
            starts: starts.map(|(i, _)| i).collect(),
            problems: RefCell::default(),
        }
    }

    /// The line of a byte, counted from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|&end| end < at) + 1
    }

    pub(super) fn complain(&self, line: usize, what: impl Into<String>, remedy: impl Into<String>) {
        self.complain_of(&self.file, line, what, remedy);
    }

    /// … about another file that the inventory names.
    pub(super) fn complain_of(
        &self,
        file: &str,
        line: usize,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.problems.borrow_mut().push(Problem {
            file: file.to_owned(),
            line,
            what: what.into(),
            remedy: remedy.into(),
        });
    }

    /// What was found wrong so far, by lines.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let mut all = self.problems.take();
        all.sort_by_key(|p| p.line);
        all
    }
}

/// A value with its line.
#[derive(Clone, Copy)]
pub(super) struct Value<'a> {
    value: &'a DeValue<'a>,
    pub(super) line: usize,
    source: &'a Source,
}

/// A table with its line; each key that is asked for counts as known.
pub(super) struct Table<'a> {
    map: &'a DeTable<'a>,
    known: RefCell<BTreeSet<String>>,
    pub(super) line: usize,
    pub(super) source: &'a Source,
    /// As messages call it: `net.mgmt`.
    pub(super) what: String,
}

impl<'a> Table<'a> {
    pub(super) fn new(
        map: &'a DeTable<'a>,
        line: usize,
        source: &'a Source,
        what: &str,
    ) -> Table<'a> {
        Table {
            map,
            known: RefCell::default(),
            line,
            source,
            what: what.to_owned(),
        }
    }

    /// The value of a key, if it is there.
    pub(super) fn get(&self, key: &str) -> Option<Value<'a>> {
        self.known.borrow_mut().insert(key.to_owned());
        let (k, v) = self.map.iter().find(|(k, _)| k.get_ref() == key)?;
        Some(self.value(k, v))
    }

    fn value(
        &self,
        key: &'a Spanned<toml::de::DeString<'a>>,
        value: &'a Spanned<DeValue<'a>>,
    ) -> Value<'a> {
        Value {
            value: value.get_ref(),
            line: self.source.line(key.span().start),
            source: self.source,
        }
    }

    /// All keys that nobody has asked for yet, in the order of the file.
    pub(super) fn others(&self) -> Vec<(&'a str, Value<'a>)> {
        let known = self.known.borrow();
        let mut others: Vec<_> = (self.map.iter())
            .filter(|(k, _)| !known.contains(k.get_ref().as_ref()))
            .map(|(k, v)| (k.span().start, k.get_ref().as_ref(), self.value(k, v)))
            .collect();
        others.sort_by_key(|(at, ..)| *at);
        others.into_iter().map(|(_, k, v)| (k, v)).collect()
    }

    /// Complains about keys that nobody has asked for.
    pub(super) fn finish(&self) {
        for (key, value) in self.others() {
            let known: Vec<String> = self.known.borrow().iter().cloned().collect();
            let remedy = format!("known here: {}", known.join(", "));
            let what = format!("`{key}` is not known in {}", self.what);
            self.source.complain(value.line, what, remedy);
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.get(key)?.text(key)
    }

    pub(super) fn flag(&self, key: &str) -> bool {
        let Some(value) = self.get(key) else {
            return false;
        };
        let flag = value.value.as_bool();
        if flag.is_none() {
            value.wrong(key, "true or false");
        }
        flag.unwrap_or(false)
    }

    /// A number from `low` to `high`.
    pub(super) fn number(&self, key: &str, low: u32, high: u32) -> Option<u32> {
        let value = self.get(key)?;
        let number = value.value.as_integer().and_then(|i| match i.radix() {
            10 => i.as_str().replace('_', "").parse::<u32>().ok(),
            _ => None,
        });
        let number = number.filter(|n| (low..=high).contains(n));
        if number.is_none() {
            value.wrong(key, &format!("a number from {low} to {high}"));
        }
        number
    }

    /// A text that `T` can read; `form` is what it should look like.
    pub(super) fn parsed<T: std::str::FromStr>(&self, key: &str, form: &str) -> Option<T> {
        let value = self.get(key)?;
        let parsed = value.text(key)?.parse();
        if parsed.is_err() {
            value.wrong(key, form);
        }
        parsed.ok()
    }

    pub(super) fn texts(&self, key: &str) -> Option<Vec<&'a str>> {
        self.get(key)?.texts(key)
    }

    pub(super) fn table(&self, key: &str) -> Option<Table<'a>> {
        let value = self.get(key)?;
        let table = value.table(&format!("{}.{key}", self.what));
        if table.is_none() {
            value.wrong(key, "a table");
        }
        table
    }
}

impl<'a> Value<'a> {
    pub(super) fn wrong(&self, key: &str, form: &str) {
        let what = format!("`{key}` should be {form}");
        let remedy = format!("write it so, or leave `{key}` out");
        self.source.complain(self.line, what, remedy);
    }

    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        let text = self.value.as_str();
        if text.is_none() {
            self.wrong(key, "a text in quotes");
        }
        text
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.is_table()
    }

    pub(super) fn table(&self, what: &str) -> Option<Table<'a>> {
        let map = self.value.as_table()?;
        Some(Table::new(map, self.line, self.source, what))
    }

    /// A list of texts; one text alone is a list of one.
    pub(super) fn texts(&self, key: &str) -> Option<Vec<&'a str>> {
        if let Some(one) = self.value.as_str() {
            return Some(vec![one]);
        }
        let list = self.value.as_array();
        let texts: Option<Vec<&str>> =
            list.and_then(|l| l.iter().map(|v| v.get_ref().as_str()).collect());
        if texts.is_none() {
            self.wrong(key, "a text or a list of texts");
        }
        texts
    }

    /// A list of lists of texts.
    pub(super) fn lists(&self, key: &str) -> Option<Vec<Vec<&'a str>>> {
        let one = |v: &'a Spanned<DeValue<'a>>| -> Option<Vec<&'a str>> {
            v.get_ref()
                .as_array()?
                .iter()
                .map(|t| t.get_ref().as_str())
                .collect()
        };
        let lists: Option<Vec<_>> = self
            .value
            .as_array()
            .and_then(|l| l.iter().map(one).collect());
        if lists.is_none() {
            self.wrong(key, "a list of pairs");
        }
        lists
    }
}
