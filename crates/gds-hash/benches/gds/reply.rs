// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time to pack the job info for a client, and to return the packed job info again.

use std::hint::black_box;

use bfrops::{Layout, Module};
use gds_hash::{Codec, Remote, Store};
use pmix_types::Release;

use crate::{Fault, TOGETHER, nspace, show, timed};

/// The number of times that the job info is packed.
const BUILT: usize = 200;

/// Prints `reply`, `reply_shared` and `reply_bytes` for clients of a release.
pub(crate) fn time(store: &Store, release: &str) -> Result<(), Fault> {
    let mut releases = Release::ALL.into_iter();
    let release = releases
        .find(|known| known.as_str() == release)
        .ok_or_else(|| format!("no release {release}"))?;
    let known = store.job(&nspace()).ok_or("the job is not registered")?;
    let codec = Codec::new(Layout::new(Module::V41));
    let mut built = Vec::new();
    for _ in 0..BUILT {
        let (reply, took) = timed(|| known.job().reply(&codec, release, Remote::Whole));
        reply?;
        built.push(took);
    }
    show("reply", built);

    let first = known.reply(&codec, release, Remote::Whole)?;
    let mut shared = Vec::new();
    for _ in 0..BUILT {
        let (again, took) = timed(|| {
            let mut turns = 0..TOGETHER;
            turns.try_for_each(|_| {
                known
                    .reply(&codec, release, Remote::Whole)
                    .map(|r| drop(black_box(r)))
            })
        });
        again?;
        shared.push(took / f64::from(TOGETHER));
    }
    show("reply_shared", shared);
    println!("reply_bytes {} {0}", first.len());
    Ok(())
}
