//! The file system through a mount, compared with the same calls on the directory itself.

use crate::farm::{Mounted, isolated, options};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

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
    if !isolated("mount::files_are_those_of_the_node") {
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
    assert_eq!(
        fs::read_link(m.point.join("selected"))
            .expect("a link")
            .as_os_str(),
        "n2"
    );
    assert_eq!(
        fs::read_link(m.point.join("2"))
            .expect("a link")
            .as_os_str(),
        "n2"
    );
    let began = std::time::Instant::now();
    let made = || {
        m.farm
            .made_files()
            .iter()
            .any(|(p, n)| *p == std::process::id() && n.as_str() == "n2")
    };
    while !made() {
        assert!(
            began.elapsed().as_secs() < 10,
            "the farm is not told of made files"
        );
    }
}

/// The same script in two directories, natively and through the mount.
fn same(m: &Mounted, what: &str, script: &str) {
    let [a, b] = ["native", "far"].map(|n| format!("{what}-{n}"));
    fs::create_dir(m.native(&a)).expect("made");
    fs::create_dir(m.native(&b)).expect("made");
    let native = sh(&m.native(&a), script);
    let far = sh(&m.far(&b), script);
    assert_eq!(far, native, "{what}");
}

#[test]
fn shell_programs_behave_as_on_the_disk() {
    if !isolated("mount::shell_programs_behave_as_on_the_disk") {
        return;
    }
    let m = Mounted::new("same", options());
    same(
        &m,
        "links",
        "echo a > x; ln x y; ln -s x z; ln -s /abs/none q; cat z; stat -c '%h %F' x y z; rm x; cat y; cat z || true; ln -s l1 l2; ln -s l2 l1; cat l1 || true",
    );
    same(
        &m,
        "modes",
        "umask 027; mkdir d; : > f; umask 0; mkdir e; : > g; mkfifo p; stat -c '%a %n' d f e g p; chmod 4755 f; chmod g+s d; mkdir d/sub; stat -c '%A' f d d/sub",
    );
    same(
        &m,
        "rename",
        "echo 1 > a; echo 2 > b; mv a b; cat b; mkdir d e; mv d e; ls e; mkdir f; : > f/x; mv -T e f 2>&1 || true; mv -n b f/x; cat f/x; ls",
    );
    same(
        &m,
        "holes",
        "truncate -s 1M h; printf x | dd of=h bs=1 seek=500000 conv=notrunc status=none; cksum h; cp --sparse=always h i; cksum i; truncate -s 10 h; cksum h; fallocate -l 100000 h; stat -c %s h; fallocate -p -o 0 -l 50000 h; cksum h",
    );
    same(
        &m,
        "append",
        "for i in 1 2 3 4; do (for j in $(seq 200); do echo $i $j >> log; done) & done; wait; wc -l < log; sort log | cksum",
    );
    same(
        &m,
        "names",
        "n=$(printf 'x%.0s' $(seq 255)); : > $n; ls | wc -c; : > y$n || true; : > $(printf '\\377\\376'); ls | od -c | head -3; mkdir -p a/b/c; rmdir a || true; rm -r a; cat a/b || true",
    );
    same(
        &m,
        "open",
        "exec 3> f; rm f; echo hidden >&3; stat -L -c '%h %s' /proc/self/fd/3; cat < /proc/self/fd/3; exec 3>&-; ls",
    );
    same(
        &m,
        "times",
        "touch -d '2001-02-03 04:05:06.789' f; stat -c '%y' f; touch -a -d '1999-01-01' f; stat -c '%x %y' f; touch -h -d '2002-01-01' f",
    );
    same(
        &m,
        "acl",
        "mkdir d; setfacl -d -m u:daemon:rwx d; umask 077; : > d/f; mkdir d/e; getfacl -c d/f d/e; setfattr -n user.k -v v d/f; getfattr -d d/f; setfattr -x user.k d/f; getfattr -d d/f; getfattr -n user.none d/f || true",
    );
    same(
        &m,
        "exec",
        "printf '#!/bin/sh\\necho ran $1\\n' > s; chmod +x s; ./s 1; cp /bin/true t; ./t; echo $?",
    );
}

#[test]
fn a_hundred_thousand_names_are_listed() {
    if !isolated("mount::a_hundred_thousand_names_are_listed") {
        return;
    }
    let m = Mounted::new("many", options());
    const MANY: usize = 100_000;
    fs::create_dir(m.native("d")).expect("made");
    for i in 0..MANY {
        fs::File::create(m.native(&format!("d/{i}"))).expect("made");
    }
    let mut seen = vec![false; MANY];
    for e in fs::read_dir(m.far("d")).expect("listed") {
        let e = e.expect("an entry");
        let i: usize = e
            .file_name()
            .to_str()
            .and_then(|n| n.parse().ok())
            .expect("a number");
        assert!(!std::mem::replace(&mut seen[i], true), "{i} twice");
    }
    assert!(seen.iter().all(|s| *s));
    let out = sh(&m.far("d"), "ls -l | wc -l");
    assert!(out.starts_with("100001\n"), "{out}");
}
