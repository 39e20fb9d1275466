//! The farm in which guests run: started and stopped with `armento lab`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Home and two other nodes, so that moves between two foreign nodes occur.
const NODES: u32 = 3;
/// The node on which guests start.
pub const HOME: &str = "n1";
/// The node on which `away` puts them.
pub const AWAY: &str = "n2";

#[derive(Clone)]
pub struct Farm {
    armento: PathBuf,
    name: String,
    /// We started it, so we stop it.
    ours: bool,
}

impl Farm {
    /// Uses the lab `name`, or starts one.
    pub fn up(armento: &Path, name: Option<&str>) -> Result<Farm> {
        let ours = name.is_none();
        let name = name.map_or_else(|| format!("conform-{}", std::process::id()), str::to_string);
        let farm = Farm {
            armento: armento.to_path_buf(),
            name,
            ours,
        };
        if ours {
            farm.lab(&[
                "up",
                "--nodes",
                &NODES.to_string(),
                "--link",
                "none",
                // At least a core: where a quota throttles a process now and then, the kernel's ticks count its CPU
                // time 15 % too high (ITIMER_PROF), and native runs have no quota.
                "--speed",
                "1",
                "--name",
            ])?;
        }
        Ok(farm)
    }

    fn lab(&self, words: &[&str]) -> Result<()> {
        let done = Command::new(&self.armento)
            .arg("lab")
            .args(words)
            .arg(&self.name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .with_context(|| format!("cannot start {}", self.armento.display()))?;
        if !done.success() {
            bail!(
                "armento lab {} {} failed ({done}); no guest was run\n\
                 hint: armento doctor says what this machine lacks; --mode native needs no lab",
                words.join(" "),
                self.name
            );
        }
        Ok(())
    }

    /// A command that runs `program` on the node on which guests start.
    pub fn inside(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.armento);
        command
            .args(["lab", "exec", "--name", &self.name, HOME, "--"])
            .arg(program);
        command
    }

    /// Recent logs of hosts and daemons, stored with the evidence of a failure.
    pub fn keep_logs(&self, folder: &Path) -> Result<()> {
        // The files that `armento lab` writes (`lab/src/farm.rs`).
        const LAST: &str =
            "tail -n 100 /var/lib/armento/hosts/*.log /var/log/armento.log 2>/dev/null";
        for node in 1..=NODES {
            let node = format!("n{node}");
            let said = Command::new(&self.armento)
                .args(["lab", "exec", "--name", &self.name, &node])
                .args(["--", "sh", "-c", LAST])
                .stdin(Stdio::null())
                .output()?;
            std::fs::write(folder.join(format!("{node}.log")), said.stdout)?;
        }
        Ok(())
    }

    /// How to look into a lab that is kept.
    pub fn hint(&self) -> String {
        format!("armento lab exec --name {} {HOME} -- bash", self.name)
    }

    pub fn down(self) -> Result<()> {
        if self.ours {
            self.lab(&["down", "--name"])
        } else {
            Ok(())
        }
    }
}

/// The `armento` to test: the given one, this program, or one built beside it.
pub fn armento(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = named {
        return path
            .canonicalize()
            .with_context(|| format!("cannot find {}", path.display()));
    }
    let me = std::env::current_exe().context("cannot tell which program this is")?;
    if is_verb() {
        return Ok(me);
    }
    // target/debug/examples/conform, target/debug/armento
    let beside = me
        .ancestors()
        .skip(1)
        .take(2)
        .map(|dir| dir.join("armento"));
    beside.into_iter().find(|path| path.is_file()).context(
        "cannot find the program armento, so only native runs are possible\n\
         hint: build it, or name it with --armento FILE; or use --mode native",
    )
}

/// Directories that are separate in every node of a lab.
const OWN: [&str; 4] = ["/tmp", "/run", "/dev", "/var/lib/armento"];

/// `program` at a path that nodes can see: a checkout below the machine's own /tmp is not shared with them.
pub fn shared(program: &Path, base: &Path) -> Result<PathBuf> {
    if !OWN.iter().any(|dir| program.starts_with(dir)) {
        return Ok(program.to_path_buf());
    }
    let dir = base.join("shared");
    let copy = dir.join(program.file_name().context("a program has a name")?);
    if !copy.is_file() {
        std::fs::create_dir_all(&dir)?;
        std::fs::copy(program, &copy)
            .with_context(|| format!("cannot copy {}", program.display()))?;
    }
    Ok(copy)
}

/// Whether this runs as a verb of `armento`, whatever the file is called, or as a separate program.
pub fn is_verb() -> bool {
    std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "conform")
}
