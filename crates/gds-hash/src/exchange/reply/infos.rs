// SPDX-License-Identifier: MIT OR Apache-2.0
//! Job information in a client: the infos with which a host would register the job.
//!
//! Source: PMIx Standard, chapter "Reserved Keys", for the arrays of each realm.

use std::borrow::Cow;

use bfrops::wire_type;
use pmix_types::memory;
use pmix_types::{DataArray, Info, Kval, Rank, Value, keys};

use crate::{Codec, Error};

/// Converts the job information from a server into the infos with which a host would register the
/// job: each `pmix.pblob` becomes a `pmix.pdata` array with the rank first. `pmix.mblob` is
/// omitted, because the arrays of nodes have the same content.
///
/// # Errors
///
/// Each damaged `pmix.pblob` gives an error with the status of the decoder and an offset in it; the
/// other data are valid.
pub fn job_infos<'a>(
    codec: &Codec<'a>,
    kvals: Vec<Kval<'a>>,
) -> impl Iterator<Item = Result<Info<'a>, Error>> {
    let kvals = kvals.into_iter();
    let kvals = kvals.filter(|kval| !kval.key.is(keys::MAP_BLOB));
    kvals.map(
        move |Kval { key, value }| match (key.is(keys::PROC_BLOB), value) {
            (true, Value::ByteObject(Cow::Borrowed(blob))) => proc_array(codec, blob),
            (_, value) => Ok(Info::new(key, value)),
        },
    )
}

/// The number of entries for which the array of a process has room at first.
const FIRST_ENTRIES: usize = 4;

/// Decodes a blob of a process: a call of its rank, then a call of `PMIX_KVAL` for each datum.
fn proc_array<'a>(codec: &Codec<'a>, blob: &'a [u8]) -> Result<Info<'a>, Error> {
    let mut reader = codec.reader(blob);
    let rank: Rank = reader.one::<wire_type::Rank>()?;
    let mut entries = memory::list(FIRST_ENTRIES)?;
    entries.push(Info::new(keys::RANK, Value::Rank(rank)));
    while !reader.is_empty() {
        let kval = reader.one::<wire_type::Kval>()?;
        memory::reserve(&mut entries, 1)?;
        entries.push(Info::new(kval.key, kval.value));
    }
    let array = Value::DataArray(DataArray::Info(entries));
    Ok(Info::new(keys::PROC_DATA, array))
}

#[cfg(test)]
mod tests {
    use bfrops::{Layout, Module};
    use pmix_types::Release;

    use super::*;
    use crate::{Job, LocalNode, Remote};

    #[test]
    fn a_client_registers_the_job_that_the_server_registered() {
        let preg = pmix_builtin::open_preg(&preg_core::Params::default()).unwrap();
        let node = LocalNode::new("n0");
        let infos = [
            Info::new(keys::NODE_MAP, "n0,n1"),
            Info::new(keys::PROC_MAP, "0,1;2"),
            Info::new("app.note", "x"),
        ];
        let job = Job::register(&preg, &node, "job", &infos).unwrap();
        let codec = Codec::new(Layout::new(Module::V41));
        let reply = job.reply(&codec, Release::V5_0_11, Remote::Whole).unwrap();
        let mut reader = codec.reader(&reply);
        reader.one::<wire_type::String>().unwrap();
        let mut kvals = Vec::new();
        while !reader.is_empty() {
            kvals.push(reader.one::<wire_type::Kval>().unwrap());
        }
        kvals.push(Kval {
            key: keys::PROC_BLOB.into(),
            value: Value::ByteObject(Cow::Borrowed(&[0xff])),
        });
        let (read, mut errors) = (job_infos(&codec, kvals), Vec::new());
        let read: Vec<_> = read
            .filter_map(|info| info.map_err(|error| errors.push(error)).ok())
            .collect();
        assert_eq!(errors.len(), 1, "{errors:?}");
        let known = Job::register(&preg, &node, "job", &read).unwrap();
        for rank in [0, 1, 2, u32::MAX - 1] {
            for key in [keys::HOSTNAME, keys::LOCAL_RANK, keys::JOB_SIZE, "app.note"] {
                let of = crate::Request::new(Rank::new(rank), key);
                assert_eq!(known.get(&of).ok(), job.get(&of).ok(), "{rank} {key}");
            }
        }
    }
}
