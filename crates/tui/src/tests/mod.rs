//! A farm for tests, and a screen that shows it.

mod frames;
mod keys;
mod mouse;

use crate::draw::draw;
use crate::state::{Action, Event, State};
use crate::{Look, Theme};
use armento_client::api::{NodeInfo, ProcInfo};
use armento_model::{NodeName, Stay, TreeId};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Size;
use std::time::Duration;

pub const FULL: Look = Look {
    theme: Theme::Dark,
    unicode: true,
};
pub const BARE: Look = Look {
    theme: Theme::Mono,
    unicode: false,
};

pub fn name(n: &str) -> NodeName {
    n.parse().expect("a node's name")
}

pub fn node(n: &str, load: f64) -> NodeInfo {
    NodeInfo {
        name: name(n),
        addr: "10.0.0.1:7117".into(),
        state: "alive".into(),
        here: n == "n1",
        load,
        speed: 10_000,
        cores: 4,
        mem_total_kib: 8 << 20,
        mem_free_kib: 6 << 20,
        guests: 2,
        frozen: 0,
        shut: false,
        drained: false,
        age_ms: 420,
        wire: "tls".into(),
        version: "0.1.0".into(),
        clock_us: Some(0),
        clock_apart: false,
    }
}

pub fn proc(pid: i32, home: &str, place: &str) -> ProcInfo {
    ProcInfo {
        pid,
        ppid: 1,
        tree: TreeId(1),
        uid: 1000,
        home: name(home),
        place: name(place),
        command: "lame a.wav".into(),
        cpu_ms: 12_340,
        away_cpu_ms: 12_000,
        rss_kib: 5120,
        threads: 1,
        busy_percent: 100,
        moves: 0,
        forwarded: 345,
        bytes_sent: 0,
        bytes_received: 0,
        files: armento_model::FileCounts::default(),
        rates: armento_model::FileRates::default(),
        messages: None,
        stay: None,
        detail: String::new(),
        partner: None,
        locked: false,
        lost_ms: None,
        frozen: false,
        portable: false,
        age_ms: 15_000,
        last_exec: None,
        safe: None,
        connections: None,
        stopped: false,
        nice: 0,
        moving: None,
    }
}

/// Four nodes, one of them down, one of them slow and full.
pub fn nodes() -> Vec<NodeInfo> {
    let slow = NodeInfo {
        speed: 4_000,
        cores: 2,
        mem_free_kib: 300 << 10,
        frozen: 1,
        age_ms: 1_300,
        ..node("n2", 1.62)
    };
    let gone = NodeInfo {
        state: "down".into(),
        cores: 0,
        age_ms: 95_000,
        wire: String::new(),
        ..node("n4", 0.0)
    };
    vec![node("n1", 0.26), slow, node("n3", 0.9), gone]
}

/// Seven processes, after a number of snapshots a second apart.
pub fn procs(looks: u64) -> Vec<ProcInfo> {
    let at = |i: u64, home, place| {
        let (age_ms, cpu_ms) = (15_000 * i + 1000 * looks, 9_000 * i + 130 * i * looks);
        ProcInfo {
            command: format!("lame -b 256 voice{i}.wav voice{i}.mp3"),
            age_ms,
            cpu_ms,
            away_cpu_ms: cpu_ms / 2,
            rss_kib: 5120 * i,
            moves: i / 2,
            forwarded: 345 + 12 * i * looks,
            ..proc(4710 + i as i32, home, place)
        }
    };
    let mut all = vec![
        at(1, "n1", "n3"),
        at(2, "n1", "n3"),
        at(3, "n1", "n2"),
        at(4, "n1", "n1"),
        at(5, "n1", "n1"),
        at(6, "n1", "n1"),
        at(7, "n1", "n4"),
    ];
    all[3].stay = Some(Stay::WouldNotPay);
    all[4].locked = true;
    all[5].stay = Some(Stay::ForeignPidNamespace);
    all[5].command = "sqlite3 test.db".into();
    all[6].lost_ms = Some(4_200);
    all
}

pub struct Shown {
    pub state: State,
    seconds: u64,
}

impl Shown {
    pub fn new(look: Look, width: u16, height: u16) -> Shown {
        let size = Size { width, height };
        let state = State::new(look, size, Duration::from_secs(1), false);
        let mut shown = Shown { state, seconds: 0 };
        shown.send(Event::Farm {
            farm: "4f0c2a9e12ab34cd".into(),
            node: name("n1"),
        });
        shown
    }

    /// The farm of four, in two snapshots; between them one process moved.
    pub fn farm(look: Look, width: u16, height: u16) -> Shown {
        let mut shown = Shown::new(look, width, height);
        let mut before = procs(0);
        before[2].place = name("n3");
        before[2].moves = 0;
        shown.snapshot(nodes(), before);
        shown.snapshot(nodes(), procs(1));
        shown
    }

    /// The daemon's answers, a second later.
    pub fn snapshot(&mut self, nodes: Vec<NodeInfo>, procs: Vec<ProcInfo>) {
        self.seconds += 1;
        self.send(Event::Nodes(nodes));
        self.send(Event::Procs(procs));
    }

    pub fn wait(&mut self, seconds: u64) {
        self.seconds += seconds;
        self.send(Event::Tick);
    }

    pub fn send(&mut self, event: Event) -> Option<Action> {
        self.state.update(Duration::from_secs(self.seconds), event)
    }

    pub fn press(&mut self, code: KeyCode) -> Option<Action> {
        self.send(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    pub fn control(&mut self, c: char) -> Option<Action> {
        let key = KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        self.send(Event::Key(key))
    }

    /// Presses the keys; returns the last one's action.
    pub fn keys(&mut self, keys: &str) -> Option<Action> {
        keys.chars()
            .map(|c| match c {
                '\n' => self.press(KeyCode::Enter),
                '\t' => self.press(KeyCode::Tab),
                '\x1b' => self.press(KeyCode::Esc),
                c => self.press(KeyCode::Char(c)),
            })
            .last()
            .flatten()
    }

    pub fn buffer(&self) -> Buffer {
        let Size { width, height } = self.state.size;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        let drawn = terminal.draw(|frame| draw(frame, &self.state));
        drawn.expect("a frame").buffer.clone()
    }

    pub fn text(&self) -> String {
        crate::draw::text(&self.buffer())
    }
}
