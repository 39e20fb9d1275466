//! One run of one guest: as an ordinary user, in a fresh directory, bounded in time.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::guests;
use crate::guests::Suite;
use crate::guests::{Guest, How};
use crate::runner::leftovers;
use crate::runner::moves::Watch;
use crate::runner::pty::Typist;
use crate::sys;
use crate::task::{End, Mode, Outcome, Task};
use crate::tree::{self, Stream};
use crate::user::{PATH, USER, missing};

/// Interval at which the waiting harness checks the clock, milliseconds.
const LOOK_MS: u64 = 50;
/// Time limit for copying a suite's files.
const STAGE_S_MAX: u32 = 60;

struct Dirs {
    home: PathBuf,
    tmp: PathBuf,
    /// Directory in which its keeper logs failures.
    log: PathBuf,
}

impl Dirs {
    fn make(task: &Task) -> Result<Dirs> {
        let dirs = Dirs {
            home: task.base.join(task.folder()),
            tmp: task.base.join("tmp").join(task.folder()),
            log: task.base.join("tmp").join(task.folder() + ".log"),
        };
        dirs.remove();
        for dir in [&task.base, &task.base.join("tmp")] {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
        }
        fs::write(&dirs.log, "")?;
        fs::set_permissions(&dirs.log, fs::Permissions::from_mode(0o666))?;
        for dir in [&dirs.home, &dirs.tmp] {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
            if sys::is_root() {
                std::os::unix::fs::chown(dir, Some(USER), Some(USER))?;
            }
        }
        // For readline: no escape sequences that depend on the terminal.
        fs::write(
            task.base.join("inputrc"),
            "set enable-bracketed-paste off\n",
        )?;
        Ok(dirs)
    }

    /// The first panic that a keeper of this run logged.
    fn panic(&self) -> Option<String> {
        let log = fs::read(&self.log).ok()?;
        let log = String::from_utf8_lossy(&log);
        let from = log.find("panicked at")?;
        Some(log[from..].lines().take(2).collect::<Vec<_>>().join(" "))
    }

    fn remove(&self) {
        let _ = fs::remove_file(&self.log);
        for dir in [&self.home, &self.tmp] {
            // Guests leave unreadable directories on purpose; root can remove them, other users must change modes
            // first.
            if fs::remove_dir_all(dir).is_err() && dir.exists() {
                let _ = Command::new("chmod")
                    .arg("-R")
                    .arg("u+rwx")
                    .arg(dir)
                    .status();
                let _ = fs::remove_dir_all(dir);
            }
        }
    }
}

/// The guest's own command line, without `armento run`.
fn words(guest: &Guest) -> Result<Vec<String>> {
    Ok(match &guest.how {
        How::Source { file, source } => vec![
            guests::compiled(&guest.name, file, source)?
                .display()
                .to_string(),
        ],
        How::Shell { line } => vec!["/bin/sh".into(), "-c".into(), line.to_string()],
        How::Suite { suite, unit } => {
            let words = ["/bin/sh", "-c", suite.script, suite.name, "run", unit];
            words.map(String::from).to_vec()
        }
        How::Terminal { script } => script.command.iter().map(|&w| w.into()).collect(),
    })
}

/// The command line that `mode` puts before the guest's.
pub fn prefix(task: &Task) -> Result<Vec<String>> {
    if task.mode == Mode::Native {
        return Ok(Vec::new());
    }
    let armento = task
        .armento
        .as_ref()
        .context("this mode needs the armento program")?;
    let armento = for_user(armento, &task.base)?;
    let mut words = vec![armento.display().to_string(), "run".into()];
    if matches!(task.mode, Mode::AwayForward | Mode::StormForward) {
        words.push("--forward-files".into());
    }
    words.extend(match task.mode {
        Mode::Native => vec![],
        Mode::Home => vec!["--stay".to_string()],
        Mode::Away | Mode::AwayForward => vec!["--on".into(), task.node.clone()],
        Mode::Storm | Mode::StormForward => vec![
            "--storm".into(),
            task.storm_ms.to_string(),
            "--seed".into(),
            task.seed.to_string(),
        ],
        Mode::StormCall => vec![
            "--storm-call".into(),
            "--seed".into(),
            task.seed.to_string(),
        ],
        Mode::Spread => vec!["--spread".into()],
        Mode::Handover => vec![
            "--storm-handover".into(),
            task.storm_ms.to_string(),
            "--seed".into(),
            task.seed.to_string(),
        ],
        Mode::Lost => vec![
            "--safe=1".into(),
            "--storm-loss".into(),
            task.storm_ms.to_string(),
            "--seed".into(),
            task.seed.to_string(),
        ],
    });
    Ok(words)
}

/// The same program where an ordinary user may run it: a build below a private directory is copied.
fn for_user(program: &Path, base: &Path) -> Result<PathBuf> {
    let open = |path: &Path| fs::metadata(path).is_ok_and(|meta| meta.mode() & 0o001 != 0);
    if program.ancestors().all(open) {
        return Ok(program.to_path_buf());
    }
    let copy = base.join("bin/armento");
    if !copy.is_file() {
        fs::create_dir_all(base.join("bin"))?;
        fs::set_permissions(base.join("bin"), fs::Permissions::from_mode(0o755))?;
        let own = base.join(format!("bin/{}", std::process::id()));
        fs::copy(program, &own).with_context(|| format!("cannot copy {}", program.display()))?;
        fs::set_permissions(&own, fs::Permissions::from_mode(0o755))?;
        fs::rename(&own, &copy)?;
    }
    Ok(copy)
}

/// Runs `guest` once. An error means that the harness itself failed.
pub fn once(guest: &Guest, task: &Task) -> Result<Outcome> {
    if let Some(package) = missing(guest.needs) {
        return Ok(Outcome::without_run(End::Missing(package.into())));
    }
    let dirs = Dirs::make(task)?;
    let mut all = prefix(task)?;
    all.extend(words(guest)?);
    let mut command = Command::new(&all[0]);
    command.args(&all[1..]).current_dir(&dirs.home).env_clear();
    environment(&mut command, task, &dirs);
    if sys::is_root() {
        command.uid(USER).gid(USER);
    }
    if let How::Suite { suite, unit } = &guest.how {
        command.env("SUITE", guests::folder(suite));
        stage(suite, unit, &dirs)?;
    }
    let outcome = drive(command, guest, task).with_context(|| format!("cannot run {}", all[0]));
    let outcome = outcome.and_then(|mut outcome| {
        outcome.left = leftovers::clear_out();
        outcome.keeper = dirs.panic();
        if !matches!(guest.how, How::Suite { .. }) {
            outcome.files = tree::list(&dirs.home)?;
        }
        Ok(outcome)
    });
    if !task.keep {
        dirs.remove();
    }
    outcome
}

/// Copies the files of a suite's unit into the guest's directory; not part of the run.
fn stage(suite: &Suite, unit: &str, dirs: &Dirs) -> Result<()> {
    let mut command = guests::bounded(suite.script, suite.name, &["stage", unit], STAGE_S_MAX);
    command
        .current_dir(&dirs.home)
        .env("SUITE", guests::folder(suite))
        .stdout(Stdio::null());
    if sys::is_root() {
        command.uid(USER).gid(USER);
    }
    let status = command.status()?;
    if !status.success() {
        bail!("cannot stage {unit} ({status})");
    }
    Ok(())
}

fn environment(command: &mut Command, task: &Task, dirs: &Dirs) {
    command
        .env("PATH", PATH)
        .env("HOME", &dirs.home)
        .env("TMPDIR", &dirs.tmp)
        .env("INPUTRC", task.base.join("inputrc"))
        .env("LC_ALL", "C")
        .env("TZ", "UTC")
        .env("TERM", "dumb")
        .env("USER", "guest")
        .env("LOGNAME", "guest")
        .env("SHELL", "/bin/sh")
        .env("ARMENTO_KEEPER_LOG", &dirs.log);
    // The daemon's socket; and whether all memory is sent after the flip.
    for name in ["ARMENTO_SOCKET", "ARMENTO_POSTCOPY"] {
        let Some(value) = std::env::var_os(name) else {
            continue;
        };
        command.env(name, value);
    }
}

/// Starts the command on pipes or on a terminal and follows it to its end.
fn drive(mut command: Command, guest: &Guest, task: &Task) -> Result<Outcome> {
    let started = Instant::now();
    let run = match &guest.how {
        How::Terminal { script } => {
            let (ours, theirs) = sys::openpty()?;
            if sys::is_root() {
                std::os::unix::fs::fchown(&theirs, Some(USER), Some(USER))?;
            }
            command
                .stdin(theirs.try_clone()?)
                .stdout(theirs.try_clone()?)
                .stderr(theirs);
            sys::prepare(&mut command, true);
            let child = command.spawn()?;
            // The command holds the other end; the terminal's end is visible only after it is closed.
            drop(command);
            let outputs = vec![Output::new(ours)];
            follow(child, outputs, Some(Typist::new(script.steps)), task)?
        }
        _ => {
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            sys::prepare(&mut command, false);
            let mut child = command.spawn()?;
            let out = OwnedFd::from(child.stdout.take().context("stdout is piped")?);
            let err = OwnedFd::from(child.stderr.take().context("stderr is piped")?);
            follow(
                child,
                vec![Output::new(out.into()), Output::new(err.into())],
                None,
                task,
            )?
        }
    };
    let mut outcome = run;
    outcome.wall_ms = started.elapsed().as_millis() as u64;
    Ok(outcome)
}

/// One output of the guest.
struct Output {
    file: File,
    stream: Stream,
    open: bool,
}

impl Output {
    fn new(file: File) -> Output {
        Output {
            file,
            stream: Stream::new(),
            open: true,
        }
    }

    /// Reads available bytes. A terminal with a closed other side returns EIO: its end.
    fn read_available(&mut self) -> Vec<u8> {
        let mut chunk = vec![0; 64 << 10];
        match self.file.read(&mut chunk) {
            Ok(n) if n > 0 => {
                chunk.truncate(n);
                self.stream.take(&chunk);
                chunk
            }
            Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => Vec::new(),
            _ => {
                self.open = false;
                Vec::new()
            }
        }
    }
}

fn follow(
    mut child: Child,
    mut outputs: Vec<Output>,
    mut typist: Option<Typist>,
    task: &Task,
) -> Result<Outcome> {
    let deadline = Instant::now() + Duration::from_secs(task.timeout_s.into());
    let watch = Watch::start(task, child.id());
    let pidfd = sys::pidfd(child.id())?;
    let mut status = None;
    let mut hang = false;
    while status.is_none() || outputs.iter().any(|output| output.open) {
        if Instant::now() > deadline || sys::interrupted() {
            hang = true;
            break;
        }
        let open: Vec<usize> = (0..outputs.len()).filter(|&i| outputs[i].open).collect();
        let mut fds: Vec<_> = open.iter().map(|&i| outputs[i].file.as_fd()).collect();
        if status.is_none() {
            fds.push(pidfd.as_fd());
        }
        let ready = sys::readable(&fds, LOOK_MS)?;
        for (&index, _) in open.iter().zip(&ready).filter(|(_, ready)| **ready) {
            let chunk = outputs[index].read_available();
            if let Some(keys) = typist.as_mut().map(|t| t.shown(&chunk)) {
                // A guest that is gone cannot receive keys; its status will show that.
                let _ = outputs[index].file.write_all(&keys);
            }
        }
        status = match status {
            None => child.try_wait()?,
            done => done,
        };
    }
    let (moves, away) = watch.finish();
    let mut streams = outputs.into_iter().map(|output| output.stream.finish());
    let end = match status {
        Some(status) if !hang => match status.code() {
            Some(code) => End::Exit(code),
            None => End::Signal(status.signal().unwrap_or(0)),
        },
        _ => End::Hang,
    };
    Ok(Outcome {
        end,
        stdout: streams.next().unwrap_or_default(),
        stderr: streams.next().unwrap_or_default(),
        stuck: typist.and_then(|typist| typist.stuck()),
        moves,
        away,
        ..Outcome::without_run(End::Hang)
    })
}
