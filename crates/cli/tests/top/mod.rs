//! `armento top` on a real terminal: tmux runs it, reads its screen and presses keys.

use super::{ARMENTO, Node, until};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A shell on a terminal of its own, 80 by 24.
struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    /// `None` where there is no tmux.
    fn new(node: &Node) -> Option<Tmux> {
        let known = Command::new("tmux")
            .arg("-V")
            .stdout(Stdio::null())
            .status();
        known.is_ok_and(|s| s.success()).then_some(())?;
        let socket = node.dir.join("tmux");
        // Not the user's shell, whose start-up output is unknown.
        let shell = "exec env -u NO_COLOR LC_ALL=C.UTF-8 PS1='ready> ' sh -i";
        let begun = node
            .command("tmux")
            .arg("-S")
            .arg(&socket)
            .args([
                "-f",
                "/dev/null",
                "-u",
                "new-session",
                "-d",
                "-x",
                "80",
                "-y",
                "24",
                shell,
            ])
            .status();
        assert!(begun.expect("tmux runs").success());
        let tmux = Tmux { socket };
        tmux.sees("ready>");
        Some(tmux)
    }

    fn ask(&self, args: &[&str]) -> String {
        let mut c = Command::new("tmux");
        let out = c.arg("-S").arg(&self.socket).args(args).output();
        let out = out.expect("tmux runs").stdout;
        String::from_utf8_lossy(&out).trim_end().to_owned()
    }

    /// Whether the alternate screen is in use.
    fn in_alternate_screen(&self) -> bool {
        self.ask(&["display-message", "-p", "#{alternate_on}"]) == "1"
    }

    /// The one program that the shell runs.
    fn program(&self) -> String {
        let shell = self.ask(&["display-message", "-p", "#{pane_pid}"]);
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        children.expect("children").trim().to_owned()
    }

    fn shown(&self) -> String {
        self.ask(&["capture-pane", "-p"])
    }

    fn sees(&self, what: &str) {
        let mut shown = String::new();
        let seen = || {
            shown = self.shown();
            shown.contains(what)
        };
        let waited = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| until(what, seen)));
        assert!(waited.is_ok(), "{what} is not on the screen:\n{shown}");
    }

    /// Presses Esc, and waits until `what` is no longer shown: a key right after Esc would be read as Alt and that key.
    fn closes(&self, what: &str) {
        self.key("Escape");
        until(&format!("no {what}"), || !self.shown().contains(what));
    }

    fn press(&self, keys: &str) {
        self.ask(&["send-keys", "-l", keys]);
    }

    fn key(&self, name: &str) {
        self.ask(&["send-keys", name]);
    }

    fn type_line(&self, line: &str) {
        self.press(line);
        self.key("Enter");
    }

    /// The terminal is as it was before: lines are edited, letters echoed, the alternate screen is left.
    fn is_restored(&self, status: i32) {
        // Until then the program reads what is typed.
        until("the shell has its program's end", || {
            self.program().is_empty()
        });
        self.type_line("echo \"[$?]\" $(stty -a | grep -ow -e '-*icanon' -e '-*echo' -e '-*isig')");
        self.sees(&format!("[{status}] isig icanon echo"));
        assert!(!self.in_alternate_screen());
        self.type_line("clear");
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.ask(&["kill-server"]);
    }
}

#[test]
fn top_draws_resizes_and_restores_the_terminal() {
    let mut n1 = Node::new();
    n1.init("n1");
    n1.start();
    let Some(tmux) = Tmux::new(&n1) else {
        println!("skipped: a screen needs a terminal (package tmux)");
        return;
    };
    let program = n1
        .command("setpriv")
        .args(["--pdeathsig", "KILL", ARMENTO, "run", "sleep", "1234"])
        .spawn();
    let mut program = program.expect("setpriv of util-linux");
    let pid = program.id().to_string();
    shows(&mut n1, &tmux, &pid);
    program.kill().expect("kill");
    program.wait().expect("wait");
}

fn shows(n1: &mut Node, tmux: &Tmux, pid: &str) {
    let top = format!("{ARMENTO} top --delay 0.2");
    tmux.type_line(&top);
    tmux.sees("1/1 nodes up");
    tmux.sees("sleep 1234");
    let frame = tmux.shown();
    for part in [
        "n1*",
        "alive",
        "Processes of n1 1 ",
        "Moves 0",
        "q quit",
        pid,
    ] {
        assert!(frame.contains(part), "{part}:\n{frame}");
    }
    assert!(tmux.in_alternate_screen());
    // Why a process is where it is, and a refused order.
    tmux.key("Down");
    tmux.press("w");
    tmux.sees("remedy");
    tmux.closes("remedy");
    tmux.press("m");
    tmux.sees(&format!("move {pid} to"));
    tmux.closes(&format!("move {pid} to"));
    tmux.press("p");
    tmux.sees(&format!("pin {pid}"));
    tmux.key("Enter");
    tmux.sees(&format!("{pid} is held at home"));
    tmux.sees(" locked ");
    tmux.press("/nobody");
    tmux.sees("none of them passes the filter");
    tmux.key("Escape");
    tmux.sees("sleep 1234");
    // Ctrl-Z gives the terminal back, fg takes it again.
    tmux.key("C-z");
    tmux.sees("ready>");
    assert!(!tmux.in_alternate_screen());
    tmux.type_line("fg");
    tmux.sees("q quit");
    // The terminal is resized.
    tmux.ask(&["resize-window", "-x", "30", "-y", "8"]);
    tmux.sees("this terminal is 30x8");
    tmux.ask(&["resize-window", "-x", "130", "-y", "40"]);
    tmux.sees("ADDRESS");
    tmux.press("q");
    tmux.sees("ready>");
    tmux.is_restored(0);
    // Signals from other processes.
    for (signal, status) in [("TERM", 143), ("HUP", 129), ("INT", 130)] {
        tmux.type_line(&top);
        tmux.sees("q quit");
        let killed = Command::new("kill")
            .args(["-s", signal, &tmux.program()])
            .status();
        assert!(killed.expect("kill of util-linux").success());
        tmux.is_restored(status);
    }
    tmux.type_line(&top);
    tmux.sees("sleep 1234");
    // The daemon ends, the screen stays, and continues when the daemon is back.
    n1.kill();
    tmux.sees("no daemon since");
    tmux.sees("hint: start it");
    assert!(tmux.shown().contains("sleep 1234"), "{}", tmux.shown());
    n1.start();
    until("the screen to continue", || {
        let shown = tmux.shown();
        !shown.contains("no daemon") && shown.contains("sleep 1234")
    });
    tmux.press("q");
    tmux.is_restored(0);
}

#[test]
fn top_once_prints_frames_without_a_terminal() {
    let mut n1 = Node::new();
    assert!(n1.fails(&["top", "--once"]).contains("does not answer"));
    n1.init("n1");
    n1.start();
    let no = n1.fails(&["top"]);
    assert!(no.contains("terminal") && no.contains("--once"), "{no}");
    let frame = n1.ok(&["top", "--once", "--delay", "0.1", "--all"]);
    for part in ["1/1 nodes up", "Processes of the farm 0", "none of yours"] {
        assert!(frame.contains(part), "{frame}");
    }
    assert!(!frame.contains('\x1b'));
    let wrong = n1.run(&["top", "--delay", "0"]);
    assert_eq!(wrong.status.code(), Some(125));
}
