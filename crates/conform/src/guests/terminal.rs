//! Programs on a terminal: texts to wait for, keys to press.
//!
//! The terminal's output is not filtered before it is compared (except for full-screen programs), so a script must
//! press keys only after it has seen that the program waits for them, and must not make anything print a pid, a time or
//! two things at once.

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
    /// The bytes depend on when keys come: the final screen is compared.
    pub screen: bool,
    pub needs: &'static [(&'static str, &'static str)],
}

use Step::{Press, See};

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_Z: &str = "\x1a";
const CTRL_BACKSLASH: &str = "\x1c";

/// Runs until interrupted, prints a line when it starts and when it is continued. It starts no program: a Ctrl-Z
/// between vfork and exec stops the child alone, natively too, and the shell waits forever.
const LOOP: &str = "sh -c 'trap \"echo back\" CONT; echo up; while :; do :; done'\r";

/// Long enough for several moves, on both sides of a fork.
const TICKS: &str = "for i in 1 2 3 4 5 6 7 8; do sleep 0.1; echo tick $i; done; echo slept\r";

const JOB_CONTROL: &[Step] = &[
    See("$ "),
    Press("PS1='ready> '\r"),
    See("\nready> "),
    Press("stty -a | head -1; tty > /dev/null && echo a tty\r"),
    See("\na tty\r\nready> "),
    Press(TICKS),
    See("\nslept\r\nready> "),
    // Ctrl-C ends a command, the shell goes on.
    Press(LOOP),
    See("\nup\r\n"),
    Press(CTRL_C),
    See("ready> "),
    Press("echo status $?\r"),
    See("\nstatus 130\r\nready> "),
    // Ctrl-Z stops, fg continues, Ctrl-C ends.
    Press(LOOP),
    See("\nup\r\n"),
    Press(CTRL_Z),
    See("ready> "),
    Press("echo status $?\r"),
    See("\nstatus 148\r\nready> "),
    Press("jobs\r"),
    See("ready> "),
    Press("fg\r"),
    See("\nback\r\n"),
    Press(CTRL_C),
    See("ready> "),
    // End of file, a busy loop, Ctrl-\.
    // With line editing the terminal is still raw when the command is echoed: wait for a word.
    Press("echo now; cat\r"),
    See("\nnow\r\n"),
    Press("a line\r"),
    See("a line\r\na line\r\n"),
    Press(CTRL_D),
    See("ready> "),
    Press("echo go; while :; do :; done\r"),
    See("\ngo\r\n"),
    Press(CTRL_C),
    See("ready> "),
    Press("sh -c 'echo on; exec sleep 100'\r"),
    See("\non\r\n"),
    Press(CTRL_BACKSLASH),
    See("ready> "),
    Press("exit 3\r"),
];

const PYTHON: &[Step] = &[
    See(">>> "),
    Press("1 + 1\r"),
    See("\n2\r\n>>> "),
    Press("def f(n):\r"),
    See("... "),
    Press("    return n * 2\r"),
    See("... "),
    Press("\r"),
    See(">>> "),
    Press("f(21)\r"),
    See("\n42\r\n>>> "),
    Press("input('name? ')\r"),
    See("\nname? "),
    Press("guest\r"),
    See("\n'guest'\r\n>>> "),
    // Ctrl-C in a sleep and in a busy loop. Caught, since a traceback would show in which line it was. The sleep is
    // short and repeated: python records a signal and checks for recorded ones before it sleeps, and a signal that
    // comes in between is handled only after that sleep, natively too.
    Press("import time\r"),
    See(">>> "),
    Press("try: print('sleeping'); exec('while 1: time.sleep(1)')\r"),
    See("... "),
    Press("except KeyboardInterrupt: print('woken')\r"),
    See("... "),
    Press("\r"),
    See("\nsleeping\r\n"),
    Press(CTRL_C),
    See("woken\r\n>>> "),
    Press("try: print('busy'); exec('while 1: 2 ** 20')\r"),
    See("... "),
    Press("except KeyboardInterrupt: print('interrupted')\r"),
    See("... "),
    Press("\r"),
    See("\nbusy\r\n"),
    Press(CTRL_C),
    See("interrupted\r\n>>> "),
    Press("[time.sleep(0.1) for i in range(8)] and 'slept'\r"),
    See("\n'slept'\r\n>>> "),
    Press("import os; os.isatty(0), os.get_terminal_size()\r"),
    See("lines=24))\r\n>>> "),
    Press("1 / 0\r"),
    See("division by zero\r\n>>> "),
    Press("import getpass; getpass.getpass()\r"),
    See("\nPassword: "),
    Press("hidden\r"),
    See("\n'hidden'\r\n>>> "),
    Press(CTRL_D),
];

const DASH: &[Step] = &[
    See("$ "),
    Press("echo one\r"),
    See("\none\r\n$ "),
    Press("read x\r"),
    See("read x\r\n"),
    // The terminal's own editing: erase a letter, kill a line.
    Press("ab\x7fc\r"),
    See("$ "),
    Press("echo $x\r"),
    See("\nac\r\n$ "),
    Press("wrong\x15echo right\r"),
    See("\nright\r\n$ "),
    Press("sh -c 'echo up; exec sleep 100'\r"),
    See("\nup\r\n"),
    Press(CTRL_C),
    See("$ "),
    Press(TICKS),
    See("\nslept\r\n$ "),
    Press("stty -echo; echo quiet\r"),
    See("\nquiet\r\n$ "),
    Press("echo unseen\r"),
    See("unseen\r\n$ "),
    Press("stty sane; stty size\r"),
    See("24 80\r\n$ "),
    Press(CTRL_D),
];

pub const SCRIPTS: &[Script] = &[
    Script {
        name: "tty-bash",
        about: "Interactive bash: Ctrl-C, Ctrl-Z, jobs, fg, Ctrl-D, Ctrl-\\.",
        command: &["/bin/bash", "--norc", "--noprofile", "--noediting", "-i"],
        steps: JOB_CONTROL,
        screen: false,
        needs: &[("bash", "bash")],
    },
    Script {
        name: "tty-bash-editing",
        about: "The same with readline, which switches the terminal for every line.",
        command: &["/bin/bash", "--norc", "--noprofile", "-i"],
        steps: JOB_CONTROL,
        screen: false,
        needs: &[("bash", "bash")],
    },
    Script {
        name: "tty-python",
        about: "Interactive python3: lines, input, Ctrl-C while sleeping and computing, getpass.",
        command: &["/usr/bin/env", "python3", "-q", "-i"],
        steps: PYTHON,
        screen: false,
        needs: &[("python3", "python3")],
    },
    Script {
        name: "tty-sh",
        about: "An interactive sh: echo, erase and kill keys, Ctrl-C, stty, end of file.",
        command: &["/bin/sh", "-i"],
        steps: DASH,
        screen: false,
        needs: &[("stty", "coreutils")],
    },
];
