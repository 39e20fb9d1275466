//! `armento restart FILE`: the programs of a checkpoint file go on.
//!
//! Next: `armento_checkpoint::assemble`; each program's body: `keeper/src/saved/restart.rs`.

use crate::dry_run::{self, DryRun};
use crate::out::Failure;
use crate::run::known_node;
use armento_checkpoint::assemble::{self, AssembleError, Board, How};
use armento_checkpoint::format::Reader;
use armento_checkpoint::home::Home;
use armento_client::Session;
use armento_keeper::{Begin, Birth, BirthError, Restart};
use armento_model::{ENGINE_VERSION, NodeName, clean};
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

const HELP: &str = "Examples:
  armento restart model.ckpt               where there is room
  armento restart --on n3 model.ckpt
  armento restart --pid new model.ckpt     its old pid is in use
  armento restart --dry-run model.ckpt     what would be started, and which files have changed

The programs go on where the checkpoint was made, as children of this command's shell: its standard streams are theirs. Their
exit code is the command's own. Files are opened by name again and read and written from where the programs were.";

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The checkpoint file
    file: PathBuf,
    /// Numbers of the processes: as they were (needs CAP_CHECKPOINT_RESTORE, as root has it), or new ones
    #[arg(long, value_name = "same|new", default_value = "same")]
    pid: Numbers,
    /// Write files that are missing or have changed back as they were (of a checkpoint that was made with --with-files)
    #[arg(long)]
    put_back: bool,
    /// Begin on this node
    #[arg(long, value_name = "NODE")]
    on: Option<NodeName>,
    #[command(flatten)]
    dry: DryRun,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Numbers {
    Same,
    New,
}

pub fn run(args: &Args) -> anyhow::Result<i32> {
    let reader = Reader::open(&args.file).map_err(|e| Failure {
        message: format!("{e}; nothing was started"),
        hint: e.hint().unwrap_or("is it the right file?").into(),
    })?;
    let home = reader.home().clone();
    let header = reader.header();
    if header.engine_version != ENGINE_VERSION {
        return Err(Failure {
            message: format!(
                "{} was made by Armento {} (engine {}), this is engine {ENGINE_VERSION}; nothing was started",
                args.file.display(),
                clean(&header.program_version),
                header.engine_version
            ),
            hint: "restart it with the version that made it".into(),
        }
        .into());
    }
    let contents = |key: u32| -> io::Result<Box<dyn Read + '_>> {
        let kept = reader.file(key).map_err(io::Error::other)?;
        Ok(Box::new(kept))
    };
    let how = How {
        same_pids: args.pid == Numbers::Same,
        environment: std::env::vars_os()
            .filter_map(|(name, value)| variable(&name, &value))
            .collect(),
        contents: reader.header().with_files.then_some(&contents),
        memory: Some(&|number, take| reader.memory(number, take)),
        put_back: args.put_back,
        hold: false,
    };
    let warnings = assemble::check(&home, &how).map_err(|e| failed(&e))?;
    if args.dry.dry_run {
        return Ok(dry_run::show(&plan(&home, args, &warnings), false));
    }
    for w in &warnings {
        eprintln!("armento: {w}");
    }
    drop(Session::connect().map_err(Failure::from)?);
    if let Some(node) = &args.on {
        known_node(node)?;
        if home.memory.iter().any(|m| !m.mapped_by.is_empty()) {
            return Err(Failure {
                message: format!("programs that share memory begin on this node, not on {node}; nothing was started"),
                hint: "leave --on away; `armento migrate` moves them afterwards".into(),
            }
            .into());
        }
    }
    if args.pid == Numbers::New && home.processes.len() > 1 {
        eprintln!(
            "armento: {} processes get new numbers: those of them that keep the number of another still have the old one",
            home.processes.len()
        );
    }
    start(args, &home, &how)
}

/// `NAME=value`, as execve(2) takes it.
fn variable(name: &OsStr, value: &OsStr) -> Option<CString> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(b'=');
    bytes.extend_from_slice(value.as_bytes());
    CString::new(bytes).ok()
}

fn failed(e: &AssembleError) -> Failure {
    Failure {
        message: format!("{e}; nothing was started"),
        hint: e.hint().unwrap_or("is it the right file?").into(),
    }
}

fn plan(home: &Home, args: &Args, warnings: &[assemble::Warning]) -> Vec<String> {
    let place = args
        .on
        .as_ref()
        .map_or("where there is room".into(), |n| format!("on {n}"));
    let mut lines: Vec<String> = home
        .processes
        .iter()
        .map(|p| match args.pid {
            Numbers::Same => format!("start {} as process {}, {place}", p.command(), p.pid),
            Numbers::New => format!("start {} (it was process {}), {place}", p.command(), p.pid),
        })
        .collect();
    lines.extend(warnings.iter().map(|w| format!("warn: {w}")));
    lines
}

/// Returns only when nothing could be started.
fn start(args: &Args, home: &Home, how: &How) -> anyhow::Result<i32> {
    assemble::become_root(home, how).map_err(|e| failed(&e))?;
    let board = Arc::new(Board::new(home).map_err(|e| Failure {
        message: format!("no memory for the restart: {e}; nothing was started"),
        hint: "try again when memory is free".into(),
    })?);
    let root = home.root().map(|p| p.argv.clone()).unwrap_or_default();
    let birth = Birth {
        command: root.into_iter().map(|w| OsString::from_vec(w.0)).collect(),
        on: None,
        stay: false,
        begin: Begin::Anywhere,
        spread: home.processes.len() > 1,
        portable: None,
        hint: None,
        forward_files: false,
        direct_sockets: true,
        safe: None,
        restart: Some(Restart {
            file: std::path::absolute(&args.file).unwrap_or_else(|_| args.file.clone()),
            same_pids: how.same_pids,
            on: args.on.clone(),
            board: board.clone(),
        }),
        storm: None,
        seed: None,
    };
    let assemble = || match assemble::assemble(home, how, &board) {
        Ok(never) => match never {},
        Err(e) => BirthError::Io(std::io::Error::other(e.to_string())),
    };
    let e = armento_keeper::restart(&birth, assemble);
    Err(Failure {
        message: format!("{e}; nothing of it runs"),
        hint: "the file is as it was; `armento restart --dry-run FILE` shows what it needs".into(),
    }
    .into())
}
