//! Fields of structs from the running kernel's type information (BTF).
//!
//! KERNEL: Documentation/bpf/btf.rst: a header, then types one after another, then the strings that they name.

/// Kinds of types that are followed.
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const TYPEDEF: u32 = 8;
const CONST: u32 = 10;
const MAGIC: u32 = 0xeb9f;
const HEADER_MIN: usize = 24;

struct Type {
    kind: u32,
    name: u32,
    /// Unused for a struct; otherwise the type that it refers to.
    of: u32,
    /// Name and type of each.
    members: Vec<(u32, u32)>,
}

pub struct Btf {
    /// Number 0 is void.
    types: Vec<Type>,
    strings: Vec<u8>,
}

fn word(b: &[u8], at: usize) -> Option<u32> {
    let four = b.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_le_bytes(four))
}

/// Bytes after a type of this kind with `n` entries. KERNEL: btf.rst, "Type Encoding".
fn tail(kind: u32, n: usize) -> Option<usize> {
    Some(match kind {
        1 | 14 | 17 => 4,
        2 | 7..=12 | 16 | 18 => 0,
        3 => 12,
        STRUCT | UNION => 12 * n,
        6 => 8 * n,
        13 => 8 * n,
        15 | 19 => 12 * n,
        _ => return None,
    })
}

impl Btf {
    /// `None`: not in the supported format.
    pub fn parse(raw: &[u8]) -> Option<Btf> {
        if raw.len() < HEADER_MIN || word(raw, 0)? & 0xffff != MAGIC {
            return None;
        }
        let head = word(raw, 4)? as usize;
        let part = |at: usize| -> Option<&[u8]> {
            let from = head + word(raw, at)? as usize;
            raw.get(from..from + word(raw, at + 4)? as usize)
        };
        let (body, strings) = (part(8)?, part(16)?.to_vec());
        let mut types = vec![Type {
            kind: 0,
            name: 0,
            of: 0,
            members: Vec::new(),
        }];
        let mut at = 0;
        while at < body.len() {
            let (name, info, of) = (word(body, at)?, word(body, at + 4)?, word(body, at + 8)?);
            let (kind, n) = (info >> 24 & 31, (info & 0xffff) as usize);
            at += 12;
            let mut members = Vec::new();
            if matches!(kind, STRUCT | UNION) {
                for m in 0..n {
                    members.push((word(body, at + 12 * m)?, word(body, at + 12 * m + 4)?));
                }
            }
            at += tail(kind, n)?;
            types.push(Type {
                kind,
                name,
                of,
                members,
            });
        }
        Some(Btf { types, strings })
    }

    fn string(&self, at: u32) -> &str {
        let rest = self.strings.get(at as usize..).unwrap_or_default();
        let end = rest.iter().position(|b| *b == 0).unwrap_or(0);
        std::str::from_utf8(&rest[..end]).unwrap_or_default()
    }

    /// Fields of the struct, and of anonymous structs and unions in it. Empty: there is no such struct.
    pub fn fields(&self, of: &str) -> Vec<&str> {
        let is = |t: &&Type| t.kind == STRUCT && self.string(t.name) == of;
        let mut found = Vec::new();
        for t in self.types.iter().filter(is) {
            self.collect(t, &mut found);
        }
        found
    }

    fn collect<'a>(&'a self, t: &'a Type, found: &mut Vec<&'a str>) {
        for (name, of) in &t.members {
            match self.string(*name) {
                "" => {
                    if let Some(inner) = self.behind(*of) {
                        self.collect(inner, found);
                    }
                }
                name => found.push(name),
            }
        }
    }

    /// The struct or union behind modifiers.
    fn behind(&self, mut at: u32) -> Option<&Type> {
        loop {
            let t = self.types.get(at as usize)?;
            match t.kind {
                TYPEDEF..=CONST | 11 | 18 => at = t.of,
                STRUCT | UNION => return Some(t),
                _ => return None,
            }
        }
    }
}
