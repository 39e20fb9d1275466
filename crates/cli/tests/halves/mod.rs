//! A farm of four that is cut into halves: both go on, what each says is true, nothing runs twice, and the farm is whole again
//! afterwards.

use crate::lab::{Farm, until};
use std::collections::BTreeMap;

const HALVES: [[&str; 2]; 2] = [["n1", "n2"], ["n3", "n4"]];

/// Lines with a sum, one a turn: one that is lost or written twice shows. Its last argument says which one it is.
const PROGRAM: &str = r#"open(F, ">>", "/tmp/wrote.$ARGV[0]"); $s = 0; for ($i = 1; ; $i++) { $s += $i; syswrite(F, "$i $s\n"); last if -e "/tmp/enough"; select(undef, undef, undef, 0.02) } print "end $i\n""#;

/// What becomes of a program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// It ends as it does natively.
    Native,
    /// Its node is behind the cut, and it is not safe.
    Lost,
}

struct Job {
    name: &'static str,
    home: &'static str,
    node: &'static str,
    options: &'static str,
    end: End,
}

const JOBS: [Job; 6] = [
    job("near", "n1", "n2", "", End::Native),
    job("safe", "n1", "n3", "--safe=1", End::Native),
    job("lost", "n1", "n4", "", End::Lost),
    job("other-near", "n3", "n4", "", End::Native),
    job("other-safe", "n3", "n1", "--safe=1", End::Native),
    job("other-lost", "n4", "n2", "", End::Lost),
];

const fn job(
    name: &'static str,
    home: &'static str,
    node: &'static str,
    options: &'static str,
    end: End,
) -> Job {
    Job {
        name,
        home,
        node,
        options,
        end,
    }
}

fn half(node: &str) -> usize {
    usize::from(HALVES[1].contains(&node))
}

fn start(farm: &Farm, job: &Job) {
    let Job {
        name,
        home,
        node,
        options,
        ..
    } = job;
    let command = format!(
        "(armento run {options} perl -e '{PROGRAM}' {name} >/tmp/out.{name} 2>/tmp/err.{name}; echo $? >/tmp/end.{name}) >/dev/null 2>&1 &
         until test -s /tmp/wrote.{name}; do sleep 0.05; done; pgrep -f '^perl.* {name}$' > /tmp/pid.{name}"
    );
    farm.sh(home, &command);
    let moves = format!("armento migrate $(cat /tmp/pid.{name}) {node}");
    until("its move", || farm.run(home, &moves).status.success());
}

/// By node how many bodies of a program run, or stand still, there: processes whose home is another node.
fn bodies(farm: &Farm, job: &Job) -> BTreeMap<&'static str, usize> {
    let count = format!("pgrep -c -f '^perl.* {}$' || true", job.name);
    let nodes = HALVES.iter().flatten().copied();
    let others = nodes.filter(|node| *node != job.home);
    let found = others.map(|node| (node, farm.sh(node, &count).trim().parse().unwrap_or(0)));
    found.filter(|(_, n)| *n > 0).collect()
}

/// Routes that lead nowhere, at both ends.
fn cut(farm: &Farm, verb: &str) {
    let address = |node: &str| farm.sh(node, "hostname -i").trim().to_owned();
    let addresses = HALVES.map(|half| half.map(address));
    for (here, nodes) in HALVES.iter().enumerate() {
        for node in nodes {
            for to in &addresses[1 - here] {
                farm.sh(node, &format!("ip route {verb} blackhole {to}/32"));
            }
        }
    }
}

fn alive(farm: &Farm, node: &str) -> usize {
    let nodes = farm.sh(node, "armento nodes --json");
    nodes.matches("\"alive\"").count()
}

fn each(farm: &Farm, what: &str, is: impl Fn(&str) -> bool) {
    for node in HALVES.iter().flatten() {
        until(&format!("{what} at {node} of {}", farm.name), || is(node));
    }
}

fn lines(text: &str) -> Vec<(u64, u64)> {
    let pair = |l: &str| {
        let (i, s) = l.split_once(' ')?;
        Some((i.parse().ok()?, s.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

pub fn both_go_on_and_nothing_runs_twice(farm: &Farm) {
    JOBS.iter().for_each(|job| start(farm, job));
    for job in JOBS.iter().filter(|job| !job.options.is_empty()) {
        until("its checkpoint", || {
            let why = format!("armento why $(cat /tmp/pid.{})", job.name);
            farm.sh(job.home, &why)
                .contains("goes on if its node is lost")
        });
    }
    cut(farm, "add");
    each(farm, "the loss of the other half", |node| {
        alive(farm, node) == 2
    });

    // Each half works: programs begin and move there, and none goes to the other.
    for [one, two] in HALVES {
        let there = format!("armento run --on {two} sh -c 'echo $((6 * 7))'");
        assert_eq!(farm.sh(one, &there), "42\n");
        let other = HALVES[1 - half(one)][0];
        assert!(
            !farm
                .run(one, &format!("armento run --on {other} true"))
                .status
                .success()
        );
    }

    // Those behind the cut are ended at both of its sides; those that are safe go on in the half of their home.
    for job in &JOBS {
        until(&format!("the place of {}", job.name), || {
            let found = bodies(farm, job);
            let total: usize = found.values().sum();
            let here = found.keys().all(|node| half(node) == half(job.home));
            here && total <= 1 && (job.end == End::Native || total == 0)
        });
        let ended = farm.run(job.home, &format!("cat /tmp/end.{}", job.name));
        match job.end {
            End::Native => {
                assert!(!ended.status.success(), "{} has ended", job.name);
                let lines = || farm.sh(job.home, &format!("wc -l < /tmp/wrote.{}", job.name));
                let before = lines();
                until(&format!("more lines of {}", job.name), || lines() != before);
                let ps = farm.sh(job.home, "armento ps");
                let row = ps
                    .lines()
                    .find(|l| l.ends_with(job.name))
                    .unwrap_or_default();
                let other = HALVES[1 - half(job.home)];
                assert!(
                    !row.is_empty() && other.iter().all(|node| !row.contains(node)),
                    "{ps}"
                );
            }
            End::Lost => {
                assert_eq!(ended.stdout, b"137\n", "{}: {ended:?}", job.name);
                let said = farm.sh(job.home, &format!("cat /tmp/err.{}", job.name));
                assert!(said.contains(job.node) && said.contains("lost"), "{said}");
            }
        }
    }

    cut(farm, "del");
    each(farm, "the whole farm", |node| alive(farm, node) == 4);
    for job in &JOBS {
        let found = bodies(farm, job);
        assert!(
            found.values().sum::<usize>() <= 1,
            "{}: {found:?}",
            job.name
        );
    }
    for node in HALVES.iter().flatten() {
        farm.sh(node, "touch /tmp/enough");
    }
    for job in &JOBS {
        until(&format!("the end of {}", job.name), || {
            farm.run(job.home, &format!("test -s /tmp/end.{}", job.name))
                .status
                .success()
        });
        let text = farm.sh(job.home, &format!("cat /tmp/wrote.{}", job.name));
        let wrote = lines(&text);
        let right: Vec<(u64, u64)> = (1..=wrote.len() as u64)
            .map(|i| (i, i * (i + 1) / 2))
            .collect();
        assert_eq!(wrote, right, "{}", job.name);
        if job.end == End::Native {
            let said = farm.sh(
                job.home,
                &format!("cat /tmp/end.{0} /tmp/out.{0}", job.name),
            );
            assert_eq!(said, format!("0\nend {}\n", wrote.len()), "{}", job.name);
        }
        until("no body", || bodies(farm, job).is_empty());
    }
}
