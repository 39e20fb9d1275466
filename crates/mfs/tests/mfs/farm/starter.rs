//! A process that starts and ends the file servers.
//!
//! The process of a test has files open on the mount. exec(2) closes them in the child, close(2) of a file waits for its
//! posted writes, and these wait for a server: the test's process cannot start the server itself. The starter is older
//! than the mount, and has none of its files open.

use std::io::{BufRead, BufReader, Error, Result, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Set in the starter.
const STARTER: &str = "ARMENTO_MFS_TEST_STARTER";
/// What a server process exports, as lines, and for whom.
pub const SERVE: &str = "ARMENTO_MFS_TEST_SERVE";
pub const UID: &str = "ARMENTO_MFS_TEST_UID";
/// Before what a process says on its standard output; the test harness in it writes there, too.
const SAYS: &str = "says: ";
const FAILED: &str = "failed: ";

#[derive(Clone, Copy)]
pub struct Process {
    pub pid: u32,
    pub port: u16,
}

pub struct Starter {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

pub fn say(what: &str) {
    println!("{SAYS}{what}");
}

fn hear(from: &mut impl BufRead) -> Result<String> {
    let mut lines = from.lines().map_while(Result::ok);
    lines
        .find_map(|l| Some(l.split_once(SAYS)?.1.trim().to_owned()))
        .ok_or_else(|| Error::other("it said nothing"))
}

fn number<T: std::str::FromStr>(s: Option<&str>) -> Result<T> {
    s.and_then(|s| s.parse().ok())
        .ok_or_else(|| Error::other("no number"))
}

impl Starter {
    /// `args` make this program call [`run_if_asked`]. Before: this process has no file of the mount open.
    pub fn new(args: &[&str], isolated: &str) -> Result<Starter> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(args)
            .env(STARTER, "1")
            .env_remove(isolated)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take();
        let output = BufReader::new(output.ok_or_else(|| Error::other("no output"))?);
        Ok(Starter {
            child,
            input,
            output,
        })
    }

    fn ask(&mut self, what: &str) -> Result<String> {
        let input = self.input.as_mut();
        let input = input.ok_or_else(|| Error::other("no input"))?;
        input.write_all(format!("{what}\n").as_bytes())?;
        let said = hear(&mut self.output)?;
        match said.strip_prefix(FAILED) {
            Some(e) => Err(Error::other(e.to_owned())),
            None => Ok(said),
        }
    }

    /// A server of a user. It ends with this process at the latest.
    pub fn start(&mut self, uid: u32, exports: &str) -> Result<Process> {
        let n = exports.lines().count();
        let said = self.ask(&format!("start {uid} {n}\n{}", exports.trim_end()))?;
        let mut parts = said.split(' ');
        Ok(Process {
            pid: number(parts.next())?,
            port: number(parts.next())?,
        })
    }

    pub fn runs(&mut self, p: Process) -> bool {
        self.ask(&format!("runs {}", p.pid))
            .is_ok_and(|s| s == "yes")
    }

    /// Kills a server; it is gone afterwards.
    pub fn end(&mut self, p: Process) -> Result<()> {
        self.ask(&format!("end {}", p.pid)).map(drop)
    }

    /// Sends a signal as kill(1) spells it. After -STOP all threads of the server have stopped.
    pub fn signal(&mut self, p: Process, signal: &str) -> Result<()> {
        self.ask(&format!("signal {} {signal}", p.pid)).map(drop)
    }
}

impl Drop for Starter {
    /// It ends at the end of its input.
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// The process starts servers if it was started for that; it does not return then.
pub fn run_if_asked() {
    if std::env::var_os(STARTER).is_none() {
        return;
    }
    let mut servers = Vec::new();
    let mut lines = std::io::stdin().lines().map_while(Result::ok);
    while let Some(line) = lines.next() {
        let said = carry_out(&line, &mut lines, &mut servers);
        say(&said.unwrap_or_else(|e| format!("{FAILED}{e}")));
    }
    for (child, _) in &mut servers {
        let _ = child.kill();
        let _ = child.wait();
    }
    std::process::exit(0);
}

/// With their output: a process that cannot write any more would end.
type Servers = Vec<(Child, BufReader<ChildStdout>)>;

fn carry_out(
    line: &str,
    lines: &mut impl Iterator<Item = String>,
    servers: &mut Servers,
) -> Result<String> {
    let mut parts = line.split(' ');
    let what = parts.next().unwrap_or_default();
    let first: u32 = number(parts.next())?;
    if what == "start" {
        let n = number(parts.next())?;
        let exports: Vec<String> = lines.take(n).collect();
        return start(first, &exports.join("\n"), servers);
    }
    let at = servers.iter().position(|(c, _)| c.id() == first);
    let at = at.ok_or_else(|| Error::other("no such server"))?;
    let (child, _) = &mut servers[at];
    match what {
        "runs" => {
            let runs = child.try_wait()?.is_none();
            return Ok(if runs { "yes" } else { "no" }.to_owned());
        }
        "end" => {
            child.kill()?;
            child.wait()?;
            servers.remove(at);
        }
        _ => {
            let signal = parts.next().unwrap_or_default();
            let mut kill = Command::new("kill");
            if !kill.args([signal, &first.to_string()]).status()?.success() {
                return Err(Error::other("kill(1) failed"));
            }
            if signal == "-STOP" {
                super::sys::await_stopped(first)?;
            }
        }
    }
    Ok("done".to_owned())
}

fn start(uid: u32, exports: &str, servers: &mut Servers) -> Result<String> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env(SERVE, exports)
        .env(UID, uid.to_string())
        .env_remove(STARTER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take();
    let mut output = BufReader::new(output.ok_or_else(|| Error::other("no output"))?);
    let port = hear(&mut output)?;
    let said = format!("{} {port}", child.id());
    servers.push((child, output));
    Ok(said)
}
