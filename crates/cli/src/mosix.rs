//! `armento mosix`: the commands of openMosix, and links by their names.
//!
//! Next: `crates/mosix/src/perform/mod.rs`.

use crate::dry_run::{self, DryRun};
use crate::out::{Failure, say, say_json};
use armento_client::Session;
use armento_mosix::{COMMANDS, hpc};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const INSTALL_HELP: &str = "Examples:
  armento mosix install --dry-run          what would be made
  armento mosix install                    links in /usr/local/bin, pages in /usr/local/share/man/man1
  armento mosix install --dir ~/bin

What is there already and was not made by this command is left, and listed.";
const REMOVE_HELP: &str = "Examples:
  armento mosix remove
  armento mosix remove --dir ~/bin --dry-run";
const LIST_HELP: &str = "Examples:
  armento mosix list
  armento mosix list --json | jq '.commands[] | select(.name == \"mosrun\")'";
const CAT_HELP: &str = "Examples:
  armento mosix cat /proc/hpc/nodes/2/load
  armento mosix cat /proc/4711/where
  armento mosix cat /proc/hpc/nodes            a directory: its names";

const WRITE_HELP: &str = "Examples:
  armento mosix write /proc/4711/goto 3        as `echo 3 > /proc/4711/goto`
  armento mosix write /proc/hpc/admin/block 1
  armento mosix write /proc/4711/goto home --dry-run";

#[derive(clap::Subcommand)]
pub enum Cmd {
    /// Make links by the old names, and their manual pages
    #[command(after_help = INSTALL_HELP)]
    Install(Links),
    /// Remove the links and pages that `install` made
    #[command(after_help = REMOVE_HELP)]
    Remove(Links),
    /// Show every old command and option, and what becomes of it
    #[command(after_help = LIST_HELP)]
    List(List),
    /// Print a file of openMosix' /proc/hpc or /proc/PID
    #[command(after_help = CAT_HELP)]
    Cat(Cat),
    /// Do what a write into a file of openMosix' /proc/hpc or /proc/PID did
    #[command(after_help = WRITE_HELP)]
    Write(Write),
    /// `armento mosix mosrun -h ./program` is `mosrun -h ./program`
    #[command(external_subcommand)]
    Called(Vec<OsString>),
}

#[derive(clap::Args)]
pub struct Links {
    /// Where the links are
    #[arg(long, value_name = "DIR", default_value = "/usr/local/bin")]
    dir: PathBuf,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(clap::Args)]
pub struct List {
    /// Print JSON (schema armento.mosix/1)
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Cat {
    /// A path below /proc, as openMosix had it
    path: String,
    /// Print JSON (schema armento.mosix-file/1)
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Write {
    /// A path below /proc, as openMosix had it
    path: String,
    /// What is written
    value: String,
    #[command(flatten)]
    dry: DryRun,
}

/// The old name by which this program was called.
pub fn old_name(called: &OsStr) -> Option<String> {
    let name = Path::new(called).file_name()?.to_str()?;
    armento_mosix::is_name(name).then(|| name.to_owned())
}

pub fn run(cmd: &Cmd) -> anyhow::Result<i32> {
    match cmd {
        Cmd::Install(links) => install(links),
        Cmd::Remove(links) => remove(links),
        Cmd::List(list) if list.json => {
            say_json("armento.mosix/1", armento_mosix::list_json());
            Ok(0)
        }
        Cmd::List(_) => {
            say(&armento_mosix::list());
            Ok(0)
        }
        Cmd::Cat(args) => cat(args),
        Cmd::Write(args) => write(args),
        Cmd::Called(words) => {
            let (name, rest) = words
                .split_first()
                .unwrap_or((const { &OsString::new() }, &[]));
            Ok(armento_mosix::main(&name.to_string_lossy(), rest))
        }
    }
}

fn write(args: &Write) -> anyhow::Result<i32> {
    let (name, words) =
        armento_mosix::old_command(&args.path, &args.value).map_err(|e| Failure {
            message: e.message,
            hint: e.hint,
        })?;
    if args.dry.dry_run {
        let would = format!("run {name} {}", armento_model::clean(&words.join(" ")));
        return Ok(dry_run::show(&[would], false));
    }
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    Ok(armento_mosix::main(name, &words))
}

fn cat(args: &Cat) -> anyhow::Result<i32> {
    let mut session = Session::connect().map_err(Failure::from)?;
    let view = hpc::View::ask(&mut session).map_err(|e| Failure {
        hint: e.hint.clone(),
        message: e.message,
    })?;
    let below = args.path.strip_prefix("/proc").unwrap_or(&args.path);
    let Some(entry) = hpc::entry(&view, below) else {
        return Err(Failure {
            message: format!(
                "openMosix had no such file, or there is no such node or process: {}",
                armento_model::clean(&args.path)
            ),
            hint: "`armento mosix cat /proc/hpc` shows what there is".into(),
        }
        .into());
    };
    let (text, names) = match entry {
        hpc::Entry::File(text) => (text, None),
        hpc::Entry::Dir(names) => (
            names.iter().map(|n| format!("{n}\n")).collect(),
            Some(names),
        ),
    };
    if args.json {
        let text = names.is_none().then_some(&text);
        let fields = serde_json::json!({ "path": args.path, "text": text, "names": names });
        say_json("armento.mosix-file/1", fields);
    } else {
        say(&text);
    }
    Ok(0)
}

/// A link or page of one command.
struct Made {
    path: PathBuf,
    what: What,
}

enum What {
    /// To this program.
    Link(PathBuf),
    Page(String),
}

/// The links and pages of all commands. Pages are beside a `bin`, where man(1) looks for them.
fn all(dir: &Path) -> anyhow::Result<Vec<Made>> {
    let exe = std::env::current_exe().map_err(|e| Failure {
        message: format!("this program's own file is not known: {e}; nothing was done"),
        hint: "is /proc mounted?".into(),
    })?;
    let link = |c: &armento_mosix::Command| Made {
        path: dir.join(c.name),
        what: What::Link(exe.clone()),
    };
    let mut made: Vec<Made> = COMMANDS.iter().map(link).collect();
    if dir.file_name() == Some(OsStr::new("bin"))
        && let Some(prefix) = dir.parent()
    {
        let man = prefix.join("share/man/man1");
        made.extend(COMMANDS.iter().map(|c| Made {
            path: man.join(format!("{}.1", c.name)),
            what: What::Page(armento_mosix::man(c)),
        }));
    }
    Ok(made)
}

impl Made {
    /// Whether what is there was made by this command, of this version or another. `None`: nothing is there.
    fn is_ours(&self) -> io::Result<Option<bool>> {
        let found = match fs::symlink_metadata(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            found => found?,
        };
        Ok(Some(match &self.what {
            What::Link(_) if !found.is_symlink() => false,
            What::Link(exe) => {
                let to = fs::read_link(&self.path)?;
                to == *exe || to.file_name() == Some(OsStr::new("armento"))
            }
            What::Page(page) => {
                let begin = page.split(" \"armento").next().unwrap_or_default();
                found.is_file()
                    && fs::read_to_string(&self.path)?.starts_with(&format!("{begin} \"armento"))
            }
        }))
    }

    fn make(&self) -> io::Result<()> {
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir)?;
        }
        match &self.what {
            What::Link(exe) => symlink(exe, &self.path),
            What::Page(page) => fs::write(&self.path, page),
        }
    }
}

fn failed(made: &Made, e: &io::Error) -> Failure {
    Failure {
        message: format!(
            "{}: {e}; what is listed above was done",
            made.path.display()
        ),
        hint: "use sudo, or name a directory of yours with --dir".into(),
    }
}

fn install(links: &Links) -> anyhow::Result<i32> {
    let mut left = 0;
    for made in all(&links.dir)? {
        let there = made.is_ours().map_err(|e| failed(&made, &e))?;
        if there == Some(false) {
            left += 1;
            say(&format!("left: {}\n", made.path.display()));
            continue;
        }
        if !links.dry_run {
            if there.is_some() {
                fs::remove_file(&made.path).map_err(|e| failed(&made, &e))?;
            }
            made.make().map_err(|e| failed(&made, &e))?;
        }
        say(&format!("{}\n", made.path.display()));
    }
    if left > 0 {
        return Err(Failure {
            message: format!("{left} of these names belong to other programs and were left"),
            hint: "`armento mosix NAME` works in any case; --dir names another directory".into(),
        }
        .into());
    }
    Ok(0)
}

fn remove(links: &Links) -> anyhow::Result<i32> {
    for made in all(&links.dir)? {
        if made.is_ours().map_err(|e| failed(&made, &e))? == Some(true) {
            if !links.dry_run {
                fs::remove_file(&made.path).map_err(|e| failed(&made, &e))?;
            }
            say(&format!("{}\n", made.path.display()));
        }
    }
    Ok(0)
}
