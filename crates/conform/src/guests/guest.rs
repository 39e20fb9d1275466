//! A program that is run and moved: the origin of its text, and its requirements.

use std::borrow::Cow;

use crate::guests::terminal::Script;

#[derive(Clone)]
pub enum How {
    /// A C, C++ or Go file of `guests/`.
    Source {
        file: &'static str,
        source: &'static str,
    },
    /// A command line for `sh -c`.
    Shell { line: Cow<'static, str> },
    /// A program on a terminal, with keys to press.
    Terminal { script: &'static Script },
    /// One test file of a program's own suite.
    Suite { suite: &'static Suite, unit: String },
}

#[derive(Clone)]
pub struct Guest {
    pub name: String,
    pub about: String,
    pub how: How,
    /// Program and the Debian package that contains it.
    pub needs: &'static [(&'static str, &'static str)],
    /// By design it may never leave home; its results must still be right.
    pub stays: bool,
    /// Run only if it is named, or with `--long`.
    pub long: bool,
}

impl Guest {
    /// The text of a user's script: the only guest whose name is a path and no test file of a suite.
    pub fn own_script(&self) -> Option<&str> {
        match &self.how {
            How::Shell { line } if self.name.contains('/') => Some(line),
            _ => None,
        }
    }
}

pub struct Suite {
    pub name: &'static str,
    pub about: &'static str,
    /// Debian source package.
    pub package: &'static str,
    pub script: &'static str,
    pub shows: Shows,
    /// Program and the Debian package that contains it.
    pub needs: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    /// A line for each test, `ok NAME`, `FAIL NAME` or `skip NAME`; tests that fail natively are no reference.
    Verdicts,
    /// Output that is the same every time, compared byte for byte.
    Everything,
}

/// Whether a name matches a pattern; a trailing `*` matches any rest.
pub fn matches(want: &str, name: &str) -> bool {
    match want.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => want == name,
    }
}
