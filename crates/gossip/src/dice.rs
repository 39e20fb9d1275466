//! Reproducible randomness: the caller provides the seed.

use std::collections::BTreeMap;

/// A small generator (SplitMix64, Steele et al. 2014). Not for secrets.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn seeded(seed: u64) -> Dice {
        Dice(seed)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniformly one of `0..n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        // Multiply-shift: the bias is below 2^-40 for any farm we can hold.
        ((u128::from(self.roll()) * n as u128) >> 64) as usize
    }

    /// `count` different elements of `of`, or all if there are fewer, in random order.
    pub fn choose<'a, T>(&mut self, of: &'a [T], count: usize) -> Vec<&'a T> {
        let places = self.places(of.len(), count);
        places.into_iter().map(|place| &of[place]).collect()
    }

    /// Indexes of `count` random elements in a list of `of`.
    pub fn places(&mut self, of: usize, count: usize) -> Vec<usize> {
        // A shuffle that stops early: only the swapped elements are stored instead of the whole list.
        let mut exchanged = BTreeMap::new();
        let each = 0..count.min(of);
        each.map(|i| {
            let j = i + self.below(of - i);
            let at = |k: usize| exchanged.get(&k).copied().unwrap_or(k);
            let (here, chosen) = (at(i), at(j));
            exchanged.insert(j, here);
            chosen
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_has_no_duplicates_and_reaches_every_element() {
        let all: Vec<usize> = (0..10).collect();
        let mut dice = Dice::seeded(7);
        let mut seen = [0u32; 10];
        for _ in 0..1000 {
            let got = dice.choose(&all, 3);
            assert_eq!(got.len(), 3);
            assert!(got[0] != got[1] && got[1] != got[2] && got[0] != got[2]);
            got.iter().for_each(|&&i| seen[i] += 1);
        }
        // 300 expected each; six standard deviations are about 87.
        assert!(seen.iter().all(|&n| (213..=387).contains(&n)), "{seen:?}");
        assert_eq!(dice.choose(&all, 99).len(), 10);
        assert!(dice.choose::<u8>(&[], 3).is_empty());
    }
}
