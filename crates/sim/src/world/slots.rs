//! A slab: items with numbers that are reused.

/// Items with numbers that are reused.
pub(super) struct Slots<T> {
    all: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slots<T> {
    pub fn new() -> Slots<T> {
        Slots {
            all: Vec::new(),
            free: Vec::new(),
        }
    }

    pub fn put(&mut self, thing: T) -> usize {
        let place = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        self.all[place] = Some(thing);
        place
    }

    pub fn take(&mut self, place: usize) -> Option<T> {
        let thing = self.all.get_mut(place)?.take()?;
        self.free.push(place);
        Some(thing)
    }
}
