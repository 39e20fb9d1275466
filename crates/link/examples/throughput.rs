//! Measures bytes a second and round trips over a link on loopback: `cargo run --release --example throughput`.

use armento_link::{Badge, FarmKeys, Identity, Listener, Role, dial};
use armento_model::TreeId;
use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

const BULK: usize = 4 << 30;
const TRIPS: u32 = 50_000;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let farm = FarmKeys::create()?;
    let node = "n1".parse()?;
    let keys = farm.first_node(&node)?;
    let badge = |role| Badge {
        node: node.clone(),
        tree: Some((TreeId(1), 0)),
        role,
    };
    let day = Duration::from_secs(86400);
    let (host, keeper) = (badge(Role::Host), badge(Role::Keeper));
    let tls = (keys.sign_short(&host, day)?, keys.sign_short(&keeper, day)?);
    measure("plain", &(Identity::Plain, Identity::Plain), &host, &keeper)?;
    measure("tls", &tls, &host, &keeper)
}

fn measure(
    name: &str,
    ids: &(Identity, Identity),
    host: &Badge,
    keeper: &Badge,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let doors = Listener::bind("127.0.0.1:0", &ids.0)?;
    let addr = format!("127.0.0.1:{}", doors.port());
    let expect = [keeper.clone()];
    let server = thread::spawn(move || -> std::io::Result<()> {
        let (duplex, _) = doors.accept(&expect).map_err(std::io::Error::other)?;
        let (mut r, mut w) = duplex.split().map_err(std::io::Error::other)?;
        let mut small = [0; 64];
        for _ in 0..TRIPS {
            r.read_exact(&mut small)?;
            w.write_all(&small)?;
        }
        let mut buf = vec![0; 1 << 20];
        let mut left = BULK;
        while left > 0 {
            left -= r.read(&mut buf)?;
        }
        w.write_all(b"k")
    });
    let start = Instant::now();
    let (mut r, mut w) = dial(&addr, &ids.1, host, Duration::from_secs(5))?.split()?;
    println!("{name}: connected in {:?}", start.elapsed());
    let start = Instant::now();
    let mut small = [0; 64];
    for _ in 0..TRIPS {
        w.write_all(&small)?;
        r.read_exact(&mut small)?;
    }
    println!("{name}: round trip {:?}", start.elapsed() / TRIPS);
    let chunk = vec![7; 1 << 20];
    let start = Instant::now();
    for _ in 0..BULK / chunk.len() {
        w.write_all(&chunk)?;
    }
    r.read_exact(&mut small[..1])?;
    let rate = BULK as f64 / start.elapsed().as_secs_f64() / 1e6;
    println!("{name}: {rate:.0} MB/s");
    server.join().map_err(|_| "the other side panicked")??;
    Ok(())
}
