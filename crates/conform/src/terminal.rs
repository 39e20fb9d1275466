//! Programs on a terminal: what to wait for, what to press.

pub enum Step {
    /// Wait until this text was shown (after the last match).
    See(&'static str),
    /// Press these keys.
    Press(&'static str),
}

pub struct Script {
    pub name: &'static str,
    pub about: &'static str,
    pub command: &'static [&'static str],
    pub steps: &'static [Step],
    pub needs: &'static [(&'static str, &'static str)],
}

use Step::{Press, See};

pub const SCRIPTS: &[Script] = &[Script {
    name: "tty-sh",
    about: "A shell without line editing on a terminal: prompts, echo, end of file.",
    command: &["/bin/sh", "-i"],
    steps: &[
        See("$ "),
        Press("echo one\r"),
        See("one\r\n$ "),
        Press("\x04"),
    ],
    needs: &[("sh", "dash")],
}];
