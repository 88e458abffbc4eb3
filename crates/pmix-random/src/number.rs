// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random numbers, and open numbers of the model.

use pmix_types::{
    AllocDirective, AllocInheritance, Command, CoordView, DataRange, DataType, DeviceType,
    InfoFlags, IofChannel, JobState, LinkState, Locality, Persistence, ProcState, Rank,
    ResourceBlockDirective, Scope, Status, StorageAccessType, StorageAccessibility, StorageMedium,
    StoragePersistence,
};

use crate::random::{Random, Sample};

/// Returns any number; half of them are small or next to a power of two, where encodings change.
fn number(random: &mut Random<'_>) -> u64 {
    match random.below(9) {
        0 => random.bits(1) % 4,
        1 => random.bits(1),
        form @ 2..=5 => {
            let power = 1_u64 << random.below(64);
            match form {
                2 => power - 1,
                3 => power,
                4 => !power,
                _ => power.wrapping_neg(),
            }
        }
        6 => u64::MAX - random.bits(1) % 4,
        _ => {
            let shift = random.below(64);
            random.bits(8) >> shift
        }
    }
}

macro_rules! integers {
    ($($int:ty)*) => {
        $(impl Sample for $int {
            fn sample(random: &mut Random<'_>) -> Self {
                // The low bytes, for signed and unsigned types.
                let bytes = number(random).to_le_bytes();
                Self::from_le_bytes(std::array::from_fn(|i| bytes[i]))
            }
        })*
    };
}

integers!(u8 u16 u32 u64 i8 i16 i32 i64);

impl Sample for bool {
    fn sample(random: &mut Random<'_>) -> Self {
        random.one_in(2)
    }
}

impl Sample for () {
    fn sample(_: &mut Random<'_>) -> Self {}
}

macro_rules! open_numbers {
    ($($name:ident)*) => {
        $(impl Sample for $name {
            fn sample(random: &mut Random<'_>) -> Self {
                Self::from_raw(random.one())
            }
        })*
    };
}

open_numbers! {
    AllocDirective AllocInheritance Command CoordView DataRange DataType DeviceType InfoFlags
    IofChannel JobState LinkState Locality Persistence ProcState ResourceBlockDirective Scope
    Status StorageAccessType StorageAccessibility StorageMedium StoragePersistence
}

impl Sample for Rank {
    /// Avoids the two highest positive ranks, which are other ranks in module v12.
    fn sample(random: &mut Random<'_>) -> Self {
        let rank: u32 = random.one();
        let is_special = (0x7FFF_FFFE..=0x7FFF_FFFF).contains(&rank);
        Self::from_raw(if is_special && !random.carried.is_whole {
            0
        } else {
            rank
        })
    }
}

/// The extreme floats, and those that round at the last packed digit.
const ENDS: [f64; 9] = [
    0.0,
    -0.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    1e15,
    0.5,
    1e-6,
    1e-7,
];

fn float(random: &mut Random<'_>) -> f64 {
    // Any integer that a double can hold.
    let whole = f64::from(random.one::<i32>()) * f64::from(random.one::<u16>());
    match random.below(6) {
        0 => random.pick(&ENDS).unwrap_or_default(),
        1 => whole,
        2 => {
            let exponent = i32::try_from(random.below(600)).unwrap_or_default();
            whole * 10_f64.powi(exponent - 300)
        }
        _ => whole / f64::from(1 + random.one::<u16>() / 2),
    }
}

impl Sample for f64 {
    /// Rounds to six digits after the point, which survive packing.
    fn sample(random: &mut Random<'_>) -> Self {
        let number = float(random);
        format!("{number:.6}").parse().unwrap_or(number)
    }
}

impl Sample for f32 {
    /// Rounds to six digits after the point, which survive packing.
    #[allow(clippy::cast_possible_truncation)]
    fn sample(random: &mut Random<'_>) -> Self {
        let number = float(random) as Self;
        format!("{number:.6}").parse().unwrap_or(number)
    }
}

/// Returns a measurement with digits that survive in every form.
pub(crate) fn measure(random: &mut Random<'_>) -> f32 {
    f32::from(random.one::<u16>()) / 8.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Carried, Seeded};

    #[test]
    fn numbers_reach_the_ends_of_their_range() {
        let (mut source, carried) = (Seeded::new(1), Carried::default());
        let mut random = Random::new(&mut source, &carried);
        let all: Vec<i16> = random.many(20_000);
        for end in [0, -1, 1, 63, 64, -64, -65, i16::MIN, i16::MAX] {
            assert!(all.contains(&end), "{end}");
        }
    }

    #[test]
    fn a_float_survives_the_text_it_travels_as() {
        let (mut source, carried) = (Seeded::new(2), Carried::default());
        let mut random = Random::new(&mut source, &carried);
        for _ in 0..10_000 {
            let (wide, narrow): (f64, f32) = (random.one(), random.one());
            let back: f64 = format!("{wide:.6}").parse().unwrap();
            assert!(back.to_bits() == wide.to_bits() || wide.is_nan(), "{wide}");
            let back: f32 = format!("{narrow:.6}").parse().unwrap();
            assert!(
                back.to_bits() == narrow.to_bits() || narrow.is_nan(),
                "{narrow}"
            );
        }
    }
}
