//! Dependencies between crates point down only.

use super::Complaint;
use super::files::File;

/// From the bottom to the top. A crate may import crates of the groups above it in this list, never of its own group or
/// of a later one. The layers are those of `ARCHITECTURE.md`; `client` is low because keepers and hosts use it, `lab`
/// and `conform` are below `cli` because they are verbs.
const LAYERS: &[&[&str]] = &[
    &["model"],
    &["census"],
    &["abi"],
    &["wire"],
    &["gossip"],
    &["balance"],
    &["tracee", "sense", "link", "leases", "dfsa", "discover"],
    &["client", "mfs"],
    &["migrate", "history", "checkpoint"],
    &["keeper", "host"],
    &["noded"],
    &["scenario", "fabric"],
    &["provision"],
    &["sim", "lab", "machines", "nfs"],
    &["mpi", "metrics"],
    &["conform", "papers"],
    &["tui", "web", "mosix", "schema"],
    &["cli"],
    &["bench"],
];
/// `anyhow` loses types: only where a user reads the message.
const ANYHOW: &[&str] = &[
    "lab", "machines", "mpi", "papers", "conform", "cli", "bench", "xtask",
];

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|l| l.contains(&name))
}

pub fn check(file: &File) -> Vec<Complaint> {
    let crate_name = match file.path.strip_prefix("crates/") {
        Some(rest) => rest.split('/').next().unwrap_or_default(),
        None if file.path.starts_with("xtask/") => "xtask",
        None => return Vec::new(),
    };
    let own = match layer(crate_name) {
        Some(n) => n,
        None if crate_name == "xtask" => LAYERS.len(),
        None => return vec![Complaint::fail(&file.path, 0, "this crate is in no layer")],
    };
    let mut found = Vec::new();
    for (i, name) in dependencies(&file.text) {
        if name == "anyhow" && !ANYHOW.contains(&crate_name) {
            found.push(Complaint::fail(
                &file.path,
                i,
                "anyhow: use a typed error here",
            ));
        }
        let Some(below) = name.strip_prefix("armento-") else {
            continue;
        };
        if layer(below).is_none_or(|l| l >= own) {
            let what = format!("{crate_name} imports {below}, which is not below it");
            found.push(Complaint::fail(&file.path, i, what));
        }
    }
    found
}

/// Names in `[dependencies]` and `[build-dependencies]` with their lines. Tests may depend on higher crates.
fn dependencies(toml: &str) -> Vec<(usize, &str)> {
    let mut inside = false;
    let mut found = Vec::new();
    for (i, line) in toml.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]") && !line.contains("dev-");
        } else if inside && let Some(end) = line.find(['.', ' ', '=']) {
            found.push((i + 1, &line[..end]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_point_down() {
        let count = |path: &str, text: &str, n: usize| {
            let f = File {
                path: path.into(),
                text: text.into(),
            };
            assert_eq!(check(&f).len(), n, "{path}: {text}");
        };
        let on = |dep: &str| format!("[dependencies]\n{dep}.workspace = true\n");
        count("crates/keeper/Cargo.toml", &on("armento-model"), 0);
        count("crates/keeper/Cargo.toml", &on("armento-host"), 1);
        count("crates/model/Cargo.toml", &on("armento-wire"), 1);
        count("crates/model/Cargo.toml", &on("anyhow"), 1);
        count("crates/lab/Cargo.toml", &on("anyhow"), 0);
        count(
            "crates/keeper/Cargo.toml",
            "[dev-dependencies]\narmento-lab = \"1\"\n",
            0,
        );
        count("crates/unheard/Cargo.toml", "", 1);
        count("xtask/Cargo.toml", &on("armento-bench"), 0);
    }
}
