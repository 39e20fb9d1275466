//! `armento farm allocation`: a farm of the nodes that Slurm gave a job, as long as the job's program runs.
//!
//! ```text
//! srun ─► task 0   farm init ─► daemon ─► MEET/.armento-JOB.STEP: the command to join ─► all there? ─► the program
//!      ─► task 1…  waits for that file ─► farm join ─► daemon ─► waits until the file is gone
//! ```
//! Daemons are the user's own, with state, socket and ports of their own: no service of the node is touched.

use crate::out::{Failure, unexpected_answer};
use crate::sys;
use armento_client::api::{Answer, Ask};
use armento_client::{ANSWER, Session};
use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub const HELP: &str = "Examples:
  srun -N4 --ntasks-per-node=1 armento farm allocation -- armento run --spread make -j16
  srun -N4 --ntasks-per-node=1 armento farm allocation -- sh -c 'parallel armento run ./simulate ::: 1 2 3 4'
  srun -N2 --ntasks-per-node=1 armento farm allocation --meet /home/me -- ./script

Each task makes its node a member; the program runs once, in task 0. The tasks meet at a file in a directory that all
nodes have in common, the current one or --meet. It holds the farm's token and is readable by you only.";

/// Interval between two looks at a file or a daemon.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A daemon answers within this time after its start.
const DAEMON_MAX: Duration = Duration::from_secs(30);
/// A daemon that was told to end does within this time.
const END_MAX: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub struct Allocation {
    /// A directory that all nodes of the allocation share
    #[arg(long, value_name = "DIR", default_value = ".")]
    meet: PathBuf,
    /// Seconds to wait until all tasks have joined
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    wait: u64,
    /// Settings of the daemons [default: none; /etc/armento/config.toml is of the node's own farm]
    #[arg(long, value_name = "F")]
    config: Option<PathBuf>,
    /// Show what this task would do, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What Slurm tells a task. KERNEL: srun(1), "OUTPUT ENVIRONMENT VARIABLES".
#[derive(Debug, PartialEq, Eq)]
struct Task {
    rank: u32,
    tasks: u32,
    step: String,
    node: String,
}

impl Task {
    fn of(var: impl Fn(&str) -> Option<String>) -> Result<Task, Failure> {
        let number = |name: &str| var(name).and_then(|v| v.parse::<u32>().ok());
        let outside = |what: &str| Failure {
            message: format!("this is no task of Slurm: {what}; nothing was done"),
            hint: "`srun -N4 --ntasks-per-node=1 armento farm allocation -- CMD`".into(),
        };
        let rank = number("SLURM_PROCID").ok_or_else(|| outside("SLURM_PROCID is not set"))?;
        let tasks = number("SLURM_STEP_NUM_TASKS").or(number("SLURM_NTASKS"));
        let tasks = tasks.ok_or_else(|| outside("SLURM_NTASKS is not set"))?;
        let job = number("SLURM_JOB_ID").ok_or_else(|| outside("SLURM_JOB_ID is not set"))?;
        if number("SLURM_LOCALID").is_some_and(|n| n > 0) {
            return Err(Failure {
                message: "this node has a second task of the step, and a node joins once".into(),
                hint: "srun needs --ntasks-per-node=1".into(),
            });
        }
        let step = number("SLURM_STEP_ID").unwrap_or(0);
        let host = var("SLURMD_NODENAME").unwrap_or_else(|| format!("task{rank}"));
        Ok(Task {
            rank,
            tasks,
            step: format!("{job}.{step}"),
            node: node_name(&host, rank),
        })
    }
}

/// A node's name from that of a host: lower case, the first label.
fn node_name(host: &str, rank: u32) -> String {
    let label = host.split('.').next().unwrap_or_default().to_lowercase();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = label.chars().map(plain).take(63).collect();
    match name.trim_matches('-') {
        "" => format!("task{rank}"),
        name => name.to_owned(),
    }
}

/// This task's daemon and its directory; both end with this value.
struct Member {
    dir: PathBuf,
    config: PathBuf,
    daemon: Option<Child>,
}

impl Member {
    fn new(task: &Task, config: Option<&Path>) -> Result<Member, Failure> {
        let dir = std::env::temp_dir().join(format!("armento-{}-{}", task.step, task.rank));
        let failed = |e: std::io::Error| Failure {
            message: format!("{} cannot be made: {e}; nothing was done", dir.display()),
            hint: "set TMPDIR to a directory of the node where you may write".into(),
        };
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&dir)
            .map_err(failed)?;
        let own = dir.join("config.toml");
        fs::write(&own, "").map_err(failed)?;
        Ok(Member {
            config: config.map_or(own, Path::to_owned),
            dir,
            daemon: None,
        })
    }

    fn socket(&self) -> PathBuf {
        self.dir.join("sock")
    }

    fn command(&self) -> Command {
        let mut c = Command::new("/proc/self/exe");
        c.env("ARMENTO_STATE", self.dir.join("state"))
            .env("ARMENTO_SOCKET", self.socket())
            .stdin(Stdio::null());
        c
    }

    /// The standard output of a verb that succeeds.
    fn said(&self, words: &[&str]) -> Result<String, Failure> {
        let out = self
            .command()
            .args(words)
            .arg("--config")
            .arg(&self.config)
            .output();
        let failed = |why: String| Failure {
            message: format!("armento {}: {why}", words[..words.len().min(2)].join(" ")),
            hint: "look at the line above; the node was left as it was".into(),
        };
        let out = out.map_err(|e| failed(e.to_string()))?;
        match out.status.success() {
            true => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
            false => {
                let err = String::from_utf8_lossy(&out.stderr).into_owned();
                Err(failed(armento_model::clean(
                    err.trim_end().replace('\n', "; ").as_str(),
                )))
            }
        }
    }

    fn start(&mut self) -> Result<(), Failure> {
        let failed = |why: String| Failure {
            message: format!("the daemon of this task did not start: {why}"),
            hint: "`armento doctor` on that node shows what it lacks".into(),
        };
        let log = fs::File::create(self.dir.join("log")).map_err(|e| failed(e.to_string()))?;
        let mut node = self.command();
        node.arg("node").arg("--config").arg(&self.config);
        node.stdout(Stdio::null()).stderr(log);
        self.daemon = Some(node.spawn().map_err(|e| failed(e.to_string()))?);
        let until = Instant::now() + DAEMON_MAX;
        while Session::connect_to(&self.socket()).is_err() {
            if self.has_ended() || Instant::now() > until {
                let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
                let last = log.lines().last().unwrap_or("it said nothing");
                return Err(failed(armento_model::clean(last)));
            }
            sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn has_ended(&mut self) -> bool {
        self.daemon
            .as_mut()
            .is_some_and(|d| !matches!(d.try_wait(), Ok(None)))
    }

    /// How many nodes are alive and have reported, so that programs may go there.
    fn alive(&self) -> anyhow::Result<u32> {
        let mut session = Session::connect_to(&self.socket()).map_err(Failure::from)?;
        match session.ask(Ask::Nodes, ANSWER).map_err(Failure::from)? {
            Answer::Nodes { nodes } => Ok(nodes
                .iter()
                .filter(|n| n.state == "alive" && n.cores > 0)
                .count() as u32),
            _ => Err(unexpected_answer()),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            sys::end(&daemon);
            let until = Instant::now() + END_MAX;
            while matches!(daemon.try_wait(), Ok(None)) && Instant::now() < until {
                sleep(LOOK_EVERY);
            }
            // Of what has ended already this does nothing.
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// The file where tasks meet; task 0 removes it with this value.
struct Meeting {
    path: PathBuf,
    ours: bool,
}

impl Meeting {
    /// Written beside and renamed, so that it is never read half.
    fn write(&mut self, text: &str) -> Result<(), Failure> {
        let failed = |e: std::io::Error| Failure {
            message: format!("{} cannot be written: {e}", self.path.display()),
            hint: "name a directory that all nodes share and where you may write: --meet DIR"
                .into(),
        };
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let mut options = fs::OpenOptions::new();
        let opened = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside);
        opened
            .and_then(|mut f| f.write_all(text.as_bytes()))
            .map_err(failed)?;
        fs::rename(&beside, &self.path).map_err(failed)?;
        self.ours = true;
        Ok(())
    }

    /// The command to join, once it is there. Only of a file that is this user's.
    fn read(&self, wait: Duration) -> Result<String, Failure> {
        let until = Instant::now() + wait;
        loop {
            match fs::metadata(&self.path) {
                Ok(m) if m.uid() != sys::uid() => {
                    return Err(Failure {
                        message: format!(
                            "{} belongs to another user; nothing was done",
                            self.path.display()
                        ),
                        hint: "name a directory of yours: --meet DIR".into(),
                    });
                }
                Ok(_) => break,
                Err(e) if e.kind() == ErrorKind::NotFound && Instant::now() < until => {
                    sleep(LOOK_EVERY)
                }
                Err(e) => {
                    return Err(Failure {
                        message: format!("{} did not come: {e}", self.path.display()),
                        hint: "do all nodes have that directory, and does task 0 run? name another with --meet".into(),
                    });
                }
            }
        }
        fs::read_to_string(&self.path).map_err(|e| Failure {
            message: format!("{} cannot be read: {e}", self.path.display()),
            hint: "name a directory that all nodes share: --meet DIR".into(),
        })
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        if self.ours {
            // The others leave when it is gone; without it they end with the step.
            let _ = fs::remove_file(&self.path);
        }
    }
}

pub fn run(args: &Allocation) -> anyhow::Result<i32> {
    let task = Task::of(|name| std::env::var(name).ok())?;
    let meeting = Meeting {
        path: args.meet.join(format!(".armento-{}", task.step)),
        ours: false,
    };
    if args.dry_run {
        let what = if task.rank == 0 {
            "makes the farm and runs the program"
        } else {
            "joins"
        };
        crate::out::say(&format!(
            "task {} of {} is node {}, {what}; the tasks meet at {}\n",
            task.rank,
            task.tasks,
            task.node,
            meeting.path.display()
        ));
        return Ok(0);
    }
    sys::end_by_flag();
    let member = Member::new(&task, args.config.as_deref())?;
    match task.rank {
        0 => first(args, &task, member, meeting),
        _ => other(args, &task, member, &meeting),
    }
}

fn first(
    args: &Allocation,
    task: &Task,
    mut member: Member,
    mut meeting: Meeting,
) -> anyhow::Result<i32> {
    let said = member.said(&[
        "farm",
        "init",
        "--name",
        &task.node,
        "--listen",
        "0.0.0.0:0",
    ])?;
    let join = said.lines().find_map(|l| l.split_once("armento join "));
    let Some((_, join)) = join else {
        return Err(unexpected_answer());
    };
    member.start()?;
    meeting.write(&format!("{}\n", join.trim()))?;
    let until = Instant::now() + Duration::from_secs(args.wait);
    loop {
        let alive = member.alive()?;
        if alive >= task.tasks {
            break;
        }
        if Instant::now() > until || sys::is_told_to_end() {
            let failure = Failure {
                message: format!(
                    "{alive} of {} nodes have joined after {} s; the program was not started",
                    task.tasks, args.wait
                ),
                hint: "look at the other tasks' lines: `srun --label`; --wait waits longer".into(),
            };
            return Err(failure.into());
        }
        sleep(LOOK_EVERY);
    }
    let (program, words) = args
        .command
        .split_first()
        .unwrap_or((const { &OsString::new() }, &[]));
    // Without its rank: the program is one, and is not placed beside others by Slurm.
    let status = sys::run(
        Command::new(program)
            .args(words)
            .env("ARMENTO_STATE", member.dir.join("state"))
            .env("ARMENTO_SOCKET", member.socket())
            .env_remove("SLURM_PROCID"),
    );
    let status = match status {
        Ok(status) => status,
        Err(e) => {
            let (code, hint) = match e.kind() {
                ErrorKind::NotFound => (127, "check the name and PATH"),
                _ => (
                    126,
                    "is it a program for this machine, with its execute permission set?",
                ),
            };
            eprintln!(
                "armento: cannot run {}: {e}\nhint: {hint}",
                program.display()
            );
            return Ok(code);
        }
    };
    Ok(status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

fn other(
    args: &Allocation,
    task: &Task,
    mut member: Member,
    meeting: &Meeting,
) -> anyhow::Result<i32> {
    let join = meeting.read(Duration::from_secs(args.wait))?;
    let words: Vec<&str> = join.split_whitespace().collect();
    let &[token, addr] = words.as_slice() else {
        return Err(unexpected_answer());
    };
    member.said(&[
        "join",
        token,
        addr,
        "--same-machine",
        "--name",
        &task.node,
        "--listen",
        "0.0.0.0:0",
    ])?;
    member.start()?;
    while meeting.path.exists() && !sys::is_told_to_end() {
        if member.has_ended() {
            let failure = Failure {
                message: "the daemon of this task has ended; its node is lost to the farm".into(),
                hint: "`armento doctor` on that node shows what it lacks".into(),
            };
            return Err(failure.into());
        }
        sleep(LOOK_EVERY);
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_from_srun() {
        let check = |vars: &[(&str, &str)]| {
            Task::of(|name| {
                let found = vars.iter().find(|(n, _)| *n == name);
                found.map(|(_, v)| (*v).to_owned())
            })
        };
        let all = [
            ("SLURM_PROCID", "1"),
            ("SLURM_NTASKS", "4"),
            ("SLURM_JOB_ID", "77"),
            ("SLURM_STEP_ID", "2"),
            ("SLURM_LOCALID", "0"),
            ("SLURMD_NODENAME", "Node_7.example.org"),
        ];
        let task = check(&all).expect("a task");
        let want = Task {
            rank: 1,
            tasks: 4,
            step: "77.2".into(),
            node: "node-7".into(),
        };
        assert_eq!(task, want);
        assert!(check(&all[1..]).is_err());
        let second = [&all[..4], &[("SLURM_LOCALID", "1")]].concat();
        let no = check(&second).expect_err("a second task");
        assert!(no.hint.contains("--ntasks-per-node=1"));
        assert_eq!(node_name("...", 3), "task3");
    }
}
