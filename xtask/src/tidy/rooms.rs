//! The rooms of a crate: which module may import which.
//!
//! A room is a module at the top of a crate, a file or a directory. `crates/NAME/rooms.toml` lists the rooms from the
//! top to the bottom; a room imports those below it only, and of a directory only what its `mod.rs` exports: its
//! items, and the files that it declares public. No files import each other in a circle. Tests may
//! import anything.

use super::Complaint;
use super::files::File;
use super::imports::{self, Import};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// Names of modules from the root of a crate.
type Module = Vec<String>;

/// `rooms.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    rooms: Vec<String>,
}

/// The modules of one crate with what they import.
#[derive(Default)]
struct Crate<'a> {
    files: BTreeMap<Module, &'a str>,
    imports: BTreeMap<Module, Vec<Import>>,
    /// Exports of the face (`mod.rs`) of a directory, with the module that defines each.
    offered: BTreeMap<(Module, String), Module>,
    /// Files of a folder that its face declares public: part of the face.
    open: BTreeSet<Module>,
    list: Option<&'a File>,
}

pub fn check(tree: &[File]) -> Vec<Complaint> {
    let mut crates: BTreeMap<&str, Crate> = BTreeMap::new();
    let mut found = Vec::new();
    for file in tree {
        let Some((name, rest)) = file
            .path
            .strip_prefix("crates/")
            .and_then(|p| p.split_once('/'))
        else {
            continue;
        };
        let of = crates.entry(name).or_default();
        if rest == "rooms.toml" {
            of.list = Some(file);
        }
        let Some(module) = rest.strip_prefix("src/").and_then(module) else {
            continue;
        };
        match imports::read(&file.text) {
            Ok(imports) => of.take(module, file, imports),
            Err(what) => found.push(Complaint::fail(&file.path, 0, what)),
        }
    }
    for of in crates.values() {
        found.extend(of.complaints());
    }
    found
}

/// The module of a source file, the root of its crate without a name; none for tests and other programs.
fn module(path: &str) -> Option<Module> {
    let path = path.strip_suffix(".rs")?;
    let mut names: Module = path.split('/').map(str::to_owned).collect();
    if names.last().is_some_and(|n| n == "mod") {
        names.pop();
    }
    if names == ["lib"] || names == ["main"] {
        names.clear();
    }
    let skipped = |n: &String| n == "tests" || n == "bin";
    (!names.iter().any(skipped)).then_some(names)
}

impl<'a> Crate<'a> {
    fn take(&mut self, module: Module, file: &'a File, imports: Vec<Import>) {
        self.files.insert(module.clone(), &file.path);
        let public = |line: &str| {
            let name = line
                .strip_prefix("pub mod ")
                .or(line.strip_prefix("pub(crate) mod "))?;
            name.strip_suffix(';').map(str::to_owned)
        };
        let open = file.text.lines().filter_map(public);
        self.open
            .extend(open.map(|name| [module.as_slice(), &[name]].concat()));
        self.imports.insert(module, imports);
    }

    /// The modules that `from` imports, each with the path as it is written from the root, and the line.
    fn reached(&self, from: &Module) -> Vec<(Module, Module, usize)> {
        let mut found = Vec::new();
        for import in &self.imports[from] {
            let Some(path) = self.absolute(from, &import.path) else {
                continue;
            };
            // A face that re-exports items of its files does not use them.
            if let Some(to) = self
                .resolve(&path)
                .filter(|to| to != from && !to.is_empty())
                && !(import.offers && to.starts_with(from))
            {
                found.push((to, path, import.line));
            }
        }
        found
    }

    fn absolute(&self, from: &Module, path: &[String]) -> Option<Module> {
        let mut at = from.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|p| p == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            // A module of its own, or a crate or a type, which is none.
            own => {
                let below = [from.as_slice(), &[own.to_owned()]].concat();
                self.files.get(&below)?;
            }
        }
        at.extend(rest.iter().cloned());
        Some(at)
    }

    /// The module that defines what a path names.
    fn resolve(&self, path: &Module) -> Option<Module> {
        let at = (0..=path.len())
            .rev()
            .find(|n| self.files.contains_key(&path[..*n]))?;
        let module = path[..at].to_vec();
        let offered = path
            .get(at)
            .and_then(|item| self.offered.get(&(module.clone(), item.clone())));
        Some(offered.cloned().unwrap_or(module))
    }

    fn complaints(&self) -> Vec<Complaint> {
        let mut whole = Crate {
            files: self.files.clone(),
            imports: self.imports.clone(),
            open: self.open.clone(),
            list: self.list,
            ..Crate::default()
        };
        for (module, imports) in &self.imports {
            for import in imports.iter().filter(|i| i.offers) {
                let to = self
                    .absolute(module, &import.path)
                    .and_then(|p| self.resolve(&p));
                if let (Some(to), Some(name)) = (to, &import.name)
                    && to.starts_with(module)
                {
                    whole.offered.insert((module.clone(), name.clone()), to);
                }
            }
        }
        let mut found = whole.circles();
        if let Some(list) = self.list {
            match toml::from_str(&list.text) {
                Ok(Listed { rooms }) => found.extend(whole.order(list, &rooms)),
                Err(e) => found.push(Complaint::fail(&list.path, 0, e.to_string())),
            }
        }
        found
    }

    fn circles(&self) -> Vec<Complaint> {
        let mut to: BTreeMap<&Module, BTreeSet<Module>> = BTreeMap::new();
        for from in self.files.keys().filter(|m| !m.is_empty()) {
            to.insert(from, self.reached(from).into_iter().map(|r| r.0).collect());
        }
        // Each pass removes the files that import none of the remaining ones, or that none of these imports.
        loop {
            let before = to.len();
            let left: BTreeSet<Module> = to.keys().map(|m| (*m).clone()).collect();
            to.retain(|_, reached| {
                reached.retain(|r| left.contains(r));
                !reached.is_empty()
            });
            let imported: BTreeSet<Module> = to.values().flatten().cloned().collect();
            to.retain(|m, _| imported.contains(*m));
            if to.len() == before {
                break;
            }
        }
        let one = |(from, to): (&&Module, &BTreeSet<Module>)| {
            let names: Vec<String> = to.iter().map(|m| m.join("::")).collect();
            let what = format!("is in a circle of imports: it imports {}", names.join(", "));
            Complaint::fail(self.files[*from], 0, what)
        };
        to.iter().map(one).collect()
    }

    fn order(&self, list: &File, rooms: &[String]) -> Vec<Complaint> {
        let mut found = Vec::new();
        let height = |room: &str| rooms.iter().position(|r| r == room);
        for room in rooms {
            if !self.files.keys().any(|m| m.first() == Some(room)) {
                found.push(Complaint::fail(
                    &list.path,
                    0,
                    format!("there is no room {room}"),
                ));
            }
        }
        for (from, file) in self.files.iter().filter(|(m, _)| !m.is_empty()) {
            let Some(own) = height(&from[0]) else {
                let what = format!("the room {} is not in {}", from[0], list.path);
                found.push(Complaint::fail(file, 0, what));
                continue;
            };
            for (to, path, line) in self.reached(from) {
                let room = &to[0];
                if room == &from[0] {
                    continue;
                }
                if height(room).is_some_and(|other| other < own) {
                    let what =
                        format!("{} imports {}, which is above it", from[0], path.join("::"));
                    found.push(Complaint::fail(file, line, what));
                }
                if path.len() > 1
                    && self.files.contains_key(&path[..2])
                    && !self.open.contains(&path[..2])
                {
                    let what = format!("imports {} past the face of {room}", path.join("::"));
                    found.push(Complaint::fail(file, line, what));
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Vec<File> {
        let one = |(path, text): &(&str, &str)| File {
            path: format!("crates/a/{path}"),
            text: (*text).to_owned(),
        };
        files.iter().map(one).collect()
    }

    fn messages_of(files: &[(&str, &str)]) -> Vec<String> {
        check(&tree(files))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    const LIST: (&str, &str) = ("rooms.toml", "rooms = [\"top\", \"low\"]");
    const LOW: (&str, &str) = ("src/low/mod.rs", "mod part;\npub use part::Thing;");

    #[test]
    fn downward_imports_through_a_face_pass() {
        let top = (
            "src/top.rs",
            "use crate::low::{Thing, other};\nfn f() { crate::low::go() }",
        );
        let part = ("src/low/part.rs", "pub struct Thing;");
        assert_eq!(messages_of(&[LIST, LOW, top, part]), [""; 0]);
    }

    #[test]
    fn upward_import_fails() {
        let top = ("src/top.rs", "pub struct High;");
        let part = (
            "src/low/part.rs",
            "pub struct Thing;\n\nuse crate::top::High;",
        );
        let found = messages_of(&[LIST, LOW, top, part]);
        assert_eq!(
            found,
            ["crates/a/src/low/part.rs:3: error: low imports top::High, which is above it"]
        );
    }

    #[test]
    fn a_file_that_the_face_declares_public_is_part_of_it() {
        let top = ("src/top.rs", "fn f() -> u8 { crate::low::part::deep() }");
        let low = ("src/low/mod.rs", "pub mod part;");
        let part = ("src/low/part.rs", "pub fn deep() -> u8 { 1 }");
        assert_eq!(messages_of(&[LIST, low, top, part]), [""; 0]);
    }

    #[test]
    fn import_past_a_face_fails() {
        let top = ("src/top.rs", "fn f() -> u8 { crate::low::part::deep() }");
        let part = ("src/low/part.rs", "pub struct Thing;");
        let found = messages_of(&[LIST, LOW, top, part]);
        assert_eq!(
            found,
            ["crates/a/src/top.rs:1: error: imports low::part::deep past the face of low"]
        );
    }

    #[test]
    fn circle_fails_in_any_crate() {
        let one = ("src/one.rs", "use crate::two::{self, B};");
        let two = ("src/two.rs", "use super::three;");
        let three = (
            "src/three.rs",
            "macro_rules! m { () => { crate::one::x() } }",
        );
        let beside = ("src/beside.rs", "use crate::one;");
        let found = messages_of(&[one, two, three, beside]);
        assert_eq!(
            found,
            [
                "crates/a/src/one.rs:0: error: is in a circle of imports: it imports two",
                "crates/a/src/three.rs:0: error: is in a circle of imports: it imports one",
                "crates/a/src/two.rs:0: error: is in a circle of imports: it imports three",
            ]
        );
    }

    #[test]
    fn re_export_by_the_crate_root_hides_no_import() {
        let root = ("src/lib.rs", "mod top; mod low; pub use top::High;");
        let low = ("src/low.rs", "use crate::High;");
        let found = messages_of(&[LIST, root, ("src/top.rs", "pub struct High;"), low]);
        assert_eq!(
            found,
            ["crates/a/src/low.rs:1: error: low imports High, which is above it"]
        );
    }

    #[test]
    fn tests_may_import_anything() {
        let top = ("src/top.rs", "use crate::low::Thing;");
        let part = (
            "src/low/part.rs",
            "pub struct Thing;\n#[cfg(test)]\nmod tests { use crate::top::f; }",
        );
        let more = ("src/low/tests.rs", "use crate::top::f;");
        assert_eq!(messages_of(&[LIST, LOW, top, part, more]), [""; 0]);
    }

    #[test]
    fn list_must_name_exactly_the_rooms() {
        let list = ("rooms.toml", "rooms = [\"top\", \"gone\"]");
        let found = messages_of(&[list, ("src/top.rs", ""), ("src/new.rs", "")]);
        assert_eq!(
            found,
            [
                "crates/a/rooms.toml:0: error: there is no room gone",
                "crates/a/src/new.rs:0: error: the room new is not in crates/a/rooms.toml",
            ]
        );
    }
}
