//! Suites of others on a mount and natively on the same disk: no test may fail that passes natively.
//!
//! With ARMENTO_LONG_TESTS=1; pjdfstest and fsx are built below target/ the first time, which takes minutes.

use crate::farm::{Mounted, isolated, options};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn wanted() -> bool {
    let yes = std::env::var_os("ARMENTO_LONG_TESTS").is_some();
    if !yes {
        println!("skipped: ARMENTO_LONG_TESTS is not set");
    }
    yes
}

/// A program of crates.io, built once below target/.
fn installed(name: &str, version: &str) -> Option<PathBuf> {
    let root = PathBuf::from(option_env!("CARGO_TARGET_TMPDIR")?).with_file_name("suites");
    let program = root.join("bin").join(name);
    if !program.exists() {
        let done = Command::new("cargo")
            .args(["install", name, "--version", version, "--root"])
            .arg(&root)
            .current_dir("/")
            .status();
        if !done.is_ok_and(|s| s.success()) {
            println!("skipped: {name} cannot be built");
            return None;
        }
    }
    Some(program)
}

/// Times of files are those of the last tick, 10 ms at most: `naptime` is longer than that.
const PJDFSTEST: &str = "[features]\nposix_fallocate = {}\nrename_ctime = {}\nutimensat = {}\nstat_st_birthtime = {}\nutime_now = {}\n[settings]\nnaptime = 0.012\nallow_remount = false\n[dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"], [\"bin\", \"bin\"]]\n";

/// Tests that failed, and how many passed.
fn pjdfstest(program: &Path, config: &Path, dir: &Path) -> (BTreeSet<String>, usize) {
    let out = Command::new(program)
        .arg("-c")
        .arg(config)
        .arg("-p")
        .arg(dir)
        .output()
        .expect("pjdfstest");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let ended = |how: &str| -> BTreeSet<String> {
        let lines = text
            .lines()
            .filter(|l| l.split_whitespace().nth(1) == Some(how));
        lines
            .filter_map(|l| l.split_whitespace().next().map(str::to_owned))
            .collect()
    };
    let after_failed = text
        .split("FAILED")
        .skip(1)
        .filter_map(|t| t.lines().nth(1));
    after_failed.take(5).for_each(|l| println!("{}", l.trim()));
    (ended("FAILED"), ended("ok").len())
}

fn open_to_all(m: &Mounted, dir: &str) {
    for d in [m.native(""), m.native(dir)] {
        fs::create_dir_all(&d).expect("made");
        fs::set_permissions(&d, fs::Permissions::from_mode(0o777)).expect("chmod");
    }
}

#[test]
fn pjdfstest_fails_nowhere_but_where_the_disk_does() {
    if !wanted() || !isolated("suites::pjdfstest_fails_nowhere_but_where_the_disk_does") {
        return;
    }
    let Some(program) = installed("pjdfstest", "0.2.2") else {
        return;
    };
    let m = Mounted::short("pjdfstest", options());
    let config = m.place().join("pjdfstest.toml");
    fs::write(&config, PJDFSTEST).expect("written");
    open_to_all(&m, "native");
    open_to_all(&m, "far");
    let (native, passed_native) = pjdfstest(&program, &config, &m.native("native"));
    let (far, passed) = pjdfstest(&program, &config, &m.far("far"));
    println!("pjdfstest: {passed_native} pass natively, {passed} through the mount");
    let worse: Vec<_> = far.difference(&native).collect();
    assert!(worse.is_empty(), "{worse:?}");
    assert!(
        passed + 2 >= passed_native && passed > 300,
        "{passed} of {passed_native}"
    );
}

const FSX: &str = "flen = 1048576\n[opsize]\nmax = 65536\n[weights]\ntruncate = 1\ninvalidate = 1\nfsync = 1\ncopy_file_range = 1\npunch_hole = 1\nmapread = 5\nmapwrite = 5\nread = 10\nwrite = 10\nsendfile = 1\n";

#[test]
fn fsx_finds_no_wrong_byte() {
    if !wanted() || !isolated("suites::fsx_finds_no_wrong_byte") {
        return;
    }
    let Some(program) = installed("fsx", "0.3.2") else {
        return;
    };
    let m = Mounted::new("fsx", options());
    let config = m.place().join("fsx.toml");
    fs::write(&config, FSX).expect("written");
    for seed in 1..=6 {
        let out = Command::new(&program)
            .arg("-f")
            .arg(&config)
            .args(["-q", "-N", "5000", "-S", &seed.to_string()])
            .arg(m.far(&format!("fsx{seed}")))
            .current_dir(m.place())
            .output()
            .expect("fsx");
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        let text = text + &String::from_utf8_lossy(&out.stdout);
        assert!(
            out.status.success() && text.contains("A-OK"),
            "seed {seed}: {text}"
        );
    }
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !wanted() || !isolated("suites::fio_verifies_what_it_wrote") {
        return;
    }
    if Command::new("fio").arg("--version").output().is_err() {
        println!("skipped: there is no fio");
        return;
    }
    let m = Mounted::new("fio", options());
    let dir = format!("--directory={}", m.far("").display());
    for (i, args) in [
        "--rw=randwrite --bs=16k --ioengine=psync --numjobs=3 --fsync=20",
        "--rw=randrw --bs=4k --ioengine=libaio --iodepth=16 --direct=1",
        "--rw=randrw --bs=4k --ioengine=mmap",
        "--rw=write --bs=1m --ioengine=psync",
    ]
    .into_iter()
    .enumerate()
    {
        let out = Command::new("fio")
            .args([
                &format!("--name=v{i}"),
                &dir,
                "--size=16m",
                "--verify=crc32c",
                "--verify_fatal=1",
            ])
            .args(args.split(' '))
            .current_dir(m.place())
            .output()
            .expect("fio");
        assert!(
            out.status.success(),
            "{args}: {}",
            String::from_utf8_lossy(&out.stdout)
        );
    }
}
