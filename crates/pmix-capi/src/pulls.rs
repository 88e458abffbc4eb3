// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of a program that pull output of other processes.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pmix_client::Forwarded;
use pmix_types::{Bytes, Info, IofChannel, Proc, Rank, Status};

use crate::abi::*;
use crate::later::later;
use crate::memory::Result;
use crate::model::{Model, list};
use crate::record::{Record as _, empty_list};

/// A pull of output.
#[derive(Clone)]
pub(crate) struct Pull {
    /// The number that ends it at the server; none before the server has answered, and where this
    /// process is the server.
    pub(crate) remote: Option<u64>,
    pub(crate) procs: Vec<Proc<'static>>,
    pub(crate) channels: IofChannel,
    /// None has the output written to the stream of the same name.
    function: pmix_iof_cbfunc_t,
}

struct Pulls {
    last: usize,
    all: BTreeMap<usize, Pull>,
}

static PULLS: Mutex<Pulls> = Mutex::new(Pulls {
    last: 0,
    all: BTreeMap::new(),
});

fn pulls() -> MutexGuard<'static, Pulls> {
    PULLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets all pulls, with the process's last finalize.
pub(crate) fn forget_all() {
    pulls().all.clear();
}

/// Hands output that came to the function that pulls it.
pub(crate) fn output(come: Forwarded) {
    let id = usize::try_from(come.local_id).unwrap_or(0);
    let pull = pulls().all.get(&id).cloned();
    if let Some(pull) = pull {
        hand_out(
            id,
            &pull,
            come.channel,
            &come.source,
            &come.infos,
            come.data,
        );
    }
}

/// Hands output that a host delivers to the functions of this process that pull it.
fn delivered(source: &Proc<'_>, channel: IofChannel, data: &[u8], infos: &[Info<'_>]) {
    let named = |proc: &Proc<'_>| {
        proc.nspace == source.nspace && (proc.rank == source.rank || proc.rank == Rank::WILDCARD)
    };
    let wants = |pull: &Pull| pull.channels.contains(channel) && pull.procs.iter().any(named);
    let wanting: Vec<_> = {
        let pulls = pulls();
        let all = pulls.all.iter().filter(|(_, pull)| wants(pull));
        all.map(|(id, pull)| (*id, pull.clone())).collect()
    };
    for (id, pull) in wanting {
        hand_out(id, &pull, channel, source, infos, data.to_vec());
    }
}

fn hand_out(
    id: usize,
    pull: &Pull,
    channel: IofChannel,
    source: &Proc<'_>,
    infos: &[Info<'_>],
    data: Vec<u8>,
) {
    let Some(function) = pull.function else {
        let written = match channel.contains(IofChannel::STDOUT_CHANNEL) {
            true => std::io::stdout().write_all(&data),
            false => std::io::stderr().write_all(&data),
        };
        if let Err(error) = written.and_then(|()| std::io::stdout().flush()) {
            tracing::warn!("forwarded output cannot be written: {error}");
        }
        return;
    };
    let (mut at, mut count) = (list(infos).unwrap_or(std::ptr::null_mut()), infos.len());
    let made = source
        .to_c()
        .and_then(|source| Ok((source, Bytes::from(data).to_c()?)));
    match made {
        // SAFETY: C gave the function; what it sees is this call's alone.
        Ok((mut source, mut bytes)) => unsafe {
            let channel = channel.as_raw();
            function(id, channel, &raw mut source, &raw mut bytes, at, count);
            bytes.empty();
        },
        Err(status) => tracing::warn!("forwarded output is lost: {status}"),
    }
    // SAFETY: the list is ours.
    unsafe { empty_list(&mut at, &mut count) };
}

/// Keeps what the server answered a pull with; forgets the pull if it refused.
pub(crate) fn answered(id: usize, answer: &std::result::Result<Option<u64>, Status>) {
    let mut pulls = pulls();
    match answer {
        Ok(remote) => {
            if let Some(pull) = pulls.all.get_mut(&id) {
                pull.remote = *remote;
            }
        }
        Err(_) => drop(pulls.all.remove(&id)),
    }
}

/// Removes a pull, whose output is not handed out any longer; `is_own` says whether this process is
/// the server.
///
/// # Errors
///
/// `PMIX_ERR_NOT_FOUND` if there is none, and `PMIX_ERR_NOT_AVAILABLE` if the server has not answered
/// it: without its number there nothing ends it, so it stays to be removed later.
pub(crate) fn removed(id: usize, is_own: bool) -> Result<Pull> {
    let mut pulls = pulls();
    let pull = pulls.all.get(&id).ok_or(Status::ERR_NOT_FOUND)?;
    match pull.remote.is_some() || is_own {
        true => pulls.all.remove(&id).ok_or(Status::ERR_NOT_FOUND),
        false => Err(Status::ERR_NOT_AVAILABLE),
    }
}

/// Adds a pull, before its output can come.
pub(crate) fn added(
    procs: &[Proc<'static>],
    channels: IofChannel,
    function: pmix_iof_cbfunc_t,
) -> usize {
    let mut pulls = pulls();
    pulls.last += 1;
    let id = pulls.last;
    let pull = Pull {
        remote: None,
        procs: procs.to_vec(),
        channels,
        function,
    };
    pulls.all.insert(id, pull);
    id
}

/// Hands what a host delivers to the functions of this process, on the thread that calls back.
pub(crate) fn deliver_here(
    source: Proc<'static>,
    channel: IofChannel,
    data: Vec<u8>,
    infos: Vec<Info<'static>>,
) {
    if pulls().all.is_empty() {
        return;
    }
    if later(move || delivered(&source, channel, &data, &infos)).is_err() {
        tracing::warn!("output is lost: there is no thread");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_that_the_server_has_not_answered_stays() {
        let procs = [Proc::new("job", Rank::WILDCARD)];
        let id = added(&procs, IofChannel::STDOUT_CHANNEL, None);
        let refused = removed(id, false).map(|pull| pull.remote);
        assert_eq!(refused, Err(Status::ERR_NOT_AVAILABLE));
        answered(id, &Ok(Some(7)));
        assert_eq!(removed(id, false).map(|pull| pull.remote), Ok(Some(7)));
        let gone = removed(id, false).map(|pull| pull.remote);
        assert_eq!(gone, Err(Status::ERR_NOT_FOUND));
        // A process that is the server needs no number.
        let id = added(&procs, IofChannel::STDOUT_CHANNEL, None);
        assert_eq!(removed(id, true).map(|pull| pull.remote), Ok(None));
    }
}
