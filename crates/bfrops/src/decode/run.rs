// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs: consecutive data of one wire type.

use pmix_types::{DataType, memory};

use super::Decoder;
use crate::wire_type::Run;
use crate::{Error, WireType, flex};

impl<'a> Decoder<'a> {
    /// Unpacks a run of consecutive data.
    pub(crate) fn run<K: WireType>(&mut self, count: usize) -> Result<Vec<K::Item<'a>>, Error> {
        let run = K::start(self)?;
        self.claim_items(count, K::MIN_LEN, size_of::<K::Item<'a>>())?;
        if matches!(K::TYPE, DataType::PROC | DataType::PROC_INFO) {
            self.claim_procs(count)?;
        }
        if matches!(K::TYPE, DataType::INFO) {
            self.claim_infos(count)?;
        }
        if self.notes.is_none() {
            return K::decode_run(self, run, count);
        }
        (0..count)
            .map(|index| self.element::<K>(run, index))
            .collect()
    }

    /// Unpacks a run of data one by one.
    pub(crate) fn one_by_one<K: WireType>(
        &mut self,
        run: Run,
        count: usize,
    ) -> Result<Vec<K::Item<'a>>, Error> {
        let mut items = memory::list(count)?;
        for _ in 0..count {
            items.push(K::decode(self, run)?);
        }
        Ok(items)
    }

    /// Unpacks a run of integers in groups of seven bits; after an error, one by one to locate it.
    pub(crate) fn flex_run<K: WireType, T: flex::Flexible>(
        &mut self,
        count: usize,
        from: impl Fn(T) -> K::Item<'a>,
    ) -> Result<Vec<K::Item<'a>>, Error> {
        let mut items = memory::list(count)?;
        let mut run = flex::Run::new(self.rest);
        let mut block = [T::default(); 64];
        while items.len() < count {
            let wanted = block.len().min(count - items.len());
            let filled = run.fill(&mut block[..wanted]);
            items.extend(block[..filled].iter().map(|number| from(*number)));
            if filled < wanted {
                break;
            }
        }
        self.rest = run.rest();
        for _ in items.len()..count {
            items.push(K::decode(self, Run::default())?);
        }
        Ok(items)
    }
}
