// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: keys, namespaces, ranks and processes.

use std::ffi::c_char;

use pmix_types::{Key, Nspace, Rank};

use crate::abi::*;
use crate::args::{self, Array, In, Maybe, Mut, Out, OutChars, Place};
use crate::guard::exported;
use crate::memory::{Result, fill};

/// Fills the array of a caller, if there is one.
fn fill_place<const N: usize>(place: Option<Place<'_, [c_char; N]>>, from: &[u8]) -> Result<()> {
    let Some(place) = place else { return Ok(()) };
    let mut chars = [0; N];
    fill(&mut chars, from);
    place.write(chars);
    Ok(())
}

/// Loads the name of a process, if there is a place for it.
fn load(place: Option<Place<'_, pmix_proc_t>>, name: Option<&[u8]>, rank: Rank) -> Result<()> {
    let Some(place) = place else { return Ok(()) };
    let mut proc = pmix_proc_t {
        nspace: [0; 256],
        rank: rank.as_raw(),
    };
    fill(&mut proc.nspace, name.unwrap_or_default());
    place.write(proc);
    Ok(())
}

exported! {
    fn PMIx_Load_key(key: Maybe<OutChars<512>>, src: Maybe<Array<512>>) {
        fill_place(key, src.unwrap_or_default())
    }

    fn PMIx_Load_nspace(nspace: Maybe<OutChars<256>>, str: Maybe<Array<256>>) {
        fill_place(nspace, str.unwrap_or_default())
    }

    fn PMIx_Load_procid(p: Maybe<Out<pmix_proc_t>>, ns: Maybe<Array<256>>, rk: Rank) {
        load(p, ns, rk)
    }

    fn PMIx_Proc_load(p: Maybe<Out<pmix_proc_t>>, nspace: Maybe<Array<256>>, rank: Rank) {
        load(p, nspace, rank)
    }

    fn PMIx_Xfer_procid(dst: Out<pmix_proc_t>, src: In<pmix_proc_t>) {
        let copy = *src;
        dst.write(copy);
        Ok(())
    }

    fn PMIx_Check_key(key: Array<512>, str: Array<512>) -> bool {
        Ok(Key::from(key).is(str))
    }

    fn PMIx_Check_reserved_key(key: Array<512>) -> bool {
        Ok(Key::from(key).is_reserved())
    }

    fn PMIx_Check_nspace(key1: args::Nspace, key2: args::Nspace) -> bool {
        Ok(key1.matches(&key2))
    }

    fn PMIx_Check_nspace_strict(key1: Maybe<args::Nspace>, key2: Maybe<args::Nspace>) -> bool {
        Ok(key1.zip(key2).is_some_and(|(one, other)| one.is_same(&other)))
    }

    fn PMIx_Nspace_invalid(nspace: Maybe<Array<1>>) -> bool {
        Ok(nspace.is_none_or(<[u8]>::is_empty))
    }

    fn PMIx_Check_rank(a: Rank, b: Rank) -> bool {
        Ok(a.matches(b))
    }

    fn PMIx_Rank_valid(a: Rank) -> bool {
        Ok(a < Rank::MAX_VALID)
    }

    fn PMIx_Check_procid(a: args::Proc, b: args::Proc) -> bool {
        Ok(a.matches(&b))
    }

    fn PMIx_Check_procid_strict(a: Maybe<args::Proc>, b: Maybe<args::Proc>) -> bool {
        Ok(a.zip(b).is_some_and(|(one, other)| one.is_same(&other)))
    }

    fn PMIx_Procid_invalid(p: Maybe<args::Proc>) -> bool {
        Ok(p.is_none_or(|proc| proc.is_invalid()))
    }

    fn PMIx_Multicluster_nspace_construct(target: Maybe<OutChars<256>>, cluster: args::Nspace<Mut>, nspace: args::Nspace<Mut>) {
        let joined = Nspace::of_cluster(&cluster, &nspace);
        fill_place(target, joined.unwrap_or_default().as_bytes())
    }

    fn PMIx_Multicluster_nspace_parse(target: args::Nspace<Mut>, cluster: Maybe<OutChars<256>>, nspace: Maybe<OutChars<256>>) {
        let (first, second) = target.split_cluster();
        fill_place(cluster, first.as_bytes())?;
        fill_place(nspace, second.as_bytes())
    }
}
