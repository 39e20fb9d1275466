//! Messages between keepers and hosts: frames, calls, messages, blocks of pages.

use armento_abi::sends::packed_payload;
use armento_abi::{deadline, out_len, set_timeout};
use armento_tracee::region::DATA;
use armento_wire::call::{CALL, PART, REPLY, call_head, decode_call, decode_reply, reply_head};
use armento_wire::codec::{Codec, Grow, Shrink};
use armento_wire::pages::{self, SPAN_MAX};
use armento_wire::talk::{Hello, TALK, ToHome, ToHost, decode, encode};
use armento_wire::{read_frame, write_frame};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Address of the area in a deputy.
const BASE: u64 = 0x6a00_0010_1000;
/// A call's area in a test: a real one is 8 MiB, too much to fill for each input.
const AREA: usize = 64 << 10;

/// A stream of frames: what was read must be what would be written.
pub fn frames(data: &[u8]) {
    let (mut rest, mut buf) = (data, Vec::new());
    loop {
        let before = rest;
        let Ok(kind) = read_frame(&mut rest, &mut buf) else {
            return;
        };
        let mut again = Vec::new();
        write_frame(&mut again, kind, &[&buf]).expect("it was short enough to be read");
        assert_eq!(again, before[..before.len() - rest.len()]);
        match kind {
            CALL => call(&buf),
            REPLY | PART => reply(&buf),
            TALK => {
                message::<ToHome>(&buf);
                message::<ToHost>(&buf);
            }
            _ => {}
        }
    }
}

/// A call, decoded as a keeper does, and everything that a keeper then computes from it.
pub fn call(data: &[u8]) {
    reply(data);
    let Ok(mut c) = decode_call(data, DATA as usize) else {
        return;
    };
    let mut again = call_head(&c);
    again.extend_from_slice(&c.packed.data);
    assert_eq!(again, data);
    let p = &mut c.packed;
    assert!(p.span() <= DATA as usize);
    let _ = (p.path(), p.args_at(BASE), packed_payload(p));
    if let Some(at) = deadline(p) {
        set_timeout(p, at.rel_ns / 2);
    }
    if p.span() > AREA || p.check(AREA).is_err() {
        return;
    }
    let mut area = vec![0; AREA];
    p.copy_to(BASE, &mut area);
    for ret in [i64::MIN, -516, -4, 0, 1, 4096, i64::MAX] {
        let room: usize = p.outs.iter().map(|o| out_len(o, ret)).sum();
        // Outputs may name the same bytes: their cost is bounded by their number (4096) alone.
        if room <= 2 * AREA {
            let mut out = Vec::new();
            p.collect(ret, &area, &mut out);
            assert_eq!(out.len(), room);
        }
    }
}

fn reply(data: &[u8]) {
    let Ok(r) = decode_reply(data) else { return };
    let mut again = reply_head(r.tid, r.seq, r.ret).to_vec();
    again.extend_from_slice(r.outs);
    assert_eq!(again, data);
}

/// Messages; the first byte selects the kind.
pub fn talk(data: &[u8]) {
    let Some((which, body)) = data.split_first() else {
        return;
    };
    match which {
        0 => message::<Hello>(body),
        1 => message::<ToHome>(body),
        _ => message::<ToHost>(body),
    }
}

/// A decoded value comes back from its encoding. Compared as bytes: a number may be encoded longer than necessary.
pub fn message<T: Serialize + DeserializeOwned>(body: &[u8]) {
    let Ok(m) = decode::<T>(body, "message") else {
        return;
    };
    let bytes = encode(&m);
    let again = decode::<T>(&bytes, "message").expect("its own encoding");
    assert_eq!(encode(&again), bytes);
}

/// A frame of pages: its size in memory is bounded, and it comes back in every codec.
pub fn pages(data: &[u8]) {
    let mut grow = Grow::default();
    let Ok((parts, bytes)) = pages::decode(data, &mut grow) else {
        return;
    };
    let span: usize = parts.iter().map(|p| p.len).sum();
    assert!(span <= SPAN_MAX && bytes.len() <= span);
    let mut shrink = Shrink::default();
    for codec in [Codec::Plain, Codec::Lz4, Codec::Zstd] {
        // Incompressible data is sent as it is.
        let small = shrink.shrink(codec, bytes);
        let codec = if small.is_some() { codec } else { Codec::Plain };
        let mut again = Vec::new();
        pages::head(&parts, (codec, bytes.len()), &mut again);
        again.extend_from_slice(small.unwrap_or(bytes));
        let mut grow = Grow::default();
        let back = pages::decode(&again, &mut grow).expect("its own encoding");
        assert_eq!(back, (parts.clone(), bytes));
    }
}
