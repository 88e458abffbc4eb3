// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ranks as users write them: `0,2-4`.

use pmix_types::{Nspace, Proc, Rank};

/// How many processes one request may name.
const MOST: u64 = 1 << 16;

/// Ranks, as ranges of which both ends count, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranks(pub(crate) Vec<(u32, u32)>);

impl Ranks {
    /// Reads ranks such as `0,2-4`.
    ///
    /// # Errors
    ///
    /// What is wrong with the first that is none.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let rank = |text: &str| match text.trim().parse::<u32>() {
            Ok(rank) if Rank::new(rank).is_valid() => Ok(rank),
            // The Standard has other meanings for these, all processes of a job for one.
            Ok(rank) => Err(format!(
                "{rank} is no rank: the largest is {}",
                Rank::MAX_VALID
            )),
            Err(error) => Err(format!("{text:?} is no rank: {error}")),
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

    /// Reads ranks that a request is to name one by one.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse), and more than a request may name.
    pub(crate) fn parse_few(text: &str) -> Result<Self, String> {
        let ranks = Self::parse(text)?;
        let count = |(first, last): &(u32, u32)| u64::from(last.saturating_sub(*first)) + 1;
        if let Some((first, last)) = ranks.0.iter().find(|(first, last)| first > last) {
            return Err(format!("{first}-{last} is no range: its end is first"));
        }
        match ranks.0.iter().map(count).fold(0, u64::saturating_add) {
            number if number > MOST => Err(format!("{number} ranks: not more than {MOST}")),
            _ => Ok(ranks),
        }
    }

    /// The processes with these ranks, each once; all of the job if none are named.
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
            ("x", "is no rank"),
            ("1,,2", "is no rank"),
            ("3-1", "is no range"),
            ("0-4294967245", "not more than 65536"),
            ("4294967246", "the largest is 4294967245"),
            ("0,4294967294", "the largest is 4294967245"),
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
