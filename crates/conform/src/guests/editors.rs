//! Full-screen programs on a terminal: editors, and one that draws with curses.
//!
//! They draw less when several keys are waiting, so the final screen is compared.

use crate::guests::terminal::Script;
use crate::guests::terminal::Step::{self, Press, See};

const NANO: &[Step] = &[
    See("New File"),
    Press("o"),
    See("o"),
    Press("n"),
    See("n"),
    Press("e"),
    See("e"),
    Press("\r"),
    See("\x1b"),
    Press("t"),
    See("t"),
    Press("w"),
    See("w"),
    Press("o"),
    See("o"),
    // Cut the line, paste it twice.
    Press("\x0b"),
    See("\x1b"),
    Press("\x15"),
    See("two"),
    Press("\x15"),
    See("two"),
    // Write out, then look for a word.
    Press("\x0f"),
    See("Write"),
    Press("\r"),
    See("Wrote"),
    Press("\x17"),
    See("Search"),
    Press("n"),
    See("n"),
    Press("\r"),
    See("\x1b"),
    // The output of a command, which takes a while; the keys are pressed one at a time, as always.
    Press("\x14"),
    See("Execute"),
    Press("s"),
    See("s"),
    Press("\r"),
    See("ran"),
    Press("\x0f"),
    See("Write"),
    Press("\r"),
    See("Wrote"),
    Press("\x18"),
    See("left 0"),
];

const VI: &[Step] = &[
    See("[New]"),
    Press("i"),
    See("INSERT"),
    Press("a"),
    See("a"),
    Press("b"),
    See("b"),
    Press("\r"),
    See("\x1b"),
    Press("c"),
    See("c"),
    Press("\x1b"),
    See("\x1b"),
    // Yank a line, put it, join, run a filter and a command.
    Press("yyp:%s/./x/g\r"),
    See("substitutions on"),
    Press(":%!sort -r\r"),
    See("x"),
    Press(":w\r"),
    See("written"),
    Press(":!echo from; sleep 0.4; echo shell\r"),
    See("shell"),
    See("ENTER"),
    Press("\r"),
    See("x"),
    Press(":r !sleep 0.3; seq 3\r"),
    See("3 more lines"),
    Press(":wq\r"),
    See("left 0"),
];

/// Draws boxes, counts while no key comes, reads a line, ends the screen and starts it again.
const CURSES_PY: &str = "
import curses, time
def main(s):
    curses.curs_set(0) if curses.tigetstr('civis') else None
    s.addstr(0, 0, 'size %d %d' % s.getmaxyx()); s.refresh()
    w = curses.newwin(6, 30, 3, 5); w.box(); w.addstr(1, 2, 'a window', curses.A_BOLD); w.refresh()
    k = s.getkey(); s.addstr(1, 0, 'key ' + k); s.refresh()
    s.keypad(1); k = s.getch(); s.addstr(1, 20, 'arrow' if k == curses.KEY_UP else 'other %d' % k); s.refresh()
    s.timeout(60); n = 0
    while s.getch() == -1 and n < 12: n += 1; w.addstr(3, 2, 'count %2d' % n); w.refresh()
    s.timeout(-1); curses.echo(); s.addstr(12, 0, 'name? '); s.refresh()
    name = s.getstr(12, 6).decode(); s.addstr(13, 0, 'hello ' + name); s.refresh()
    s.getch(); curses.endwin(); print('\\noutside', flush=True); time.sleep(0.3); s.refresh(); s.getch()
    for i in range(20): s.scrollok(1); s.addstr(23, 0, 'row %d\\n' % i); s.refresh(); time.sleep(0.02)
    s.addstr(23, 0, 'done'); s.refresh(); s.getch()
curses.wrapper(main)
print('end')
";

const CURSES: &[Step] = &[
    See("a window"),
    Press("k"),
    See("key k"),
    Press("\x1bOA"),
    See("arrow"),
    See("10"),
    See("name? "),
    Press("x"),
    See("x"),
    Press("y"),
    See("y"),
    Press("\r"),
    See("hello xy"),
    Press(" "),
    See("outside"),
    See("hello xy"),
    Press(" "),
    See("done"),
    Press(" "),
    See("end"),
];

pub const EDITORS: &[Script] = &[
    Script {
        name: "tty-nano",
        about: "The editor nano: typing, cutting, searching, writing a file, leaving.",
        command: &[
            "/bin/sh",
            "-c",
            "echo sleep 0.7 > s; echo echo ran >> s; chmod +x s; PATH=.:$PATH TERM=vt100 nano -I note; echo left $?; cat note",
        ],
        steps: NANO,
        screen: true,
        needs: &[("nano", "nano")],
    },
    Script {
        name: "tty-vi",
        about: "The editor vi: inserting, substituting, a filter, a shell command, leaving.",
        command: &[
            "/bin/sh",
            "-c",
            "TERM=vt100 vi -u NONE -i NONE -N -n note; echo left $?; cat note",
        ],
        steps: VI,
        screen: true,
        needs: &[("vi", "vim-tiny")],
    },
    Script {
        name: "tty-curses",
        about: "python3 with curses: windows, keys, time-outs, leaving the screen and coming back.",
        command: &["/usr/bin/env", "TERM=vt100", "python3", "-c", CURSES_PY],
        steps: CURSES,
        screen: true,
        needs: &[("python3", "python3")],
    },
];
