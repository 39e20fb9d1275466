//! Passes streams on, and cuts them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

pub struct Proxy {
    pub addr: String,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub fn start() -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let addr = listener.local_addr().expect("an address").to_string();
        let streams: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let all = streams.clone();
        std::thread::spawn(move || {
            for s in listener.incoming().map_while(Result::ok) {
                let all = all.clone();
                std::thread::spawn(move || pass(s, &all));
            }
        });
        Proxy { addr, streams }
    }

    /// Ends all streams in the middle of whatever they carry.
    pub fn cut(&self) -> usize {
        let mut all = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        for s in all.iter() {
            let _ = s.shutdown(Shutdown::Both);
        }
        std::mem::take(&mut *all).len() / 2
    }
}

/// The first line is the port of the other side.
fn pass(s: TcpStream, all: &Mutex<Vec<TcpStream>>) {
    let mut from = BufReader::new(s.try_clone().expect("a descriptor"));
    let mut line = String::new();
    if from.read_line(&mut line).is_err() {
        return;
    }
    let Ok(to) = TcpStream::connect(format!("127.0.0.1:{}", line.trim())) else {
        return;
    };
    let _ = to.set_nodelay(true);
    let _ = s.set_nodelay(true);
    {
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend([s.try_clone(), to.try_clone()].map(|x| x.expect("a descriptor")));
    }
    let (mut back_from, mut back_to) = (to.try_clone().expect("a descriptor"), s);
    std::thread::spawn(move || copy(&mut back_from, &mut back_to));
    copy(&mut from, &mut { to });
}

fn copy(from: &mut dyn Read, to: &mut TcpStream) {
    let mut b = vec![0; 64 << 10];
    loop {
        match from.read(&mut b) {
            Ok(n) if n > 0 && to.write_all(&b[..n]).is_ok() => {}
            _ => {
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}
