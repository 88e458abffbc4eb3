// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parsing of lists of ranks such as `0,2-4`.

use pmix_types::{Nspace, Proc, Rank};

/// Maximum number of processes in one request.
const MOST: u64 = 1 << 16;

/// Ranges of ranks, both ends included, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranks(pub(crate) Vec<(u32, u32)>);

impl Ranks {
    /// Parses ranks such as `0,2-4`.
    ///
    /// # Errors
    ///
    /// A description of the first invalid rank.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let rank = |text: &str| match text.trim().parse::<u32>() {
            Ok(rank) if Rank::new(rank).is_valid() => Ok(rank),
            // The Standard reserves these values, for example `PMIX_RANK_WILDCARD`.
            Ok(rank) => Err(format!(
                "{rank} is not a valid rank: the largest rank is {}",
                Rank::MAX_VALID
            )),
            Err(error) => Err(format!("{text:?} is not a rank: {error}")),
        };
        let range = |range: &str| match range.split_once('-') {
            Some((first, last)) => Ok((rank(first)?, rank(last)?)),
            None => rank(range).map(|rank| (rank, rank)),
        };
        let ranks: Result<Vec<_>, String> = text.split(',').map(range).collect();
        let mut ranks = ranks?;
        ranks.sort_unstable();
        Ok(Self(ranks))
    }

    /// Parses ranks for a request that names each process.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse), and if there are more than [`MOST`] ranks or a range is reversed.
    pub(crate) fn parse_few(text: &str) -> Result<Self, String> {
        let ranks = Self::parse(text)?;
        let count = |(first, last): &(u32, u32)| u64::from(last.saturating_sub(*first)) + 1;
        if let Some((first, last)) = ranks.0.iter().find(|(first, last)| first > last) {
            return Err(format!(
                "invalid range {first}-{last}: its start is above its end"
            ));
        }
        match ranks.0.iter().map(count).fold(0, u64::saturating_add) {
            number if number > MOST => {
                Err(format!("{number} ranks given, at most {MOST} are possible"))
            }
            _ => Ok(ranks),
        }
    }

    /// Returns the processes with these ranks, each once, or the wildcard of the job for `None`.
    pub(crate) fn procs(ranks: Option<&Self>, nspace: &str) -> Vec<Proc<'static>> {
        let nspace = Nspace::new(nspace.to_owned()).to_shared();
        let Some(Self(ranges)) = ranks else {
            return vec![Proc::new(nspace, Rank::WILDCARD)];
        };
        let ranks = ranges.iter().flat_map(|(first, last)| *first..=*last);
        let mut ranks: Vec<_> = ranks.collect();
        ranks.sort_unstable();
        ranks.dedup();
        let proc = |rank| Proc::new(nspace.clone(), Rank::new(rank));
        ranks.into_iter().map(proc).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_numbers_and_ranges() {
        assert_eq!(
            Ranks::parse("4-5, 0,2").unwrap().0,
            [(0, 0), (2, 2), (4, 5)]
        );
        for (text, why) in [
            ("x", "is not a rank"),
            ("1,,2", "is not a rank"),
            ("3-1", "invalid range 3-1"),
            ("0-4294967245", "at most 65536"),
            ("4294967246", "the largest rank is 4294967245"),
            ("0,4294967294", "the largest rank is 4294967245"),
        ] {
            let error = Ranks::parse_few(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let ranks = Ranks::parse_few("0-2,1-2").unwrap();
        let procs = Ranks::procs(Some(&ranks), "job");
        let ranks: Vec<_> = procs.iter().map(|proc| proc.rank.as_raw()).collect();
        assert_eq!(ranks, [0, 1, 2]);
        assert_eq!(Ranks::procs(None, "job")[0].rank, Rank::WILDCARD);
    }
}
