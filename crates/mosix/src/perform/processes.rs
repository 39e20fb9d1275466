//! mps, mtop -b, ompsinfo and mosps.

use super::out::say;
use crate::failed::Failed;
use crate::farm::{Farm, processes};
use crate::parse::{Listing, NodesAs, Ps};
use crate::show::{self, Place, add_columns, reason};
use armento_client::Session;
use armento_client::api::ProcInfo;
use armento_model::{NodeName, Pid};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Longest frame of top that is kept before it is printed, bytes.
const FRAME_MAX: usize = 1 << 22;

/// Runs ps or top, and adds the columns. top prints frame by frame: a frame ends before the next line `top - `.
pub fn ps(ps: &Ps) -> Result<i32, Failed> {
    let mut session = Session::connect()?;
    let mut child = Command::new(ps.program)
        .args(&ps.words)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| {
            Failed::new(
                format!("{} cannot be started: {e}", ps.program),
                "install it: apt-get install procps",
            )
        })?;
    let Some(out) = child.stdout.take() else {
        return Err(Failed::unexpected());
    };
    let mut out = BufReader::new(out);
    let mut print = |bytes: &mut Vec<u8>| -> Result<(), Failed> {
        let text = String::from_utf8_lossy(bytes);
        let places = places(&mut session)?;
        say(&add_columns(&text, &places, ps.info, ps.long))?;
        bytes.clear();
        Ok(())
    };
    let (mut kept, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let n = out
            .read_until(b'\n', &mut line)
            .map_err(|e| Failed::new(format!("{} cannot be read: {e}", ps.program), "try again"))?;
        let next = line.starts_with(b"top - ") && !kept.is_empty();
        if n == 0 || next || kept.len() > FRAME_MAX {
            print(&mut kept)?;
        }
        if n == 0 {
            break;
        }
        kept.extend_from_slice(&line);
    }
    let ended = child.wait().ok().and_then(|s| s.code());
    Ok(ended.unwrap_or(super::out::FAILED))
}

fn places(session: &mut Session) -> Result<BTreeMap<Pid, Place>, Failed> {
    let farm = Farm::ask(session)?;
    let place = |p: &ProcInfo| Place {
        node: match p.place == p.home {
            true => 0,
            false => farm.by_name(&p.place).map_or(0, |m| m.id),
        },
        moves: p.moves,
        locked: p.locked,
        cantmove: p.stay.map_or_else(String::new, |_| reason(p)),
        home: p.home.to_string(),
        name: p.place.to_string(),
    };
    let all = processes(session, false)?;
    Ok(all.iter().map(|p| (p.pid, place(p))).collect())
}

pub fn listing(l: &Listing) -> Result<i32, Failed> {
    let mut session = Session::connect()?;
    let farm = Farm::ask(&mut session)?;
    let all = processes(&mut session, false)?;
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let uids: Result<Vec<u32>, Failed> = l.users.iter().map(|u| uid(&passwd, u)).collect();
    let chosen = chosen(l, &all, &uids?);
    let node = |name: &NodeName| match (l.nodes, farm.by_name(name)) {
        (NodesAs::Id, Some(m)) => m.id.to_string(),
        (NodesAs::Address, Some(m)) => m.address().to_owned(),
        (NodesAs::Name, _) => name.to_string(),
        _ => "?".into(),
    };
    let text = show::listing(&columns(l), &chosen, &node, !l.no_heading && !l.pids_only);
    say(&text).map(|()| 0)
}

fn columns(l: &Listing) -> Vec<&str> {
    if l.pids_only {
        return vec!["pid"];
    }
    if l.mosps {
        let moves = l.moves.then_some("nmigs");
        let columns = ["pid", "place", "from"].into_iter().chain(moves);
        return columns.chain(["frz", "time", "command"]).collect();
    }
    let user = l.all_users.then_some("user");
    let begin = user
        .into_iter()
        .chain(["pid", "node", "nmigs", "lock", "cantmove"]);
    let more = l.more.iter().map(String::as_str);
    let more = more.filter(|m| !["nmigs", "lock", "cantmove"].contains(m));
    begin.chain(more).chain(["command"]).collect()
}

/// The processes that the options choose.
fn chosen<'a>(l: &Listing, all: &'a [ProcInfo], uids: &[u32]) -> Vec<&'a ProcInfo> {
    let name = |p: &ProcInfo| {
        let first = p.command.split_whitespace().next().unwrap_or_default();
        first.rsplit('/').next().unwrap_or_default().to_owned()
    };
    let fits = |p: &ProcInfo| {
        (l.commands.is_empty() || l.commands.contains(&name(p)))
            && (l.pids.is_empty() || l.pids.contains(&p.pid))
            && (uids.is_empty() || uids.contains(&p.uid))
    };
    let here = |p: &ProcInfo| l.here.is_none_or(|here| here == (p.place == p.home));
    all.iter()
        .filter(|p| (fits(p) != l.negate) && here(p))
        .collect()
}

/// The number of a user: passwd(5).
fn uid(passwd: &str, user: &str) -> Result<u32, Failed> {
    let mut lines = passwd.lines().map(|l| l.split(':').collect::<Vec<_>>());
    let named = lines.find(|f| f.first() == Some(&user));
    let number = named.and_then(|f| f.get(2)?.parse().ok());
    number.or_else(|| user.parse().ok()).ok_or_else(|| {
        Failed::new(
            format!("there is no user {}", armento_model::clean(user)),
            "name one of /etc/passwd, or a number",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use armento_model::{FileCounts, FileRates, TreeId};

    fn proc(pid: Pid, place: &str, command: &str) -> ProcInfo {
        ProcInfo {
            pid,
            ppid: 1,
            tree: TreeId(1),
            uid: 1000,
            home: "n1".parse().expect("name"),
            place: place.parse().expect("name"),
            command: command.into(),
            cpu_ms: 3_723_000,
            away_cpu_ms: 0,
            rss_kib: 1024,
            threads: 1,
            busy_percent: 0,
            moves: 2,
            forwarded: 0,
            bytes_sent: 0,
            bytes_received: 0,
            files: FileCounts::default(),
            rates: FileRates::default(),
            messages: None,
            stay: None,
            detail: String::new(),
            partner: None,
            locked: false,
            lost_ms: None,
            frozen: false,
            portable: false,
            age_ms: 0,
            last_exec: None,
            safe: None,
            connections: None,
            stopped: false,
            nice: 0,
            moving: None,
        }
    }

    #[test]
    fn options_choose_processes_and_columns() {
        let all = [
            proc(7, "n2", "/usr/bin/lame a\x1b[2J"),
            proc(8, "n1", "sox"),
        ];
        let pids = |l: &Listing, uids: &[u32]| -> Vec<Pid> {
            chosen(l, &all, uids).iter().map(|p| p.pid).collect()
        };
        let l = Listing::default();
        assert_eq!(pids(&l, &[]), [7, 8]);
        assert_eq!(pids(&l, &[0]), [0; 0]);
        let lame = Listing {
            commands: vec!["lame".into()],
            ..l.clone()
        };
        assert_eq!(pids(&lame, &[1000]), [7]);
        assert_eq!(
            pids(
                &Listing {
                    negate: true,
                    ..lame
                },
                &[]
            ),
            [8]
        );
        let away = Listing {
            mosps: true,
            here: Some(false),
            moves: true,
            ..l.clone()
        };
        let node = |n: &NodeName| n.as_str()[1..].to_owned();
        let text = show::listing(&columns(&away), &chosen(&away, &all, &[]), &node, true);
        let want = "PID WHERE FROM NMIGS FRZ TIME     CMD\n7   2     1    2     no  01:02:03 /usr/bin/lame a?[2J\n";
        assert_eq!(text, want);
        let more = Listing {
            more: vec!["home".into(), "lock".into()],
            ..l
        };
        let text = show::listing(&columns(&more), &chosen(&more, &all, &[]), &node, true);
        assert!(
            text.starts_with(
                "PID NODE NMIGS LOCK CANTMOVE HOME CMD\n7   2    2     no   -        1    "
            ),
            "{text}"
        );
    }

    #[test]
    fn users_are_found_by_name_and_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nann:x:1001:1001::/home/ann:/bin/sh\n";
        assert_eq!(uid(passwd, "ann"), Ok(1001));
        assert_eq!(uid(passwd, "1002"), Ok(1002));
        assert!(uid(passwd, "bob").is_err());
    }
}
