//! Two ends and a connection that can break at any byte.

use super::*;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// One direction of a connection.
#[derive(Default)]
struct Way {
    bytes: VecDeque<u8>,
    /// So many more bytes arrive; later ones vanish, as on a cable that was pulled.
    left: usize,
    /// The break is known: writing fails.
    cut: bool,
    all: usize,
}

#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Way>>);

impl Pipe {
    fn of(left: usize) -> Pipe {
        let p = Pipe::default();
        lock(&p.0).left = left;
        p
    }

    fn closer(&self) -> Closer {
        let p = self.clone();
        Box::new(move || lock(&p.0).cut = true)
    }

    /// Whether a whole frame has arrived.
    fn whole(&self) -> bool {
        let w = lock(&self.0);
        let head: Vec<u8> = w.bytes.iter().take(4).copied().collect();
        let len = head.try_into().map(u32::from_le_bytes);
        len.is_ok_and(|n| w.bytes.len() >= 4 + n as usize)
    }
}

impl Write for Pipe {
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        let mut w = lock(&self.0);
        if w.cut {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let n = b.len().min(w.left);
        w.left -= n;
        w.all += b.len();
        w.bytes.extend(&b[..n]);
        Ok(b.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Pipe {
    fn read(&mut self, b: &mut [u8]) -> io::Result<usize> {
        lock(&self.0).bytes.read(b)
    }
}

impl Outlet for Pipe {
    fn takes_more(&self) -> bool {
        true
    }
}

#[derive(Default)]
struct End {
    session: Session<Pipe>,
    heard: Vec<Vec<u8>>,
    inlet: Pipe,
}

impl End {
    /// Receives the frames that have arrived whole; an error is a broken connection.
    fn hear_all(&mut self) {
        let mut buf = Vec::new();
        while self.inlet.whole() {
            let kind = self.session.hear(&mut self.inlet, &mut buf);
            assert_eq!(kind.expect("own frames"), 7);
            self.heard.push(buf.clone());
        }
    }

    /// The part of a frame that arrived before a break is not a frame.
    fn hear_the_end(&mut self) {
        self.hear_all();
        let torn = self.session.hear(&mut self.inlet, &mut Vec::new());
        assert!(matches!(torn, Err(WireError::Io(_))));
        self.session.cut();
    }
}

/// `left`: bytes that get through, each way.
fn connect(a: &mut End, b: &mut End, left: [usize; 2]) {
    let (ab, ba) = (Pipe::of(left[0]), Pipe::of(left[1]));
    (a.inlet, b.inlet) = (ba.clone(), ab.clone());
    let (ha, hb) = (a.session.heard(), b.session.heard());
    let again_a = a.session.attach(ab.clone(), ab.closer(), hb).expect("own");
    let again_b = b.session.attach(ba.clone(), ba.closer(), ha).expect("own");
    // Frames sent meanwhile come after the kept ones.
    if let Some(again) = again_a {
        again.run(&a.session);
    }
    if let Some(again) = again_b {
        again.run(&b.session);
    }
}

const TURNS: u8 = 6;

fn message(sender: u8, turn: u8) -> Vec<u8> {
    // None, one and some bytes.
    vec![sender * 16 + turn; usize::from(turn % 4) * usize::from(turn)]
}

/// Both ends send in turn, over connections that break after so many bytes each way.
fn converse(cuts: &[[usize; 2]]) -> [usize; 2] {
    let (mut a, mut b) = (End::default(), End::default());
    let mut cuts = cuts.iter();
    let whole = [usize::MAX; 2];
    let mut now = *cuts.next().unwrap_or(&whole);
    connect(&mut a, &mut b, now);
    let mut sent = [0, 0];
    for turn in 0..TURNS {
        for _ in 0..2 {
            a.session
                .send(7, &[&message(1, turn)])
                .expect("acknowledged frames were sent");
        }
        b.hear_all();
        b.session
            .send(7, &[&message(2, turn)])
            .expect("acknowledged frames were sent");
        a.hear_all();
        let all = |e: &End| lock(&e.inlet.0).all;
        sent = [all(&b), all(&a)];
        // An end that waits for an answer in vain opens another connection.
        let broke = sent[0] > now[0] || sent[1] > now[1];
        if broke {
            // One of the two notices first, and sends more before the other does.
            a.hear_the_end();
            a.session
                .send(7, &[b"between"])
                .expect("acknowledged frames were sent");
            b.hear_the_end();
            now = *cuts.next().unwrap_or(&whole);
            connect(&mut a, &mut b, now);
            b.hear_all();
            a.hear_all();
            expect_order(&a, &b);
        }
    }
    // The last break may be after the last byte.
    a.session.cut();
    connect(&mut a, &mut b, whole);
    b.hear_all();
    a.hear_all();
    let mut want = Vec::new();
    (0..TURNS).for_each(|t| want.extend([message(1, t), message(1, t)]));
    let mut got = b.heard.clone();
    got.retain(|m| m != b"between");
    assert_eq!(got, want);
    let want: Vec<_> = (0..TURNS).map(|t| message(2, t)).collect();
    assert_eq!(a.heard, want);
    sent
}

fn expect_order(a: &End, b: &End) {
    assert!(b.heard.len() as u64 == b.session.heard());
    assert!(a.heard.len() as u64 == a.session.heard());
}

#[test]
fn break_at_any_byte_loses_and_repeats_nothing() {
    let [there, back] = converse(&[]);
    for at in 0..=there {
        converse(&[[at, usize::MAX]]);
    }
    for at in 0..=back {
        converse(&[[usize::MAX, at]]);
    }
}

#[test]
fn two_breaks_in_both_directions_lose_and_repeat_nothing() {
    let [there, back] = converse(&[]);
    for at in 0..=there {
        for then in (0..=there).step_by(7) {
            converse(&[[at, usize::MAX], [then, usize::MAX]]);
            converse(&[[at, at % (back + 1)], [usize::MAX, then % (back + 1)]]);
        }
    }
}

/// Two connected ends.
fn pair() -> (End, End) {
    let (mut a, mut b) = (End::default(), End::default());
    connect(&mut a, &mut b, [usize::MAX; 2]);
    (a, b)
}

#[test]
fn duplicates_are_dropped_and_out_of_order_frames_refused() {
    let (a, mut b) = pair();
    let hear = |b: &End, bytes: Vec<u8>| b.session.hear(&mut &bytes[..], &mut Vec::new());
    let said = |n: u64, heard: u64| kept::frame(7, n, heard, &[b"x"]);
    assert_eq!(hear(&b, said(1, 0)).expect("first"), 7);
    assert_eq!(
        hear(&b, [said(1, 0), said(2, 0)].concat()).expect("next"),
        7
    );
    assert_eq!(b.session.heard(), 2);
    let refused = |bytes| matches!(hear(&b, bytes), Err(WireError::Garbled(_)));
    assert!(refused(said(4, 0)), "one is missing");
    assert!(refused(said(3, 1)), "it acknowledges what was not sent");
    assert!(refused(said(0, 0)), "no number, and not empty");
    assert!(
        refused(kept::frame(ACK, 3, 0, &[])),
        "a number, and says nothing"
    );
    let mut short = said(3, 0);
    short[..4].copy_from_slice(&16u32.to_le_bytes());
    assert!(matches!(hear(&b, short), Err(WireError::TooLong(16))));
    // A peer that claims to have received more than was sent gets no connection.
    let p = Pipe::of(0);
    assert!(b.session.attach(p.clone(), p.closer(), 1).is_err());
    b.hear_all();
    drop(a);
}

#[test]
fn receiver_that_sends_nothing_acknowledges_now_and_then() {
    let (mut a, mut b) = pair();
    for _ in 0..10_000 {
        a.session.send(7, &[&[0; 5000]]).expect("there is room");
        b.hear_all();
        while a.inlet.whole() {
            // Frames without a number are not returned: reading goes on to the end of the bytes.
            assert!(a.session.hear(&mut a.inlet, &mut Vec::new()).is_err());
        }
    }
    let acks = lock(&a.inlet.0).all / kept::ack(0).len();
    assert!((100..400).contains(&acks), "{acks}");
    assert!(a.session.takes_more());
}

#[test]
fn full_session_blocks_senders_and_fails_those_that_may_not_block() {
    let s = Arc::new(Session::<Pipe>::default());
    let big = vec![0; 8 << 20];
    for _ in 0..3 {
        s.send(7, &[&big]).expect("there is room");
    }
    let first = s.clone();
    let waits = std::thread::spawn(move || first.send(7, &[&vec![0; 8 << 20]]).is_ok());
    // The peer was there and received all of it.
    s.acknowledged(1).expect("acknowledged frames were sent");
    s.acknowledged(3).expect("acknowledged frames were sent");
    assert!(waits.join().expect("no panic"));
    let there = s.clone();
    let told = std::thread::spawn(move || {
        never_wait();
        (0..10).find_map(|_| there.send(7, &[&vec![0; 8 << 20]]).err())
    });
    let told = told.join().expect("no panic");
    assert!(matches!(told, Some(WireError::Over)));
    assert!(s.is_over() && s.send(7, &[]).is_err());
}

#[test]
fn blocked_sender_fails_when_the_session_ends() {
    let s = Arc::new(Session::<Pipe>::default());
    for _ in 0..3 {
        s.send(7, &[&vec![0; 8 << 20]]).expect("there is room");
    }
    let other = s.clone();
    let waits = std::thread::spawn(move || other.send(7, &[&vec![0; 8 << 20]]).is_err());
    s.end();
    assert!(waits.join().expect("no panic"));
}

#[test]
fn last_acknowledged_send_time_is_known() {
    let (mut a, mut b) = pair();
    let born = a.session.answered();
    a.session
        .send_marked(7, &[b"pulse"])
        .expect("acknowledged frames were sent");
    assert_eq!(a.session.answered(), born, "nothing was acknowledged");
    b.hear_all();
    b.session
        .send(7, &[b"pulse"])
        .expect("acknowledged frames were sent");
    a.hear_all();
    let then = a.session.answered();
    assert!(then > born);
    a.session
        .send_marked(7, &[b"pulse"])
        .expect("acknowledged frames were sent");
    assert_eq!(a.session.answered(), then);
    b.hear_all();
    b.session.acknowledge();
    assert!(a.session.hear(&mut a.inlet, &mut Vec::new()).is_err());
    assert!(a.session.answered() > then);
}

#[test]
fn newer_connection_ends_the_older() {
    let (mut a, mut b) = pair();
    let old = b.inlet.clone();
    a.session
        .send(7, &[b"one"])
        .expect("acknowledged frames were sent");
    connect(&mut a, &mut b, [usize::MAX; 2]);
    assert!(lock(&old.0).cut);
    b.hear_all();
    assert_eq!(b.heard, [b"one"]);
    assert!(a.session.connected());
    a.session.cut();
    assert!(!a.session.connected());
}
