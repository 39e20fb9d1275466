//! Real programs, as command lines for `sh -c` in an empty directory.
//!
//! Each line must show the same every time: no random numbers, times, pids or names of temporary
//! files in what it prints or leaves.

pub struct Real {
    pub name: &'static str,
    pub about: &'static str,
    pub line: &'static str,
    /// Program and the Debian package that has it.
    pub needs: &'static [(&'static str, &'static str)],
}

/// Text that compresses and sorts like text, from numbers only.
macro_rules! text {
    ($lines:literal) => {
        concat!(
            "awk 'BEGIN { s = 7; for (i = 0; i < ",
            $lines,
            "; i++) { s = (s * 16807) % 2147483647; ",
            "print s, \"line\", i % 97, \"of some text that repeats\" } }'"
        )
    };
}

pub const REAL: &[Real] = &[Real {
    name: "bash-pipeline",
    about: "A bash pipeline of seq, sort, uniq, grep and wc with process substitution.",
    line: concat!(text!(20000), " | head -5"),
    needs: &[("bash", "bash")],
}];
