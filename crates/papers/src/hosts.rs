//! Commands on the hosts of a cluster, started by a remote shell: that of a lab, or ssh.

use anyhow::{Context, Result, bail};
use armento_lab::Lab;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Hosts, and the words of the remote shell that come before a host's name.
#[derive(Clone, Debug)]
pub struct Hosts {
    pub names: Vec<String>,
    pub shell: Vec<String>,
}

impl Hosts {
    /// All nodes of a lab.
    pub fn of(lab: &Lab) -> Result<Hosts> {
        let exe = std::env::current_exe().context("cannot find our own binary")?;
        let exe = exe.to_string_lossy().into_owned();
        let words = [&*exe, "lab", "rsh", "--name", &lab.plan().name];
        Ok(Hosts {
            names: lab.nodes().iter().map(|n| n.name.clone()).collect(),
            shell: words.map(str::to_owned).to_vec(),
        })
    }

    /// A command of the shell of host `i`, counted from 0. Killing it ends what it has started.
    pub fn command(&self, i: usize, script: &str) -> Command {
        let [program, args @ ..] = &self.shell[..] else {
            return Command::new("false");
        };
        let mut c = Command::new(program);
        c.args(args).arg(&self.names[i]).arg(script);
        c.stdin(Stdio::null());
        c
    }

    /// What a command prints; its errors where it fails.
    pub fn said(&self, i: usize, script: &str) -> Result<String> {
        let name = &self.names[i];
        let out = self.command(i, script).output();
        let out = out.with_context(|| format!("{name} runs no commands"))?;
        if !out.status.success() {
            let why = String::from_utf8_lossy(&out.stderr);
            bail!("{name}: {script}: {} {}", out.status, why.trim());
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// Writes a program to `path` of host `i`.
    pub fn put(&self, i: usize, path: &str, program: &[u8]) -> Result<()> {
        // Another file each time: one that runs cannot be written.
        let script = format!(
            "mkdir -p $(dirname {path}) && rm -f {path} && cat > {path} && chmod 755 {path}"
        );
        let mut child = self.command(i, &script).stdin(Stdio::piped()).spawn()?;
        let mut pipe = child.stdin.take().context("no pipe")?;
        let sent = pipe.write_all(program);
        drop(pipe);
        if !child.wait()?.success() || sent.is_err() {
            bail!("{}: {path} was not written", self.names[i]);
        }
        Ok(())
    }
}

/// Waits for all, and gives what each has printed. The first that fails, or the time limit, ends all.
pub fn finish(children: Vec<Child>, limit: Duration) -> Result<Vec<String>> {
    let mut all = Running(children);
    let began = Instant::now();
    loop {
        let mut running = false;
        for child in &mut all.0 {
            match child.try_wait()? {
                None => running = true,
                Some(status) if !status.success() => bail!("a program ended with {status}"),
                Some(_) => {}
            }
        }
        if !running {
            break;
        }
        if began.elapsed() > limit {
            bail!("programs did not end within {} s", limit.as_secs());
        }
        sleep(LOOK_EVERY);
    }
    let read = |child: Child| {
        let out = child.wait_with_output()?;
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    };
    std::mem::take(&mut all.0).into_iter().map(read).collect()
}

/// Programs that end with this value.
pub struct Running(pub Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Hosts {
        Hosts {
            names: vec!["a".into(), "b".into()],
            // The name of the host is $0 of the script.
            shell: ["sh", "-c", "exec sh -c \"$1\""]
                .map(str::to_owned)
                .to_vec(),
        }
    }

    #[test]
    fn programs_are_put_and_run() {
        let dir = std::env::temp_dir().join(format!("armento-hosts-{}", std::process::id()));
        let path = dir.join("below/program");
        let path = path.to_str().expect("text");
        let hosts = here();
        hosts
            .put(1, path, b"#!/bin/sh\necho here\n")
            .expect("written");
        let said = hosts.said(1, path).expect("it runs");
        std::fs::remove_dir_all(&dir).expect("gone");
        assert_eq!(said, "here\n");
        let e = hosts.said(0, "echo why >&2; false").expect_err("it fails");
        assert!(e.to_string().contains("why"), "{e}");
    }

    #[test]
    fn one_failure_ends_all() {
        let start = |script: &str| {
            let mut c = here().command(0, script);
            c.stdout(Stdio::piped()).spawn().expect("a shell")
        };
        let said = finish(
            vec![start("echo 1"), start("echo 2")],
            Duration::from_secs(60),
        );
        assert_eq!(said.expect("both end"), ["1\n", "2\n"]);
        let e = finish(
            vec![start("exec sleep 1000"), start("exit 3")],
            Duration::from_secs(60),
        );
        assert!(e.expect_err("one fails").to_string().contains('3'));
    }
}
