//! Contents of the package that can be checked without building it: settings, units, manual pages, completions.

use armento_noded::Config;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ARMENTO: &str = env!("CARGO_BIN_EXE_armento");
const SETTINGS: &str = include_str!("../../../packaging/config.toml");

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// The line of a commented key, without the comment sign.
fn key(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('#')?;
    (!rest.is_empty() && !rest.starts_with(' ')).then_some(rest)
}

/// The accepted keys, as listed in the error for an unknown key.
fn known(text: &str) -> BTreeSet<String> {
    let why = Config::parse(text).expect_err("an unknown key");
    let list = why.split("expected one of").nth(1).expect(&why);
    let names = list.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

fn named<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let keys = lines.filter_map(|l| l.split_once(" = "));
    keys.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn packaged_settings_parse_with_each_key_enabled() {
    Config::parse(SETTINGS).expect("as installed");
    let mut top = BTreeSet::new();
    let mut lists = BTreeMap::<String, BTreeSet<String>>::new();
    let mut sections = BTreeMap::<String, BTreeSet<String>>::new();
    for block in SETTINGS.split("\n\n") {
        let keys: Vec<&str> = block.lines().filter_map(key).collect();
        let text = keys.join("\n");
        Config::parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let list = keys
            .iter()
            .find_map(|k| k.strip_prefix("[[")?.strip_suffix("]]"));
        let section = keys
            .iter()
            .find_map(|k| k.strip_prefix('[')?.strip_suffix(']'));
        let into = match (list, section) {
            (Some(list), _) => lists.entry(list.to_owned()).or_default(),
            (None, Some(section)) => sections.entry(section.to_owned()).or_default(),
            (None, None) => &mut top,
        };
        into.extend(named(keys.into_iter()));
    }
    let all: Vec<&str> = SETTINGS.lines().map(|l| key(l).unwrap_or(l)).collect();
    Config::parse(&all.join("\n")).expect("all keys at once");
    top.extend(lists.keys().chain(sections.keys()).cloned());
    assert_eq!(top, known("no_such_key = 1"));
    for (section, keys) in sections {
        assert_eq!(keys, known(&format!("[{section}]\nno_such_key = 1")));
    }
    for (list, keys) in lists {
        let first = keys.first().expect("a list has keys");
        let line = SETTINGS
            .lines()
            .filter_map(key)
            .find(|l| l.starts_with(&format!("{first} = ")));
        let text = format!(
            "[[{list}]]\n{}\nno_such_key = 1",
            line.expect("it was read")
        );
        assert_eq!(keys, known(&text));
    }
}

fn output(command: &mut Command) -> Output {
    command.output().expect("it runs")
}

#[test]
fn every_verb_has_a_man_page_and_completions() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pages-{}", std::process::id()));
    let made = output(Command::new(ARMENTO).arg("pages").arg(&dir));
    assert!(made.status.success(), "{made:?}");
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).expect(name);
    let page = read("man/armento-farm-init.1");
    assert!(page.contains("--listen") || page.contains("\\-\\-listen"));
    for name in ["man/armento.1", "man/armento-run.1", "man/armento.toml.5"] {
        assert!(read(name).contains(".TH "), "{name}");
    }
    for hidden in ["armento-service.1", "armento-pages.1"] {
        assert!(!dir.join("man").join(hidden).exists(), "{hidden}");
    }
    for name in ["bash/armento", "zsh/_armento", "fish/armento.fish"] {
        let text = read(name);
        assert!(
            text.contains("migrate") && !text.contains("stopping"),
            "{name}"
        );
    }
    let bash = output(Command::new("bash").arg("-n").arg(dir.join("bash/armento")));
    let _ = std::fs::remove_dir_all(&dir);
    assert!(bash.status.success(), "{bash:?}");
}

const UNITS: [&str; 2] = ["armento.service", "armento-boot-server.service"];

#[test]
fn systemd_verifies_the_units() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        println!("skipped: package systemd (systemd-analyze)");
        return;
    }
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("unit-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("directory");
    for name in UNITS {
        let unit = std::fs::read_to_string(packaging().join(name)).expect(name);
        // The tested executable replaces the installed one; manual pages are not installed here.
        let unit = unit.replace("/usr/bin/armento", ARMENTO);
        let lines = unit.lines().filter(|l| !l.starts_with("Documentation="));
        let file = dir.join(name);
        std::fs::write(&file, lines.collect::<Vec<_>>().join("\n")).expect("written");
        let said = output(Command::new("systemd-analyze").arg("verify").arg(&file));
        let text = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success() && !text.contains("armento"), "{text}");
    }
    let _ = std::fs::remove_dir_all(&dir);
}

#[test]
fn the_package_has_the_boot_servers_unit_and_does_not_enable_it() {
    let manifest = include_str!("../Cargo.toml");
    let manifest: toml::Table = manifest.parse().expect("the manifest");
    let deb = &manifest["package"]["metadata"]["deb"];
    // Units that cargo-deb finds itself are enabled and started by the package.
    assert_eq!(deb["systemd-units"]["unit-name"].as_str(), Some("armento"));
    let name = "armento-boot-server.service";
    let assets = deb["assets"].as_array().expect("assets");
    let to = format!("usr/lib/systemd/system/{name}");
    let asset = assets.iter().find(|a| a[1].as_str() == Some(&to));
    let from = asset.expect("an asset")[0].as_str().expect("a path");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(from);
    let unit = std::fs::read_to_string(&from).expect("the unit");
    for line in [
        "ExecStart=/usr/bin/armento boot serve",
        "Type=notify",
        "NoNewPrivileges=yes",
    ] {
        assert!(unit.lines().any(|l| l == line), "{line}");
    }
    for script in ["postinst", "prerm", "postrm"] {
        let text = std::fs::read_to_string(packaging().join("debian").join(script)).expect(script);
        assert!(text.contains(name), "{script}");
        assert!(!text.contains(&format!("enable {name}")), "{script}");
        assert!(!text.contains(&format!(" start {name}")), "{script}");
    }
}
