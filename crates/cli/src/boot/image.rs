//! `armento boot image`.

use super::lag;
use super::place::Place;
use crate::dry_run::{self, DryRun};
use crate::out::{Failure, say, say_json, table};
use anyhow::Result;
use armento_lab::Waiting;
use armento_model::span;
use armento_provision::image::{
    self, BuildOptions, Change, Generation, ImportOptions, Listed, Store, Wanted,
};
use armento_provision::problem::BootError;
use armento_provision::stage::{Board, Step};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

const BUILD_HELP: &str = "Examples:
  armento boot image build base                     Debian 12 with the newest kernel that its backports have
  armento boot image build base --suite trixie
  armento boot image build lab --include openmpi-bin,lame --kernel linux-image-cloud-amd64

Takes some minutes, and about 1 GB below the boot directory. The first generation is in use at once, later ones after
`armento boot image use`. What is not complete is not listed.";
const IMPORT_HELP: &str = "Examples:
  armento boot image import base /srv/root               a directory
  armento boot image import base root.tar.gz             an archive of a root
  armento boot image import web image.tar --kernel-of base    an OCI image, as podman save or docker save writes it

What is imported is copied. It needs systemd, udev and, unless --kernel-of is given, a kernel with its modules.";
const LIST_HELP: &str = "Examples:
  armento boot image list
  armento boot image list --json | jq '.generations[] | select(.current)'";
const USE_HELP: &str = "Examples:
  armento boot image use base@3
  armento boot image use base@3 --dry-run

Nodes boot it from their next start on; running nodes go on with the generation that they have.";
const BACK_HELP: &str = "Examples:
  armento boot image back base        the generation that was in use before the last `use`";
const DIFF_HELP: &str = "Examples:
  armento boot image diff base 2 3        from generation 2 to 3
  armento boot image diff base            edits of the one in use since it was made";
const REMOVE_HELP: &str = "Examples:
  armento boot image remove base@1
  armento boot image remove base@1 --dry-run

Refused for the generation in use, and for one that running nodes have as their root.";

const LEAD_HELP: &str = "Examples:
  armento boot image lead base@3         from now on this server's root is the one to edit
  armento boot image lead base@3 --dry-run

For a server that is lost, or whose root is to be edited elsewhere. The other boot servers follow this one's root; edits that
it has not yet are lost.";

#[derive(clap::Subcommand)]
pub enum Cmd {
    /// Make the next generation of an image of Debian's packages
    #[command(after_help = BUILD_HELP)]
    Build(Build),
    /// Make the next generation of a directory, an archive or an OCI image
    #[command(after_help = IMPORT_HELP)]
    Import(Import),
    /// Show all generations
    #[command(after_help = LIST_HELP)]
    List(List),
    /// Choose the generation that nodes boot
    #[command(name = "use", after_help = USE_HELP)]
    Use(Use),
    /// Return to the generation before
    #[command(after_help = BACK_HELP)]
    Back(Back),
    /// Show what differs between two generations, or what was edited
    #[command(after_help = DIFF_HELP)]
    Diff(Diff),
    /// Make this boot server's root the one that is edited; the others follow it
    #[command(after_help = LEAD_HELP)]
    Lead(Use),
    /// Remove a generation
    #[command(after_help = REMOVE_HELP)]
    Remove(Remove),
}

#[derive(clap::Args)]
pub struct Build {
    /// The image's name
    name: String,
    /// Debian's release
    #[arg(long, value_name = "SUITE", default_value = "bookworm")]
    suite: String,
    /// Debian's mirror [default: the one of apt on this machine]
    #[arg(long, value_name = "URL")]
    mirror: Option<String>,
    /// The kernel's package
    #[arg(long, value_name = "PACKAGE", default_value = "linux-image-amd64")]
    kernel: String,
    /// More packages
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',')]
    include: Vec<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
pub struct Import {
    /// The image's name
    name: String,
    /// A directory or an archive
    from: PathBuf,
    /// Take kernel and modules of this image
    #[arg(long, value_name = "NAME[@GEN]")]
    kernel_of: Option<Wanted>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
pub struct List {
    #[command(flatten)]
    place: Place,
    /// Print JSON (schema armento.boot.images/1)
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Use {
    #[arg(value_name = "NAME[@GEN]")]
    wanted: Wanted,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
pub struct Back {
    /// The image's name
    name: String,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
pub struct Diff {
    /// The image's name
    name: String,
    /// From this generation
    #[arg(value_name = "GEN", requires = "to")]
    from: Option<u32>,
    /// To this one
    #[arg(value_name = "GEN")]
    to: Option<u32>,
    #[command(flatten)]
    place: Place,
    /// Print JSON (schema armento.boot.image.diff/1)
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub struct Remove {
    #[arg(value_name = "NAME@GEN")]
    wanted: Wanted,
    /// Remove it although a boot server does not answer: nodes of that one lose their root if they have this
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
pub struct Common {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    dry: DryRun,
    /// Print JSON (schema armento.boot.image/1)
    #[arg(long)]
    json: bool,
}

impl Common {
    fn store(&self) -> Result<Store> {
        // Refuses a directory that is none of ours before anything is built in it.
        self.place.settings()?;
        Ok(Store::new(&self.place.boot()))
    }
}

pub fn run(cmd: Cmd) -> Result<i32> {
    match cmd {
        Cmd::Build(args) => build(&args),
        Cmd::Import(args) => import(&args),
        Cmd::List(args) => list(&args),
        Cmd::Use(args) => choose(&args),
        Cmd::Back(args) => back(&args),
        Cmd::Diff(args) => diff(&args),
        Cmd::Lead(args) => take_lead(&args),
        Cmd::Remove(args) => remove(&args),
    }
}

fn build(args: &Build) -> Result<i32> {
    let name = &args.name;
    let would = format!(
        "make the next generation of {name} of Debian {} with {}",
        args.suite, args.kernel
    );
    let options = BuildOptions {
        suite: &args.suite,
        mirror: args.mirror.as_deref(),
        kernel: &args.kernel,
        include: &args.include,
    };
    make(name, &args.common, would, |store, armento, said| {
        image::build(store, name, &options, armento, said)
    })
}

fn import(args: &Import) -> Result<i32> {
    let name = &args.name;
    let from = args.from.display();
    let would = format!("make the next generation of {name} of {from}");
    let options = ImportOptions {
        from: &args.from,
        kernel_of: args.kernel_of.as_ref(),
    };
    make(name, &args.common, would, |store, armento, said| {
        image::import(store, name, &options, armento, said)
    })
}

/// Makes the next generation by `work`, which gets this program as well.
fn make(
    name: &str,
    common: &Common,
    would: String,
    work: impl FnOnce(&Store, &Path, &mut dyn FnMut(&str)) -> Result<Generation, BootError>,
) -> Result<i32> {
    let store = common.store()?;
    if common.dry.dry_run {
        return Ok(dry_run::show(&[would], common.json));
    }
    let armento = std::env::current_exe()?;
    let waiting = Waiting::new(format!("image {name}"));
    let done = work(&store, &armento, &mut |what| {
        waiting.say(format!("image {name}: {what}"));
    });
    drop(waiting);
    let made = done.map_err(Failure::from)?;
    Ok(tell(&store, &made, common.json, "is made"))
}

/// Chooses; then says which other boot servers do not follow yet.
fn chosen(common: &Common, store: &Store, generation: &Generation) -> Result<i32> {
    let waiting = Waiting::new(format!("{generation} on all boot servers"));
    let lagging = lag::of_choice(&common.place, generation)?;
    drop(waiting);
    if common.json {
        say_json(
            "armento.boot.image/1",
            json!({
                "image": generation.image, "generation": generation.number, "current": true, "dir": generation.dir,
                "lagging": lagging,
            }),
        );
        return Ok(0);
    }
    let code = tell(store, generation, false, "is in use");
    for (server, why) in &lagging {
        say(&format!("{server} does not boot it yet: {why}\n"));
    }
    Ok(code)
}

fn tell(store: &Store, generation: &Generation, as_json: bool, what: &str) -> i32 {
    let current = store.is_current(generation);
    match as_json {
        true => say_json(
            "armento.boot.image/1",
            json!({ "image": generation.image, "generation": generation.number, "current": current, "dir": generation.dir }),
        ),
        false => {
            let next = match current {
                true => "nodes boot it from their next start on".into(),
                false => format!("nodes boot it after `armento boot image use {generation}`"),
            };
            say(&format!("{generation} {what}; {next}\n"));
        }
    }
    0
}

fn list(args: &List) -> Result<i32> {
    let store = Store::new(&args.place.boot());
    let all = store.list().map_err(Failure::from)?;
    // A directory of images alone has no settings.
    let own = args.place.settings().map(|s| s.server).unwrap_or_default();
    let others = lag::others(&args.place);
    let mut rows = Vec::new();
    let mut documents = Vec::new();
    for one in &all {
        let Listed {
            generation,
            current,
            previous,
        } = one;
        let manifest = generation.manifest().map_err(Failure::from)?;
        let state = match (current, previous) {
            (true, _) => "in use",
            (_, true) => "before",
            _ => "",
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        rows.push(vec![
            generation.to_string(),
            state.into(),
            format!("{} ago", span(now.saturating_sub(manifest.made) * 1000)),
            format!("{} MB", manifest.bytes / 1_000_000),
            manifest.kernel.clone(),
            if manifest.erofs.is_some() {
                "live, ram"
            } else {
                "live"
            }
            .into(),
            store.lead(generation, &own).server,
            manifest.from.clone(),
        ]);
        documents.push(json!({
            "image": generation.image, "generation": generation.number, "current": current, "previous": previous,
            "made": manifest.made, "bytes": manifest.bytes, "kernel": manifest.kernel, "ram": manifest.erofs.is_some(),
            "from": manifest.from, "dir": generation.dir, "lead": store.lead(generation, &own).server,
        }));
    }
    let heads = [
        ("IMAGE", false),
        ("STATE", false),
        ("MADE", true),
        ("SIZE", true),
        ("KERNEL", false),
        ("ROOTS", false),
        ("EDITED ON", false),
        ("FROM", false),
    ];
    match args.json {
        true => say_json(
            "armento.boot.images/1",
            json!({ "generations": documents, "servers": others.document() }),
        ),
        false if all.is_empty() => say(&format!(
            "no image; `armento boot image build base` makes one\n{}",
            others.text()
        )),
        false => say(&(table(&heads, &rows) + &others.text())),
    }
    Ok(0)
}

fn choose(args: &Use) -> Result<i32> {
    let store = args.common.store()?;
    if args.common.dry.dry_run {
        let generation = store.find(&args.wanted).map_err(Failure::from)?;
        let would = match store.is_current(&generation) {
            true => format!("leave {generation} in use, as it is"),
            false => format!("let nodes boot {generation} from their next start on"),
        };
        return Ok(dry_run::show(&[would], args.common.json));
    }
    let (generation, _) = store.use_generation(&args.wanted).map_err(Failure::from)?;
    chosen(&args.common, &store, &generation)
}

fn back(args: &Back) -> Result<i32> {
    let store = args.common.store()?;
    if args.common.dry.dry_run {
        let number = store.before(&args.name).map_err(Failure::from)?;
        let would = format!(
            "let nodes boot {}@{number} from their next start on",
            args.name
        );
        return Ok(dry_run::show(&[would], args.common.json));
    }
    let generation = store.back(&args.name).map_err(Failure::from)?;
    chosen(&args.common, &store, &generation)
}

fn take_lead(args: &Use) -> Result<i32> {
    let store = args.common.store()?;
    let own = args.common.place.settings()?.server;
    let generation = store.find(&args.wanted).map_err(Failure::from)?;
    let before = store.lead(&generation, &own).server;
    let would = match before == own {
        true => format!("leave it as it is: the root of {generation} is edited on {own}"),
        false => format!(
            "let the root of {generation} be edited on {own} instead of {before}, and the other boot servers follow it"
        ),
    };
    if args.common.dry.dry_run {
        return Ok(dry_run::show(&[would], args.common.json));
    }
    let lead = store.take_lead(&generation, &own).map_err(Failure::from)?;
    match args.common.json {
        true => say_json(
            "armento.boot.image/1",
            json!({ "image": generation.image, "generation": generation.number, "lead": lead.server, "before": before }),
        ),
        false => say(&format!(
            "the root of {generation} is edited on {own} from now on; the other boot servers follow it\n"
        )),
    }
    Ok(0)
}

fn diff(args: &Diff) -> Result<i32> {
    let store = Store::new(&args.place.boot());
    let find = |number: Option<u32>| {
        let wanted = Wanted {
            image: args.name.clone(),
            number,
        };
        store.find(&wanted).map_err(Failure::from)
    };
    let changes = match (args.from, args.to) {
        (Some(from), Some(to)) => {
            let (from, to) = (find(Some(from))?, find(Some(to))?);
            let files = |g: &Generation| g.manifest().map(|m| m.files).map_err(Failure::from);
            image::diff(&files(&from)?, &files(&to)?)
        }
        _ => {
            let waiting = Waiting::new(format!("reading the files of {}", args.name));
            let changes = image::edited(&find(None)?).map_err(Failure::from);
            drop(waiting);
            changes?
        }
    };
    if args.json {
        say_json("armento.boot.image.diff/1", json!({ "changes": changes }));
        return Ok(0);
    }
    let line = |c: &Change| match c {
        Change::Added { path } => format!("+ {path}\n"),
        Change::Removed { path } => format!("- {path}\n"),
        Change::Changed { path, what } => format!("~ {path} ({})\n", what.join(", ")),
    };
    let text: String = changes.iter().map(line).collect();
    say(if text.is_empty() {
        "nothing differs\n"
    } else {
        &text
    });
    Ok(0)
}

/// The machines that boot servers know. One that does not answer may have nodes with this root.
fn seen(args: &Remove) -> Result<Board> {
    match args.force {
        true => super::status::known(&args.common.place),
        false => super::status::known_by_all(&args.common.place),
    }
}

fn remove(args: &Remove) -> Result<i32> {
    let store = args.common.store()?;
    if args.wanted.number.is_none() {
        let failure = Failure {
            message: "which generation? nothing was changed".into(),
            hint: format!(
                "armento boot image remove {}@1; `armento boot image list` shows them",
                args.wanted.image
            ),
        };
        return Err(failure.into());
    }
    let generation = store.find(&args.wanted).map_err(Failure::from)?;
    let users = match store.is_current(&generation) {
        // That alone refuses it.
        true => Vec::new(),
        false => users(&seen(args)?, &generation),
    };
    if args.common.dry.dry_run {
        let would = match (store.is_current(&generation), users.is_empty()) {
            (true, _) => format!("be refused: nodes boot {generation}"),
            (_, false) => format!(
                "be refused: {generation} is the root of {}",
                users.join(", ")
            ),
            _ => format!("remove {generation}"),
        };
        return Ok(dry_run::show(&[would], args.common.json));
    }
    let waiting = Waiting::new(format!("removing {generation}"));
    let removed = store.remove(&generation, &users).map_err(Failure::from);
    drop(waiting);
    removed?;
    match args.common.json {
        true => say_json(
            "armento.boot.image/1",
            json!({ "removed": generation.to_string() }),
        ),
        false => say(&format!("{generation} is removed\n")),
    }
    Ok(0)
}

/// Nodes that have started from a generation, as far as boot servers know.
fn users(board: &Board, generation: &Generation) -> Vec<String> {
    let name = generation.to_string();
    let of = board
        .machines
        .values()
        .filter(|p| p.image.as_ref() == Some(&name) && p.step() >= Step::Root);
    of.filter_map(|p| p.node.clone()).collect()
}
