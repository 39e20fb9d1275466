use super::*;
use armento_client::api::Pass;
use armento_link::{Badge, Identity, Role};
use armento_model::{HomeTid, NodeName, Stay};
use armento_tracee::region::Region;
use armento_tracee::sys::SigInfo;
use armento_tracee::trace::{self, Status};
use armento_wire::talk::SessionId;
use std::fs::File;
use std::process::{Child, Command};
use std::sync::mpsc;

/// No process has these numbers. KERNEL: PID_MAX_LIMIT is 2^22.
const PID: Pid = i32::MAX - 1;
const TID: Tid = PID;

fn process() -> Process {
    Process::new(&Arc::default(), PID, false, None)
}

fn host(name: &str) -> Arc<HostLink> {
    let node: NodeName = name.parse().expect("a name");
    let pass = Pass {
        node: node.clone(),
        addr: "127.0.0.1:1".into(),
        identity: Identity::Plain,
        expect: Badge {
            node: node.clone(),
            tree: None,
            role: Role::Daemon,
        },
        freeze_ms: 1,
        dead_ms: 1,
        dfsa: Vec::new(),
        engine: 0,
    };
    Arc::new(HostLink::new(
        node,
        pass,
        SessionId(1),
        Arc::default(),
        Arc::default(),
    ))
}

fn region() -> Arc<Region> {
    let name = format!(
        "armento-region-{:?}-{}",
        std::thread::current().id(),
        std::process::id()
    );
    let path = std::env::temp_dir().join(name);
    let mut how = File::options();
    let file = how.read(true).write(true).create(true).truncate(true);
    let file = file.open(&path).expect("a file");
    std::fs::remove_file(&path).expect("our file");
    Arc::new(Region::new(file, 4, 1).expect("a region"))
}

/// A process whose body is at `link`, with one deputy.
fn away_at(p: &mut Process, link: &Arc<HostLink>, all: &Deputies) -> Arc<Deputy> {
    let mut away = Away::new(link.clone(), region(), 0);
    let slot = away.region().slot().expect("a slot");
    let d = Deputy::new(TID, PID, slot, link.clone(), p.common.clone(), None, None);
    all.insert(&d);
    away.add_deputy(&d);
    p.become_away(away);
    d
}

fn away_mut(p: &mut Process) -> &mut Away {
    p.away_mut().expect("it is away")
}

/// A thread that stands still.
fn stopped_child() -> (Child, Halted) {
    let child = Command::new("sleep").arg("60").spawn().expect("sleep");
    let tid = child.id() as Tid;
    trace::seize(tid, trace::EXITKILL).expect("a child of ours");
    trace::interrupt(tid).expect("it is seized");
    let stop = trace::wait_for(tid, Duration::from_secs(10));
    let Ok(Status::Stopped(thread, _)) = stop else {
        panic!("it stops: {stop:?}");
    };
    let signal = None;
    (child, Halted { thread, signal })
}

fn end(child: &mut Child) {
    child.kill().expect("a child of ours");
    child.wait().expect("a child of ours");
}

fn signal(number: i32) -> SigInfo {
    let mut info: SigInfo = [0; 128];
    info[..4].copy_from_slice(&number.to_le_bytes());
    info
}

#[test]
fn the_first_program_is_unbegun_until_it_has_its_place() {
    let (mut p, all) = (process(), Deputies::default());
    p.begin_before_exec();
    assert!(p.is_before_exec() && !p.is_at_exec());
    p.leave_exec_stop();
    assert!(p.is_before_exec());
    p.enter_exec_stop(&all);
    assert!(p.is_at_exec() && p.is_unbegun() && !p.is_before_exec());
    p.leave_exec_stop();
    assert!(!p.is_at_exec() && !p.is_unbegun());
    p.enter_exec_stop(&all);
    assert!(p.is_at_exec() && !p.is_unbegun());
}

#[test]
fn a_program_that_leaves_at_its_exec_waits_no_more() {
    let (mut p, all) = (process(), Deputies::default());
    p.begin_before_exec();
    p.enter_exec_stop(&all);
    let link = host("n2");
    away_at(&mut p, &link, &all);
    assert!(p.is_away() && p.is_at(&link) && !p.is_at(&host("n2")));
    assert!(!p.is_at_exec() && !p.is_unbegun());
    p.leave_exec_stop();
    assert!(p.is_away());
}

#[test]
fn an_exec_ends_a_stay_away() {
    let (mut p, all) = (process(), Deputies::default());
    away_at(&mut p, &host("n2"), &all);
    p.note_move(Some(StayReason::new(Stay::Busy, "")));
    p.common.coming_home.store(true, Ordering::Release);
    let (mut child, halted) = stopped_child();
    away_mut(&mut p).halted.push(halted);
    p.begin_breaking();
    p.enter_exec_stop(&all);
    assert!(p.is_at_exec() && !p.is_unbegun() && !p.is_away());
    assert!(p.deputies().next().is_none() && all.get(TID).is_none());
    assert!(p.stay_reason().is_none() && p.take_halted().is_empty());
    assert!(!p.common.breaking.load(Ordering::Acquire));
    assert!(!p.common.coming_home.load(Ordering::Acquire));
    end(&mut child);
}

#[test]
fn a_program_stands_at_its_exec_until_it_is_taken() {
    let (mut p, all) = (process(), Deputies::default());
    let (mut child, halted) = stopped_child();
    p.enter_exec_stop(&all);
    assert!(!p.stands_at_exec() && p.take_standing().is_none());
    p.stand(halted);
    assert!(p.stands_at_exec());
    let halted = p.take_standing().expect("it stands");
    assert!(!p.stands_at_exec() && p.take_standing().is_none());
    p.stand(halted);
    p.enter_exec_stop(&all);
    assert!(!p.stands_at_exec(), "another program");
    end(&mut child);
}

#[test]
fn an_untraced_exec_waits_for_no_placement() {
    let (mut p, all) = (process(), Deputies::default());
    away_at(&mut p, &host("n2"), &all);
    p.exec_untraced(&all);
    assert!(!p.is_away() && !p.is_at_exec());
}

#[test]
fn another_exec_ends_the_run_to_the_entry() {
    let (mut p, all) = (process(), Deputies::default());
    let (done, loaded) = mpsc::channel();
    p.enter_exec_stop(&all);
    p.begin_loading(Loading { done, late: false });
    assert!(p.loading().is_some());
    p.enter_exec_stop(&all);
    assert!(p.loading().is_none());
    assert!(loaded.recv().is_err());
}

#[test]
fn nothing_of_a_stay_is_left_in_the_next() {
    let (mut p, all) = (process(), Deputies::default());
    let d = away_at(&mut p, &host("n2"), &all);
    let away = away_mut(&mut p);
    away.stop();
    away.signals.count_sent();
    assert_eq!(away.prepare_exec(0b101, 0), 0b101);
    assert!(away.try_dump(1) && !away.try_dump(1));
    assert!(away.signals.delay_exec(PID));
    p.begin_breaking();
    assert!(!p.signal_came(None, &signal(libc::SIGTERM)));
    let left = p.come_home(&all);
    assert!(left.iter().all(|l| Arc::ptr_eq(l, &d)) && left.len() == 1);
    assert!(!p.is_away() && !p.has_backlog() && all.get(TID).is_none());
    assert!(!p.common.breaking.load(Ordering::Acquire));
    away_at(&mut p, &host("n2"), &all);
    let away = away_mut(&mut p);
    assert!(!away.end_stop() && away.frozen_since().is_none());
    assert!(away.try_dump(1) && !away.signals.delay_exec(PID));
    assert_eq!(away.ignored(), 0);
}

#[test]
fn a_process_at_another_host_keeps_all_but_what_its_body_was_told() {
    let home = HomeTid::of_home(TID);
    let (mut p, all) = (process(), Deputies::default());
    let d = away_at(&mut p, &host("n2"), &all);
    p.pins.place_by_hand();
    let away = away_mut(&mut p);
    away.stop();
    away.signals.count_sent();
    assert_eq!(away.renice([(TID, 5)].into()), [(home, 5)]);
    assert_eq!(away.renice([(TID, 5)].into()), []);
    p.begin_breaking();
    assert!(!p.signal_came(None, &signal(libc::SIGTERM)));
    let other = host("n3");
    assert!(p.go_to(&other).is_some_and(|froze| froze.is_some()));
    assert!(p.is_at(&other) && Arc::ptr_eq(&d.link(), &other));
    assert!(p.has_backlog() && !p.pins.by_hand());
    let away = away_mut(&mut p);
    assert!(away.frozen_since().is_none());
    assert!(!away.signals.delay_exec(PID));
    assert_eq!(away.renice([(TID, 5)].into()), [(home, 5)]);
    assert!(away.end_stop());
}

#[test]
fn a_new_thread_changes_nothing_else_of_a_stay() {
    let (mut p, all) = (process(), Deputies::default());
    let link = host("n2");
    away_at(&mut p, &link, &all);
    p.pins.place_by_hand();
    let away = away_mut(&mut p);
    away.signals.count_sent();
    assert!(away.stay_for_timer());
    let slot = away.region().slot().expect("a slot");
    let d = Deputy::new(TID + 1, PID, slot, link, p.common.clone(), None, None);
    p.add_deputy(&d);
    assert_eq!(p.deputy_tids(), [TID, TID + 1]);
    assert!(p.pins.by_hand() && p.delay_exec());
}

#[test]
fn a_process_at_home_has_no_body_to_go_to_another_host() {
    let mut p = process();
    assert!(p.go_to(&host("n2")).is_none() && !p.is_away());
    p.begin_breaking();
    assert!(!p.signal_came(None, &signal(libc::SIGTERM)));
    assert!(!p.has_backlog());
}

#[test]
fn signals_of_a_moving_process_wait_for_the_end_of_the_move() {
    let (mut p, all) = (process(), Deputies::default());
    let link = host("n2");
    away_at(&mut p, &link, &all);
    p.begin_breaking();
    assert!(!p.signal_came(None, &signal(libc::SIGTERM)));
    p.pass_on_backlog(usize::MAX);
    assert!(p.has_backlog() && link.session.unheard() == 0);
    p.end_breaking();
    assert!(!p.has_backlog() && link.session.unheard() == 1);
    assert!(p.delay_exec());
}

#[test]
fn signals_wait_while_the_host_is_behind() {
    let (mut p, all) = (process(), Deputies::default());
    let link = host("n2");
    away_at(&mut p, &link, &all);
    let sent = (0..).take_while(|_| !p.signal_came(None, &signal(libc::SIGUSR1)));
    let sent = sent.count() as u64;
    assert_eq!(sent, crate::state::AHEAD_MAX + 1);
    assert!(p.has_backlog());
    p.pass_on_backlog(usize::MAX);
    assert_eq!(link.session.unheard(), sent);
}

#[test]
fn a_process_goes_back_to_its_node_when_nothing_holds_it() {
    let ready = || {
        let mut p = process();
        p.note_move(None);
        p.hold.forget_last();
        p
    };
    assert!(ready().must_go_back());
    let check = |what: &str, change: fn(&mut Process)| {
        let mut p = ready();
        change(&mut p);
        assert!(!p.must_go_back(), "{what}");
    };
    check("it was sent a moment ago", |p| {
        let _ = p.must_go_back();
    });
    check("it is placed by hand", |p| p.pins.place_by_hand());
    check("a debugger is to have it", |p| {
        p.pins.hold_for_debugger(true)
    });
    check("it waits for its placement", |p| {
        p.enter_exec_stop(&Deputies::default());
    });
    check("it is away", |p| {
        away_at(p, &host("n2"), &Deputies::default());
    });
    check("it came home for a call", |p| {
        p.hold_home(StayReason::new(Stay::Busy, ""), None);
    });
    let mut new = process();
    new.hold.forget_last();
    assert!(!new.must_go_back());
}
