//! Bytes that were written in pieces, read again: whole, or as a stream.

use super::frame::{Kind, unpack};
use super::header::invalid;
use super::scan::Place;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// The raw bytes of a frame.
pub fn frame(file: &File, place: &Place) -> io::Result<Vec<u8>> {
    let mut stored = vec![0; place.head.stored as usize];
    file.read_exact_at(&mut stored, place.at)?;
    unpack(&place.head, stored)
}

/// Whether these are all pieces of something, from the first on.
pub fn consecutive(places: &[Place]) -> bool {
    let numbers = places.iter().map(|p| p.head.key.number);
    !places.is_empty() && numbers.eq(0..places.len() as u64)
}

/// All pieces together, when they are at most `max` bytes.
pub fn whole(file: &File, places: &[Place], max: u64) -> io::Result<Vec<u8>> {
    let size: u64 = places.iter().map(|p| u64::from(p.head.raw)).sum();
    if !consecutive(places) || size > max {
        return Err(invalid("pieces"));
    }
    let mut bytes = Vec::new();
    for place in places {
        bytes.extend(frame(file, place)?);
    }
    Ok(bytes)
}

/// A kept file, read piece by piece.
pub struct Stream<'a> {
    file: &'a File,
    places: std::vec::IntoIter<Place>,
    piece: Vec<u8>,
    read: usize,
}

impl<'a> Stream<'a> {
    pub fn new(file: &'a File, places: Vec<Place>) -> Stream<'a> {
        Stream {
            file,
            places: places.into_iter(),
            piece: Vec::new(),
            read: 0,
        }
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.read == self.piece.len() {
            let Some(place) = self.places.next() else {
                return Ok(0);
            };
            debug_assert_eq!(place.head.key.kind, Kind::File);
            self.piece = frame(self.file, &place)?;
            self.read = 0;
        }
        let n = into.len().min(self.piece.len() - self.read);
        into[..n].copy_from_slice(&self.piece[self.read..][..n]);
        self.read += n;
        Ok(n)
    }
}
