//! Datagrams between daemons.

use armento_gossip::{Entry, ITEMS_MAX, MESSAGE_BYTES_MAX, Message, Tick, Vector};
use armento_noded::peer::{Kind, Seal};

/// A sealed datagram, and inside it a message of a load vector.
pub fn gossip(data: &[u8]) {
    let seal = Seal::new("the farm's secret");
    let _ = seal.open(data);
    let sealed = seal.close(Kind::Vector, data);
    assert_eq!(seal.open(&sealed), Some((Kind::Vector, data)));
    let Ok(message) = postcard::from_bytes::<Message>(data) else {
        return;
    };
    let bytes = postcard::to_stdvec(&message).expect("plain data");
    let again: Message = postcard::from_bytes(&bytes).expect("its own encoding");
    assert_eq!(again, message);
    receive(message);
}

/// A vector trusts no received value, and what it forwards fits a datagram.
fn receive(message: Message) {
    let (me, peer) = ("n1".parse().expect("name"), "n2".parse().expect("name"));
    let mut v = Vector::new(me, 7);
    v.set_own(Entry::new(v.me().clone(), 7), Tick(5));
    let from = message.from().clone();
    v.receive(message.clone(), Tick(10));
    v.receive(message, Tick(u64::MAX));
    v.tick(Tick(20));
    for k in v.view(Tick(30)) {
        let _ = (k.entry.power_milli(), k.entry.load_over_power());
    }
    for to in [&peer, &from] {
        let out = v.message_for(to, Tick(40));
        assert!(out.len() <= ITEMS_MAX);
        let bytes = postcard::to_stdvec(&out).expect("plain data");
        assert!(bytes.len() <= MESSAGE_BYTES_MAX);
    }
    v.forget(&from);
}
