//! The near end: in a node of the lab, or outside.

use super::place::{NODE_SOCKET, socket_of};
use super::request::{ANSWER_MAX, DONE, Request};
use super::{sys, words};
use crate::enter::FAILED;
use crate::state::Dir;
use crate::sys::Signals;
use anyhow::{Context, Result, anyhow, bail};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;

pub const HELP: &str = "Between --name and NODE stand options of rsh and ssh: -l USER and -n do what they do there, -o SendEnv=NAME passes \
a variable on; others that cannot matter here (-x, -q, -T, -p PORT …) are ignored.

In nodes `armento-rsh` is the same in one word, for tools that want one:
  mpirun.openmpi --mca plm_rsh_agent armento-rsh --host n1,n2 hostname
  mpirun.mpich -launcher ssh -launcher-exec armento-rsh -hosts n1,n2 hostname
  PVM_RSH=/usr/local/bin/armento-rsh ARMENTO_RSH_ENV=PVM_ROOT pvmd

Examples (in a node, or outside with --name):
  armento lab rsh n2 hostname
  armento lab rsh -n -l ann n2 'id; pwd'";

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the lab, outside its nodes [default: lab]
    #[arg(long, value_name = "L")]
    name: Option<String>,
    /// Options of rsh, the node's name or address, and the command, which a shell of the node reads
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "[OPTION]… NODE CMD"
    )]
    words: Vec<OsString>,
}

/// Names of variables that the command shall have, separated by commas, for tools that cannot pass options.
const VARIABLES: &str = "ARMENTO_RSH_ENV";

/// Signals that the command shall have if this process has them.
const PASSED_ON: [i32; 6] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Runs the command and returns its exit code; 128 + N if signal N ended it, 125 if it could not be started.
pub fn run(args: &Args) -> i32 {
    launch(args.name.as_deref(), &args.words)
}

/// The same from the words alone; in a node without a name of a lab.
pub fn launch(lab: Option<&str>, words: &[OsString]) -> i32 {
    // As ssh does. Hydra's launchers inherit its listening socket: where its mpiexec has ended before they have, daemons would
    // connect to that, and wait for ever.
    crate::sys::close_inherited();
    attempt(lab, words).unwrap_or_else(|e| {
        eprintln!("armento: {e:#}");
        FAILED
    })
}

fn attempt(lab: Option<&str>, words: &[OsString]) -> Result<i32> {
    let wanted = words::read(words)?;
    let mut names = wanted.variables;
    names.extend(
        std::env::var(VARIABLES)
            .unwrap_or_default()
            .split(',')
            .filter(|n| !n.is_empty())
            .map(str::to_owned),
    );
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let passed = words::passes(&names, name.to_str()?);
        passed.then(|| [name.as_bytes(), b"=", value.as_bytes()].concat())
    });
    let request = Request {
        node: node_name(wanted.node)?,
        user: wanted.user.unwrap_or_default(),
        command: wanted.command.as_bytes().to_vec(),
        variables: variables.collect(),
    };
    let socket = socket(lab)?;
    let mut stream = UnixStream::connect(&socket).map_err(|e| {
        anyhow!(
            "the lab does not answer at {}: {e}\nhint: this works in nodes of a lab, and for root outside with --name; `armento lab list` shows the labs",
            socket.display()
        )
    })?;
    // Before the first thread, so that all of them have it.
    let heard: Vec<i32> = PASSED_ON
        .into_iter()
        .filter(|s| !sys::ignored(*s))
        .collect();
    let signals = Signals::block(&heard);
    let (near, far) = pipes(wanted.no_input)?;
    request.send(&mut stream, &far)?;
    drop(far);
    let code = attend(&stream, near, signals)?;
    stream.write_all(&[DONE]).ok();
    Ok(code)
}

/// A node may call itself by names that mean it to itself only.
fn node_name(node: String) -> Result<String> {
    match &node[..] {
        "localhost" | "127.0.0.1" | "::1" if Path::new(NODE_SOCKET).exists() => {
            let own = std::fs::read_to_string("/proc/sys/kernel/hostname");
            Ok(own
                .context("cannot read the node's name")?
                .trim()
                .to_owned())
        }
        _ => Ok(node),
    }
}

fn socket(name: Option<&str>) -> Result<PathBuf> {
    let inside = PathBuf::from(NODE_SOCKET);
    match name {
        None if inside.exists() => Ok(inside),
        name => Ok(socket_of(&Dir::of(name.unwrap_or("lab"))?)),
    }
}

/// This side's ends of the command's input, output and errors; no input: it is at its end already.
struct Near {
    input: Option<io::PipeWriter>,
    outputs: [io::PipeReader; 2],
}

fn pipes(no_input: bool) -> Result<(Near, [OwnedFd; 3])> {
    let (far_in, input) = match no_input {
        true => (OwnedFd::from(File::open("/dev/null")?), None),
        false => {
            let (reader, writer) = io::pipe()?;
            (reader.into(), Some(writer))
        }
    };
    let (out, far_out) = io::pipe()?;
    let (err, far_err) = io::pipe()?;
    let near = Near {
        input,
        outputs: [out, err],
    };
    Ok((near, [far_in, far_out.into(), far_err.into()]))
}

/// Carries input, output and signals until the command has ended and all that has its output, too.
fn attend(stream: &UnixStream, near: Near, signals: Signals) -> Result<i32> {
    if let Some(mut input) = near.input {
        // Ends with this process: its input may never end.
        thread::spawn(move || io::copy(&mut io::stdin().lock(), &mut input));
    }
    let [mut out, mut err] = near.outputs;
    // A reader that is gone ends the copy, and the command then has a pipe without reader, as it would here.
    let carried = [
        thread::spawn(move || io::copy(&mut out, &mut Unbuffered(1))),
        thread::spawn(move || io::copy(&mut err, &mut Unbuffered(2))),
    ];
    let mut to_server = stream.try_clone()?;
    thread::spawn(move || {
        loop {
            let (signal, _) = signals.wait();
            let number = u8::try_from(signal).unwrap_or(DONE);
            if number == DONE || to_server.write_all(&[number]).is_err() {
                return;
            }
        }
    });
    let mut answer = String::new();
    BufReader::new(stream.take(ANSWER_MAX)).read_line(&mut answer)?;
    for copy in carried {
        let _ = copy.join();
    }
    let answer = answer.trim_end();
    match answer.split_once(' ') {
        Some(("exit", code)) => code.parse().context("the lab's answer is no number"),
        Some(("failed", why)) => bail!("{}", why.replace("\\n", "\n")),
        _ => bail!("the node, or the lab, ended before the command did\nhint: armento lab list"),
    }
}

/// Standard output or standard error, byte by byte as they come: std keeps lines back.
struct Unbuffered(i32);

impl Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0 {
            1 => {
                let mut out = io::stdout().lock();
                out.write_all(bytes)?;
                out.flush()?;
                Ok(bytes.len())
            }
            _ => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
