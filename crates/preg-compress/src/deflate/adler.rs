// SPDX-License-Identifier: MIT OR Apache-2.0
//! The checksum of a zlib stream (RFC 1950, section 9).

const MODULUS: u32 = 65_521;
/// The maximum number of bytes for which the sums do not overflow 32 bits.
const MOST: usize = 5552;
const LANES: usize = 16;

/// Returns the Adler-32 checksum of the bytes.
pub(super) fn adler32(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    for part in bytes.chunks(MOST) {
        let (rows, rest) = part.as_chunks::<LANES>();
        // Each of sixteen lanes sums every sixteenth byte, and sums those sums. The weights of the
        // lanes are applied at the end, so the inner loop has only additions.
        let (mut sums, mut sums_of_sums) = ([0_u32; LANES], [0_u32; LANES]);
        for row in rows {
            for lane in 0..LANES {
                sums_of_sums[lane] += sums[lane];
                sums[lane] += u32::from(row[lane]);
            }
        }
        b += a * (rows.len() * LANES) as u32;
        for lane in 0..LANES {
            b += sums_of_sums[lane] * LANES as u32 + sums[lane] * (LANES - lane) as u32;
            a += sums[lane];
            b %= MODULUS;
        }
        for byte in rest {
            a += u32::from(*byte);
            b += a;
        }
        a %= MODULUS;
        b %= MODULUS;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_agree_with_the_definition() {
        let simple = |bytes: &[u8]| {
            let step = |(a, b): (u64, u64), byte: &u8| {
                let a = (a + u64::from(*byte)) % 65_521;
                (a, (b + a) % 65_521)
            };
            let (a, b) = bytes.iter().fold((1, 0), step);
            u32::try_from(b << 16 | a).unwrap()
        };
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
        assert_eq!(adler32(b""), 1);
        for len in [1, 15, 16, 17, 5551, 5552, 5553, 100_000] {
            let worst = vec![255; len];
            assert_eq!(adler32(&worst), simple(&worst), "{len}");
            let mixed: Vec<_> = (0..len).map(|n| (n % 251) as u8).collect();
            assert_eq!(adler32(&mixed), simple(&mixed), "{len}");
        }
    }
}
