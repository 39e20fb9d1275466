//! What is wrong in an inventory: the line, and the remedy.

use std::fmt;

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file's name as the user wrote it.
    pub file: String,
    /// Counted from 1; 0: no line of its own.
    pub line: usize,
    pub what: String,
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what)?,
            line => write!(f, "{}:{line}: {}", self.file, self.what)?,
        }
        write!(f, "\n  hint: {}", self.remedy)
    }
}

/// Everything that is wrong in an inventory, in the order of its lines. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

/// Mistakes that are shown; of a broken file the first ones tell enough.
const SHOWN_MAX: usize = 20;

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().take(SHOWN_MAX).enumerate() {
            let gap = if i == 0 { "" } else { "\n" };
            write!(f, "{gap}{problem}")?;
        }
        match self.0.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Problems {}
