//! HPL with one link, two links and jumbo frames.

use super::ranks::{TOOLS, compile, fast_ethernet, in_lab, name, open_mpi, words};
use crate::chapter::{Bar, Cell, Chapter, Content, Plot, Table};
use crate::formula::Values;
use crate::published::{Row, table};
use crate::runner::{Experiment, Found, Measured, On, Run, Setting, always, as_is};
use anyhow::{Context, Result, bail};
use armento_lab::{Lab, Link, Spec, say};
use armento_mpi::{
    Blas, Ground, Hpl, Installed, Job, LINK_BIT_S, Nettest, Program, Wait, hpl_input,
};
use serde_json::{Value, json};
use std::fs;

/// Unknowns at scale 1, and the block of columns.
const UNKNOWNS: f64 = 20_000.0;
const BLOCK: usize = 64;
/// Largest datagrams: PAPER(S) has 9200, beyond which its second card did not go; a lab's usual jumbo frame.
const JUMBO: u32 = 9000;
/// Of a node, as a share of a core; six fit on two.
const SPEED: f64 = 0.15;
const NODES: usize = 6;

pub static EXPERIMENT: Experiment = Experiment {
    id: "hpl",
    title: "HPL with one link, two links and jumbo frames",
    paper: "S",
    place: "tables of both articles",
    requirements: &["R-065", "R-027", "R-028"],
    shows: "A second link helps where a node talks to several others, not a single pair; larger frames help a little.",
    emulation: "lab: two, four and six nodes of 0.15 of a core, links of 100 Mbit/s; HPL from Debian's hpcc with the reference BLAS, one process a node: a node's speed over its link's rate is near the paper's (8.8 Gflop/s and 1 Gbit/s); two links carry the traffic of different peers, as 802.3ad spreads flows; MTU 9000; the peak is that of one process alone, times the nodes; processes sleep while they wait, so that a node's quota is left for computing",
    on: On::Lab,
    nodes: NODES,
    nodes_range: NODES..=NODES,
    scale: 0.1,
    scale_range: 0.02..=1.0,
    minutes: 1.8,
    tools: TOOLS,
    relations: &["Q-24", "Q-25", "Q-26"],
    fits: always,
    prepare,
    runs,
    perform,
    derive: as_is,
    chapter,
};

fn prepare(_: &Setting) -> Result<Value> {
    let mpi = open_mpi()?;
    for blas in [Blas::Reference, Blas::Tuned] {
        blas.find()?;
    }
    let folder = armento_mpi::folder()?;
    armento_mpi::build_hpl(&mpi, &folder, &|text| say!("{text}"))?;
    compile(&[Program::Nettest])
}

/// Nodes, way, BLAS, unknowns at this setting.
struct Case {
    nodes: usize,
    way: &'static str,
    blas: Blas,
    factor: f64,
}

/// The paper's rows, the peak, and what tuning gives; `--full` has larger systems, too.
fn cases(full: bool) -> Vec<Case> {
    use Blas::{Reference, Tuned};
    let case = |nodes, way, blas, factor| Case {
        nodes,
        way,
        blas,
        factor,
    };
    let rows = [
        (1, "peak"),
        (2, "plain"),
        (2, "bonded"),
        (4, "plain"),
        (4, "bonded"),
        (4, "jumbo"),
        (6, "jumbo"),
    ];
    let mut all: Vec<Case> = rows.map(|(n, way)| case(n, way, Reference, 1.0)).into();
    all.extend([case(1, "peak", Tuned, 1.0), case(4, "plain", Tuned, 1.0)]);
    if full {
        all.push(case(2, "striped", Reference, 1.0));
        all.push(case(4, "striped", Reference, 1.0));
        for factor in [1.5, 2.0] {
            all.extend([
                case(4, "plain", Reference, factor),
                case(4, "plain", Tuned, factor),
            ]);
        }
    }
    all
}

impl Case {
    fn name(&self) -> String {
        let larger = match self.factor {
            1.0 => String::new(),
            f => format!("-x{f}"),
        };
        format!("{}-{}-{}{larger}", self.nodes, self.way, self.blas.word())
    }

    fn unknowns(&self, setting: &Setting) -> usize {
        (UNKNOWNS * setting.scale * self.factor).round().max(100.0) as usize
    }
}

fn runs(setting: &Setting) -> Vec<Run> {
    let run = |case: Case| {
        let n = case.unknowns(setting) as f64;
        // Operations of HPL; measured: 1.5 and 15 Gflop/s of a core.
        let flop = 2.0 / 3.0 * n.powi(3);
        let rate = match case.blas {
            Blas::Reference => 1.5e9,
            Blas::Tuned => 15e9,
        };
        let power = SPEED * case.nodes as f64;
        Run {
            name: case.name(),
            expect_s: flop / rate / power * 1.7 + 4.0,
        }
    };
    cases(setting.full).into_iter().map(run).collect()
}

fn perform(run: &Run, setting: &Setting, _: &Value, _: u64) -> Result<Measured> {
    let all = cases(setting.full);
    let case = all.iter().find(|c| c.name() == run.name);
    let case = case.with_context(|| format!("there is no run `{}`", run.name))?;
    let spec = Spec {
        name: name("hpl"),
        nodes: case.nodes,
        speeds: vec![SPEED],
        mtu: if case.way == "jumbo" { JUMBO } else { 1500 },
        second_link: ["bonded", "jumbo", "striped"].contains(&case.way),
        link: Link::Switch { bits: LINK_BIT_S },
        farm: false,
        ..fast_ethernet("hpl", case.nodes)
    };
    let n = case.unknowns(setting);
    in_lab(spec, |ground| {
        let mpi = open_mpi()?;
        if ["bonded", "jumbo"].contains(&case.way) {
            spread(ground)?;
        }
        let ring = match case.nodes {
            1 => Value::Null,
            nodes => json!(ring(ground, &mpi, nodes)?),
        };
        let found = solve(ground, &mpi, case, n)?;
        let mut v = Values::default();
        let key = match (case.blas, case.factor == 1.0) {
            (Blas::Reference, true) => format!("hpl.{}.{}", case.nodes, case.way),
            (blas, _) => format!("hpl.{}.{}.{}.{n}", case.nodes, case.way, blas.word()),
        };
        v.set(key, found.gflops);
        Ok((v, json!({ "hpl": found, "ring": ring })))
    })
}

/// As 802.3ad spreads flows over two links: each sender has a link for each peer, and the way back may be the other one.
fn spread(ground: &Ground) -> Result<()> {
    let Ground::Lab { lab, .. } = ground else {
        bail!("two links are a lab's");
    };
    let nodes = lab.nodes().len();
    let second = |i: usize, j: usize| (i > j) != (i + j).is_multiple_of(2);
    for i in 1..=nodes {
        // KERNEL: ip-sysctl, rp_filter: what comes in where it would not go out is dropped unless this is 0.
        let mut script =
            "for f in all eth0 eth1; do echo 0 > /proc/sys/net/ipv4/conf/$f/rp_filter; done"
                .to_owned();
        for j in (1..=nodes).filter(|j| *j != i && second(i, *j)) {
            let (from, to) = (&lab.node(i).addr, &lab.node(j).addr);
            script += &format!(" && ip route add {to} dev eth1 src {from}");
        }
        let done = lab.node(i).command("sh").args(["-c", &script]).output()?;
        if !done.status.success() {
            bail!("n{i}: {}", String::from_utf8_lossy(&done.stderr).trim());
        }
    }
    path(lab)
}

/// PAPER(S): a path check before, though HPL once died where ping had passed; so the ring of messages follows it.
fn path(lab: &Lab) -> Result<()> {
    if armento_mpi::find_program("ping").is_none() {
        return Ok(());
    }
    // Headers of IP and ICMP are 28 bytes (E-23).
    let size = (lab.plan().mtu - 28).to_string();
    for node in lab.nodes().iter().skip(1) {
        let words = [
            "-q", "-c", "1", "-W", "2", "-M", "do", "-s", &size, &node.addr,
        ];
        if !lab
            .node(1)
            .command("ping")
            .args(words)
            .output()?
            .status
            .success()
        {
            bail!("datagrams of {size} bytes do not reach {}", node.name);
        }
    }
    Ok(())
}

/// Long messages round all nodes, checked.
fn ring(ground: &Ground, mpi: &Installed, nodes: usize) -> Result<Nettest> {
    ground.measure(
        mpi,
        Program::Nettest,
        nodes.max(2),
        &words(&[16_384.0, 0.05]),
    )
}

fn solve(ground: &Ground, mpi: &Installed, case: &Case, n: usize) -> Result<Hpl> {
    let folder = armento_mpi::folder()?;
    let program = armento_mpi::build_hpl(mpi, &folder, &|_| {})?;
    let (p, q) = match case.nodes {
        4 => (2, 2),
        6 => (2, 3),
        n => (1, n),
    };
    // Process 0 reads its input in the folder where it begins.
    let run = folder.join(format!("run-{}", std::process::id()));
    fs::create_dir_all(&run)?;
    fs::write(run.join("hpccinf.txt"), hpl_input(n, BLOCK, p, q))?;
    let mut env = case.blas.env()?;
    if case.way != "striped" {
        // Only the addresses of the first link: the routes choose the link.
        env.push(("OMPI_MCA_btl_tcp_if_include".into(), "eth0".into()));
    }
    let job = Job {
        program,
        np: case.nodes,
        hosts: ground.first(case.nodes),
        env,
        interfaces: (case.way != "striped").then(|| "eth0".to_owned()),
        args: vec![ground.there(&run).to_string_lossy().into_owned()],
        wait: Wait::Sleep,
        limit_s: 1800.0,
        ..Job::default()
    };
    let said = ground.run(mpi, &job);
    let _ = fs::remove_dir_all(&run);
    let said = said?;
    match armento_mpi::parse_hpl(&said.stdout) {
        Some(found) if found.passed => Ok(found),
        Some(found) => bail!("HPL's residual is too large: {found:?}"),
        None => bail!(
            "HPL printed no result: {}",
            said.stderr.lines().last().unwrap_or_default()
        ),
    }
}

fn chapter(found: &Found) -> Chapter {
    let printed = table("hpl-bonding/hpl.csv").ok();
    let mut all = Table::new(
        "HPL: Gflop/s, and percent of the peak",
        &[
            "nodes",
            "links",
            "MTU",
            "Gflop/s published",
            "Gflop/s",
            "% of the peak published",
            "% of the peak",
        ],
    );
    let peak = found.value("hpl.1.peak");
    let ways = [
        ("plain", "1", "1500"),
        ("bonded", "2", "1500"),
        ("jumbo", "2", "9200"),
    ];
    let mut bars = Vec::new();
    for row in printed.iter().flat_map(|t| t.rows()) {
        let text = |column| Row::text(&row, column).unwrap_or_default();
        let (nodes, links, mtu) = (text("nodes"), text("links_per_node"), text("mtu"));
        let way = ways.iter().find(|(_, l, m)| *l == links && *m == mtu);
        let gflops = way.and_then(|(way, ..)| found.mean(&format!("hpl.{nodes}.{way}")));
        let count: f64 = nodes.parse().unwrap_or(1.0);
        let percent = gflops.zip(peak).map(|(g, p)| g.mean / p / count * 100.0);
        all.rows.push(vec![
            Cell::label(nodes),
            Cell::label(links),
            Cell::label(match mtu {
                "1500" => "1500".to_owned(),
                other => format!("{other}, here {JUMBO}"),
            }),
            Cell::published(Some(row), "gflops"),
            Cell::measured(gflops, 3),
            Cell::published(Some(row), "efficiency_published_pct"),
            percent.map_or_else(Cell::unrun, |p| Cell::recomputed(p, 1)),
        ]);
        for (label, value, series) in [
            ("measured", percent, 1),
            ("published", row.number("efficiency_published_pct"), 0),
        ] {
            bars.extend(value.map(|value| Bar {
                label: format!("{nodes} nodes, {links} links, {mtu}, {label}"),
                value,
                series,
            }));
        }
    }
    let mut tuned = Table::new(
        "Reference and tuned BLAS, one link",
        &[
            "unknowns",
            "BLAS",
            "one node, Gflop/s",
            "four nodes, Gflop/s",
            "% of the peak",
        ],
    );
    let setting = found.results.map(|r| r.setting.clone());
    let scale = setting.as_ref().map_or(EXPERIMENT.scale, |s| s.scale);
    let n = (UNKNOWNS * scale).round();
    let pairs = [
        (
            "reference",
            "hpl.1.peak".to_owned(),
            "hpl.4.plain".to_owned(),
        ),
        (
            "tuned",
            format!("hpl.1.peak.tuned.{n}"),
            format!("hpl.4.plain.tuned.{n}"),
        ),
    ];
    for (blas, one, four) in pairs {
        let (one, four) = (found.mean(&one), found.mean(&four));
        let percent = four.zip(one).map(|(f, o)| f.mean / o.mean / 4.0 * 100.0);
        tuned.rows.push(vec![
            Cell::label(n.to_string()),
            Cell::label(blas),
            Cell::measured(one, 3),
            Cell::measured(four, 3),
            percent.map_or_else(Cell::unrun, |p| Cell::recomputed(p, 1)),
        ]);
    }
    if setting.is_some_and(|s| s.full) {
        for factor in [1.5, 2.0] {
            let n = (UNKNOWNS * scale * factor).round();
            for blas in ["reference", "tuned"] {
                tuned.rows.push(vec![
                    Cell::label(n.to_string()),
                    Cell::label(blas),
                    Cell::unprinted(),
                    Cell::measured(found.mean(&format!("hpl.4.plain.{blas}.{n}")), 3),
                    Cell::unprinted(),
                ]);
            }
        }
    }
    Chapter {
        tables: vec![all, tuned],
        plots: vec![Plot {
            title: "Efficiency of HPL".into(),
            x: "% of the peak".into(),
            y: String::new(),
            content: Content::Bars(bars),
        }],
        notes: vec![
            "The paper changed its switch together with the second link, and its cards together with the frames, and 802.3ad gives a pair of nodes \
             only one link (E-22): here two nodes gain only what the \
             acknowledgements on the other link leave, so that Q-24 is near its bound at two nodes by construction. One of its efficiencies does \
             not recompute (E-20)."
                .into(),
            "Jumbo frames save work for each frame, which on emulated cards is small (E-21); what is left is 5 % fewer bytes of headers, which the spread of single runs hides on a machine that does other things: Q-25 \
             needs an idle one, or --repeat."
                .into(),
        ],
    }
}
