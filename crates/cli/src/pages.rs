//! Manual pages and shell completions, generated from the texts of `--help`.
//!
//! `make deb` and `make tarball` call the hidden verb.

use anyhow::{Context, Result};
use clap_complete::{Shell, generate_to};
use std::path::{Path, PathBuf};

const HELP: &str = "Example:
  armento pages target/pages

Writes DIR/man/*.1 and *.5, DIR/bash/armento, DIR/zsh/_armento and DIR/fish/armento.fish.";

/// Installed as /etc/armento/config.toml.
const SETTINGS: &str = include_str!("../../../packaging/config.toml");

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Created if it does not exist
    dir: PathBuf,
}

pub fn run(args: &Args, mut command: clap::Command) -> Result<i32> {
    command.build();
    let dir = |name: &str| {
        let dir = args.dir.join(name);
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok::<_, anyhow::Error>(dir)
    };
    let man = dir("man")?;
    page_of(&visible(&command), "", &man)?;
    write(&man.join("armento.toml.5"), settings(SETTINGS))?;
    let complete = |shell: Shell, name: &str| {
        generate_to(shell, &mut visible(&command), "armento", dir(name)?).context("completions")
    };
    complete(Shell::Zsh, "zsh")?;
    complete(Shell::Fish, "fish")?;
    // bash-completion(7) looks for a file with the command's name.
    let bash = complete(Shell::Bash, "bash")?;
    std::fs::rename(&bash, bash.with_file_name("armento")).context("completions")?;
    Ok(0)
}

/// Without hidden verbs, and without the `help` verb of each.
fn visible(command: &clap::Command) -> clap::Command {
    // clap keeps static names only; this process ends when the pages are written.
    let leaked = |name: &str| -> &'static str { name.to_owned().leak() };
    let mut shown = clap::Command::new(leaked(command.get_name()))
        .disable_help_subcommand(true)
        .args(command.get_arguments().filter(|arg| {
            // Added again when the page is rendered.
            !matches!(arg.get_id().as_str(), "help" | "version")
        }));
    shown = match command.get_about() {
        Some(about) => shown.about(about.clone()),
        None => shown,
    };
    if let Some(about) = command.get_long_about() {
        shown = shown.long_about(about.clone());
    }
    if let Some(version) = command.get_version() {
        shown = shown.version(leaked(version));
    }
    if let Some(more) = command.get_after_help() {
        shown = shown.after_help(more.clone());
    }
    let verbs = command.get_subcommands();
    let verbs = verbs.filter(|v| !v.is_hide_set() && v.get_name() != "help");
    shown
        .subcommand_required(command.is_subcommand_required_set())
        .subcommands(verbs.map(visible))
}

/// A page for the command, and one for each below it: armento-farm-init(1).
fn page_of(command: &clap::Command, above: &str, dir: &Path) -> Result<()> {
    let name = format!("{above}{}", command.get_name());
    let below: Vec<clap::Command> = command.get_subcommands().cloned().collect();
    let words = name.replace('-', " ");
    let command = command.clone().bin_name(words).display_name(name.clone());
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .title(name.to_uppercase())
        .manual("Armento")
        .source(format!("armento {}", env!("CARGO_PKG_VERSION")))
        .render(&mut page)
        .context("a manual page")?;
    write(&dir.join(format!("{name}.1")), page)?;
    let above = format!("{name}-");
    below.iter().try_for_each(|verb| page_of(verb, &above, dir))
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

/// armento.toml(5): the comments of the settings, each with its keys.
fn settings(text: &str) -> String {
    let escaped = |line: &str| {
        let line = line.replace('\\', "\\e").replace('-', "\\-");
        match line.starts_with(['.', '\'']) {
            true => format!("\\&{line}"),
            false => line,
        }
    };
    let version = env!("CARGO_PKG_VERSION");
    let mut page = format!(
        ".TH ARMENTO.TOML 5 \"\" \"armento {version}\" Armento\n.SH NAME\narmento.toml \\- settings of an Armento node\n\
         .SH SYNOPSIS\n/etc/armento/config.toml\n.SH DESCRIPTION\n"
    );
    let mut settings_begun = false;
    for block in text.split("\n\n") {
        let lines = || block.lines();
        let words = lines().filter_map(|l| l.strip_prefix("# "));
        let keys: Vec<String> = lines()
            .filter_map(|l| {
                l.strip_prefix('#')
                    .filter(|l| !l.starts_with(' ') && !l.is_empty())
            })
            .map(escaped)
            .collect();
        if !keys.is_empty() && !std::mem::replace(&mut settings_begun, true) {
            page += ".SH SETTINGS\n";
        }
        if !keys.is_empty() {
            page += &format!(".TP\n\\fB{}\\fR\n", keys.join("\\fR\n.TQ\n\\fB"));
        }
        words.for_each(|line| page += &format!("{}\n", escaped(line)));
        if keys.is_empty() {
            page += ".PP\n";
        }
    }
    page + ".SH SEE ALSO\narmento\\-node(1), armento\\-farm(1)\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_rendered_as_a_page() {
        let page = settings("# First.\n\n# What it is\n# for.\n#name = \"n1\"\n#x = 1\n");
        let body = page.split(".SH DESCRIPTION\n").nth(1).expect("a body");
        assert_eq!(
            body,
            "First.\n.PP\n.SH SETTINGS\n.TP\n\\fBname = \"n1\"\\fR\n.TQ\n\\fBx = 1\\fR\nWhat it is\nfor.\n\
             .SH SEE ALSO\narmento\\-node(1), armento\\-farm(1)\n"
        );
    }
}
