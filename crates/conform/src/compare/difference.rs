//! A difference between two runs of a guest.

use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// `status`, `stdout`, `stderr`, `files`, `left`, `script`, `keeper`, `screen` or `tests`.
    pub what: String,
    /// Lines to display: `-` native, `+` the other.
    pub shown: Vec<String>,
}

impl Difference {
    pub fn new(what: &str, native: impl ToString, other: impl ToString) -> Difference {
        let shown = vec![
            format!("- {}", native.to_string()),
            format!("+ {}", other.to_string()),
        ];
        Difference {
            what: what.into(),
            shown,
        }
    }
}
