// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lattices of numbers: the folded form of node lists and process maps.
//!
//! A lattice is a first number and dimensions, innermost first: `first + Σ i·step` with every `i`
//! below its `count`, the innermost varying fastest. Only lattices that *nest* are kept: each step
//! must exceed the combined reach of all dimensions with smaller steps. Then a number has only one
//! place on the lattice, and divisions find it. Dimensions with a step of zero (repetitions) are
//! ignored: the first place of a number counts. Numbers have at most 18 digits, so that sums of a
//! few of them never overflow.

/// The maximum number of dimensions of a lattice. Names of Cray nodes (xnames) need five.
pub(crate) const MAX_DIMS: usize = 8;

/// A dimension: the count of numbers, and the step from each to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dim {
    pub(crate) count: u64,
    pub(crate) step: i64,
}

impl Dim {
    /// Returns the distance between the first and the last number. It is exact for all numbers that
    /// a map accepts.
    fn reach(self) -> u64 {
        self.step
            .unsigned_abs()
            .saturating_mul(self.count.saturating_sub(1))
    }
}

/// The dimensions with more than one distinct number, largest step first.
struct Sorted {
    /// Each dimension as the absolute step, the count, `true` for a negative step, and the number
    /// of places per step.
    dims: [(u64, u64, bool, u64); MAX_DIMS],
    len: usize,
}

impl Sorted {
    fn new(dims: &[Dim]) -> Self {
        let mut sorted = Self {
            dims: [(0, 0, false, 0); MAX_DIMS],
            len: 0,
        };
        let mut weight = 1u64;
        for dim in dims.iter().take(MAX_DIMS) {
            if dim.step != 0 && dim.count > 1 {
                sorted.insert((dim.step.unsigned_abs(), dim.count, dim.step < 0, weight));
            }
            weight = weight.saturating_mul(dim.count);
        }
        sorted
    }

    fn insert(&mut self, dim: (u64, u64, bool, u64)) {
        let mut at = self.len;
        while at > 0 && self.dims[at - 1].0 < dim.0 {
            self.dims[at] = self.dims[at - 1];
            at -= 1;
        }
        self.dims[at] = dim;
        self.len += 1;
    }

    fn as_slice(&self) -> &[(u64, u64, bool, u64)] {
        &self.dims[..self.len]
    }
}

/// Returns `true` if every number of the lattice has only one place, apart from repetitions.
pub(crate) fn nests(dims: &[Dim]) -> bool {
    if dims.len() > MAX_DIMS {
        return false;
    }
    // In most lists, steps increase from the innermost dimension outward. These need no sorting.
    let mut reach = 0u64;
    let sorted = dims.iter().all(|dim| {
        let fits = dim.step.unsigned_abs() > reach;
        reach = reach.saturating_add(dim.reach());
        fits
    });
    if sorted {
        return true;
    }
    reach = 0;
    for (step, count, _, _) in Sorted::new(dims).as_slice().iter().rev() {
        if *step <= reach {
            return false;
        }
        reach = reach.saturating_add(step.saturating_mul(count - 1));
    }
    true
}

/// Returns the number of places of the lattice.
pub(crate) fn len(dims: &[Dim]) -> u64 {
    dims.iter().fold(1, |n, d| n.saturating_mul(d.count))
}

/// Returns the number at a place, counted from zero.
pub(crate) fn number(first: i64, dims: &[Dim], mut place: u64) -> i64 {
    let mut number = first;
    for dim in dims {
        let i = place % dim.count;
        place /= dim.count;
        number = number.wrapping_add(dim.step.wrapping_mul(i.cast_signed()));
    }
    number
}

/// Returns the smallest and the largest number.
pub(crate) fn bounds(first: i64, dims: &[Dim]) -> (i64, i64) {
    let (mut low, mut high) = (first, first);
    for dim in dims {
        let reach = dim.reach().cast_signed();
        if dim.step < 0 {
            low = low.wrapping_sub(reach);
        } else {
            high = high.wrapping_add(reach);
        }
    }
    (low, high)
}

/// Returns the first place of a number on the lattice, which must nest.
pub(crate) fn place(first: i64, dims: &[Dim], number: i64) -> Option<u64> {
    let (low, high) = bounds(first, dims);
    if number < low || number > high {
        return None;
    }
    let mut left = number.abs_diff(low);
    let mut place = 0;
    for (step, count, down, weight) in Sorted::new(dims).as_slice() {
        let i = left / step;
        if i >= *count {
            return None;
        }
        left -= i * step;
        place += weight * if *down { count - 1 - i } else { i };
    }
    (left == 0).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dim(count: u64, step: i64) -> Dim {
        Dim { count, step }
    }

    #[test]
    fn every_number_of_a_nested_lattice_is_found_at_its_place() {
        let cases: [&[Dim]; 6] = [
            &[],
            &[dim(5, 1)],
            &[dim(5, -3), dim(4, 100)],
            &[dim(3, 100), dim(10, -2), dim(2, 1000)],
            &[dim(2, 1), dim(3, 0), dim(4, 2)],
            &[dim(1, 7), dim(2, 10)],
        ];
        for dims in cases {
            assert!(nests(dims), "{dims:?}");
            let all: Vec<_> = (0..len(dims)).map(|i| number(5000, dims, i)).collect();
            let (low, high) = bounds(5000, dims);
            assert_eq!(
                (low, high),
                (*all.iter().min().unwrap(), *all.iter().max().unwrap())
            );
            for probe in low - 3..=high + 3 {
                let naive = all.iter().position(|n| *n == probe).map(|i| i as u64);
                assert_eq!(place(5000, dims, probe), naive, "{probe} in {dims:?}");
            }
        }
    }

    #[test]
    fn dimensions_that_overlap_do_not_nest() {
        assert!(!nests(&[dim(5, 1), dim(3, 4)]));
        assert!(!nests(&[dim(2, 1), dim(2, -1)]));
        assert!(!nests(&[dim(11, 10), dim(2, 100)]));
        assert!(nests(&[dim(10, 10), dim(2, 100)]));
    }
}
