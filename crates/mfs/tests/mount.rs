//! The file system through a mount, compared with the same calls on the directory itself.

mod farm;

use farm::{Mounted, isolated, options};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

/// Not a test: the process of a file server.
#[test]
fn serve_child() {
    farm::serve_if_asked();
}

fn sh(dir: &std::path::Path, script: &str) -> String {
    let out = Command::new("sh")
        .arg("-ec")
        .arg(script)
        .current_dir(dir)
        .output()
        .expect("sh");
    format!(
        "{}{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr),
        out.status
    )
}

#[test]
fn files_are_those_of_the_node() {
    if !isolated("files_are_those_of_the_node") {
        return;
    }
    let m = Mounted::new("basic", options());
    fs::write(m.native("a"), "hello").expect("written");
    assert_eq!(fs::read_to_string(m.far("a")).expect("read"), "hello");
    fs::write(m.far("b"), "there").expect("written");
    assert_eq!(fs::read_to_string(m.native("b")).expect("read"), "there");
    fs::create_dir(m.far("d")).expect("made");
    fs::rename(m.far("b"), m.far("d/c")).expect("renamed");
    assert_eq!(fs::read_to_string(m.native("d/c")).expect("read"), "there");
    fs::hard_link(m.far("d/c"), m.far("l")).expect("linked");
    let (a, b) = (
        fs::metadata(m.far("d/c")).expect("stat"),
        fs::metadata(m.far("l")).expect("stat"),
    );
    assert_eq!((a.ino(), a.nlink()), (b.ino(), 2));
    fs::set_permissions(m.far("l"), fs::Permissions::from_mode(0o640)).expect("chmod");
    assert_eq!(
        fs::metadata(m.native("d/c")).expect("stat").mode() & 0o777,
        0o640
    );
    let mut names: Vec<_> = fs::read_dir(m.far(""))
        .expect("listed")
        .map(|e| {
            e.expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    names.sort();
    assert_eq!(names, ["a", "d", "l"]);
    assert_eq!(
        fs::read(m.far("none")).map_err(|e| e.raw_os_error()),
        Err(Some(libc::ENOENT))
    );
    fs::remove_file(m.far("l")).expect("removed");
    assert!(!m.native("l").exists());
}
