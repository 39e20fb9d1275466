//! A body's memory made of pages, and a home that executes packed calls.

use std::collections::BTreeMap;

use armento_abi::{Fault, Mem, Packed, Plan, Refuse, pack, unpack};

pub const PAGE: u64 = 4096;
/// Address of the deputy's data area.
pub const BASE: u64 = 0x7000_0000;
pub const CAP: usize = 1 << 20;
pub const EFAULT: i64 = -(libc::EFAULT as i64);
/// A user address where nothing is mapped.
pub const HOLE: u64 = 0x6666_0000;

/// Pages of a body; the flag says whether they can be written.
#[derive(Default)]
pub struct Body {
    pages: BTreeMap<u64, (Vec<u8>, bool)>,
    pub writes: Vec<(u64, usize)>,
}

impl Body {
    /// Memory of `pages` pages at 0x10000.
    pub fn new(pages: u64) -> Body {
        let mut body = Body::default();
        body.map(0x10000, pages, true);
        body
    }

    pub fn map(&mut self, addr: u64, pages: u64, writable: bool) {
        for i in 0..pages {
            let page = (vec![0xee; PAGE as usize], writable);
            self.pages.insert(addr / PAGE + i, page);
        }
    }

    pub fn put(&mut self, addr: u64, bytes: &[u8]) -> u64 {
        for (i, &b) in bytes.iter().enumerate() {
            let at = addr + i as u64;
            self.pages.get_mut(&(at / PAGE)).expect("mapped").0[(at % PAGE) as usize] = b;
        }
        addr
    }

    pub fn put_words(&mut self, addr: u64, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.put(addr, &bytes)
    }

    pub fn get(&mut self, addr: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.read(addr, &mut bytes).expect("mapped");
        bytes
    }

    pub fn word32(&mut self, addr: u64) -> u32 {
        u32::from_le_bytes(self.get(addr, 4).try_into().expect("four"))
    }
}

impl Mem for Body {
    fn read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), Fault> {
        if self.read_some(addr, buf) == buf.len() {
            Ok(())
        } else {
            Err(Fault)
        }
    }

    fn read_some(&mut self, addr: u64, buf: &mut [u8]) -> usize {
        for (i, b) in buf.iter_mut().enumerate() {
            let at = addr + i as u64;
            match self.pages.get(&(at / PAGE)) {
                Some((page, _)) => *b = page[(at % PAGE) as usize],
                None => return i,
            }
        }
        buf.len()
    }

    fn write(&mut self, addr: u64, data: &[u8]) -> Result<(), Fault> {
        let end = addr + data.len() as u64;
        for page in addr / PAGE..end.div_ceil(PAGE) {
            if !self.pages.get(&page).is_some_and(|(_, writable)| *writable) {
                return Err(Fault);
            }
        }
        self.writes.push((addr, data.len()));
        self.put(addr, data);
        Ok(())
    }
}

/// The view of the deputy's kernel: relocated arguments and the data area.
pub struct Home {
    pub args: [u64; 6],
    pub area: Vec<u8>,
}

impl Home {
    pub fn read(&self, addr: u64, len: usize) -> Result<Vec<u8>, Fault> {
        let at = addr.checked_sub(BASE).ok_or(Fault)? as usize;
        self.area.get(at..at + len).map(<[u8]>::to_vec).ok_or(Fault)
    }

    pub fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Fault> {
        let at = addr.checked_sub(BASE).ok_or(Fault)? as usize;
        let to = self.area.get_mut(at..at + bytes.len()).ok_or(Fault)?;
        to.copy_from_slice(bytes);
        Ok(())
    }

    pub fn word(&self, addr: u64) -> Result<u64, Fault> {
        Ok(u64::from_le_bytes(
            self.read(addr, 8)?.try_into().expect("eight"),
        ))
    }

    pub fn text(&self, addr: u64) -> Result<String, Fault> {
        let at = addr.checked_sub(BASE).ok_or(Fault)? as usize;
        let text = self.area.get(at..).ok_or(Fault)?;
        let end = text.iter().position(|&b| b == 0).ok_or(Fault)?;
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }
}

pub fn plan(nr: u64, args: &[u64], body: &mut Body) -> Result<Plan, Refuse> {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    pack(nr, &all, body, CAP)
}

/// Packs, checks as a keeper would, executes at home, unpacks. A fault at home is EFAULT.
pub fn call(
    nr: u64,
    args: &[u64],
    body: &mut Body,
    kernel: impl FnOnce(&mut Home) -> Result<i64, Fault>,
) -> i64 {
    let plan = plan(nr, args, body).expect("packs");
    let packed: &Packed = &plan.packed;
    packed.check(CAP + 8192).expect("holds together");
    // Stale bytes of an earlier call must never reach the body.
    let mut area = vec![0xdd; packed.span()];
    packed.copy_to(BASE, &mut area);
    let mut home = Home {
        args: packed.args_at(BASE),
        area,
    };
    let ret = kernel(&mut home).unwrap_or(EFAULT);
    let mut reply = Vec::new();
    packed.collect(ret, &home.area, &mut reply);
    unpack(&plan, ret, &reply, body)
}
