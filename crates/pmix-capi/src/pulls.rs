// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions of a program that pull output of other processes.

mod directives;
mod shown;
mod streams;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pmix_client::Forwarded;
use pmix_proto::LOST_OUTPUT;
use pmix_types::{Bytes, Info, IofChannel, Proc, Rank, Status};

use crate::abi::*;
use crate::later::later;
use crate::memory::Result;
use crate::model::{Model, counted};
use crate::per_process::PerProcess;
use crate::record::{Record as _, empty_list};
use crate::state::client;

pub(crate) use self::directives::{Abilities, Directives};
use self::streams::{Output, Streams};

/// A pull of output.
pub(crate) struct Pull {
    /// The number that ends it at the server; none before the server has answered, and where this
    /// process is the server.
    pub(crate) remote: Option<u64>,
    pub(crate) procs: Vec<Proc<'static>>,
    pub(crate) channels: IofChannel,
    /// None has the output written to the stream of the same name.
    function: pmix_iof_cbfunc_t,
    /// Holds the output of each stream that has not been handed out yet.
    streams: Streams,
    losses: Losses,
}

/// What the log says of output that was lost: at the first loss, and each time that it is twice as much as was said
/// last, so that a process that never keeps up does not fill the log.
#[derive(Default)]
struct Losses {
    /// How much was said last.
    said: u64,
}

impl Losses {
    /// So much is lost so far. Whether that is to be said.
    fn is_said(&mut self, lost: u64) -> bool {
        let is_said = lost > 0 && (self.said == 0 || lost / 2 >= self.said);
        if is_said {
            self.said = lost;
        }
        is_said
    }
}

#[derive(Default)]
struct Pulls {
    last: usize,
    all: BTreeMap<usize, Pull>,
}

static PULLS: PerProcess<Mutex<Pulls>> = PerProcess::new(Mutex::new(Pulls {
    last: 0,
    all: BTreeMap::new(),
}));

fn pulls() -> MutexGuard<'static, Pulls> {
    PULLS.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets all pulls, with the process's last finalize. What this library shows and was not a whole line is shown
/// now; no function is called any more.
pub(crate) fn forget_all() {
    let all = std::mem::take(&mut pulls().all);
    for (id, mut pull) in all {
        if pull.function.is_none() {
            hand_out(id, None, pull.streams.end());
        }
    }
}

/// Hands output that came to the function that pulls it.
pub(crate) fn output(mut come: Forwarded) {
    let id = usize::try_from(come.local_id).unwrap_or(0);
    if let Some(lost) = taken_loss(&mut come.infos)
        && pulls()
            .all
            .get_mut(&id)
            .is_some_and(|pull| pull.losses.is_said(lost))
    {
        tracing::warn!(
            "{lost} pieces of output of pull {id} were lost because this process did not read them in time"
        );
    }
    take(
        id,
        Output {
            source: come.source,
            channel: come.channel,
            infos: come.infos,
            data: come.data,
        },
    );
}

/// Takes away how much was lost of a pull, which a server of this project says when it is more than before. A program
/// is handed what the Standard names: this is for the log.
fn taken_loss(infos: &mut Vec<Info<'static>>) -> Option<u64> {
    let mut lost = None;
    infos.retain(|info| {
        let says_loss = info.key.is(LOST_OUTPUT);
        if says_loss {
            lost = info.value.to_number().ok();
        }
        !says_loss
    });
    lost
}

/// Takes output of a pull, and hands out what is not kept of it.
fn take(id: usize, come: Output) {
    let (function, due, time) = {
        let mut pulls = pulls();
        let Some(pull) = pulls.all.get_mut(&id) else {
            return;
        };
        let due = pull.streams.take(come);
        (pull.function, due, pull.streams.timer())
    };
    if let Some(time) = time {
        flush_after(id, time);
    }
    hand_out(id, function, due);
}

/// Hands out what is gathered by a pull when so much time has passed.
fn flush_after(id: usize, time: Duration) {
    let due = Instant::now().checked_add(time);
    let flush = move || {
        let mut pulls = pulls();
        let Some(pull) = pulls.all.get_mut(&id) else {
            return;
        };
        let (function, due) = (pull.function, pull.streams.flush());
        drop(pulls);
        hand_out(id, function, due);
    };
    let begun = match (due, client()) {
        (Some(due), Ok(client)) => client.later_at(due, flush).is_ok(),
        // It is longer than any clock runs.
        (None, _) => true,
        (_, Err(_)) => false,
    };
    if !begun {
        tracing::warn!(
            "cannot start a thread that delivers gathered output; waiting for more output"
        );
    }
}

/// Hands output that a host delivers to the functions of this process that pull it.
fn delivered(source: &Proc<'static>, channel: IofChannel, data: &[u8], infos: &[Info<'static>]) {
    let named = |proc: &Proc<'_>| {
        proc.nspace == source.nspace && (proc.rank == source.rank || proc.rank == Rank::WILDCARD)
    };
    let wants = |pull: &Pull| pull.channels.contains(channel) && pull.procs.iter().any(named);
    let wanting: Vec<_> = {
        let pulls = pulls();
        let all = pulls.all.iter().filter(|(_, pull)| wants(pull));
        all.map(|(id, _)| *id).collect()
    };
    for id in wanting {
        take(
            id,
            Output {
                source: source.clone(),
                channel,
                infos: infos.to_vec(),
                data: data.to_vec(),
            },
        );
    }
}

fn hand_out(id: usize, function: pmix_iof_cbfunc_t, outputs: Vec<Output>) {
    for output in outputs {
        match function {
            Some(_) => call(id, function, output),
            None => show(&output),
        }
    }
}

/// Writes output to the stream of the same name.
fn show(output: &Output) {
    let written = match output.channel.contains(IofChannel::STDOUT_CHANNEL) {
        true => std::io::stdout().write_all(&output.data),
        false => std::io::stderr().write_all(&output.data),
    };
    if let Err(error) = written.and_then(|()| std::io::stdout().flush()) {
        tracing::warn!("cannot write forwarded output: {error}");
    }
}

fn call(id: usize, function: pmix_iof_cbfunc_t, output: Output) {
    let Some(function) = function else { return };
    let infos = &output.infos;
    let lost = |status| tracing::warn!("forwarded output is lost: {status}");
    let (mut at, mut count) = match counted(infos) {
        Ok(listed) => listed,
        Err(status) => return lost(status),
    };
    let made =
        { output.source.to_c() }.and_then(|source| Ok((source, Bytes::from(output.data).to_c()?)));
    match made {
        // SAFETY: the caller of `PMIx_IOF_pull` gave the function; its arguments belong to this call.
        Ok((mut source, mut bytes)) => unsafe {
            let channel = output.channel.as_raw();
            function(id, channel, &raw mut source, &raw mut bytes, at, count);
            bytes.empty();
        },
        Err(status) => lost(status),
    }
    // SAFETY: the list was made here.
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

/// Removes a pull, whose output is not handed out any longer but for what was kept of it, which is handed out by the
/// thread that calls back; `is_own` says whether this process is
/// the server.
///
/// # Errors
///
/// `PMIX_ERR_NOT_FOUND` if there is none, and `PMIX_ERR_NOT_AVAILABLE` if the server has not answered
/// it: without its number there nothing ends it, so it stays to be removed later.
pub(crate) fn removed(id: usize, is_own: bool) -> Result<Pull> {
    let mut pulls = pulls();
    let pull = pulls.all.get(&id).ok_or(Status::ERR_NOT_FOUND)?;
    if pull.remote.is_none() && !is_own {
        return Err(Status::ERR_NOT_AVAILABLE);
    }
    let mut pull = pulls.all.remove(&id).ok_or(Status::ERR_NOT_FOUND)?;
    drop(pulls);
    let (function, kept) = (pull.function, pull.streams.end());
    if !kept.is_empty() && later(move || hand_out(id, function, kept)).is_err() {
        tracing::warn!("gathered output is lost: cannot start a thread that delivers it");
    }
    Ok(pull)
}

/// Adds a pull, before its output can come.
pub(crate) fn added(
    procs: &[Proc<'static>],
    channels: IofChannel,
    function: pmix_iof_cbfunc_t,
    directives: Directives,
) -> usize {
    let mut pulls = pulls();
    pulls.last += 1;
    let id = pulls.last;
    let pull = Pull {
        remote: None,
        procs: procs.to_vec(),
        channels,
        function,
        streams: Streams::new(directives),
        losses: Losses::default(),
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
        tracing::warn!("output is lost: cannot start a thread that delivers it");
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::keys;

    use super::*;

    #[test]
    fn what_a_program_is_handed_does_not_say_how_much_was_lost() {
        let tag = Info::new(keys::IOF_TAG_OUTPUT, true);
        let mut infos = vec![tag.clone(), Info::new(LOST_OUTPUT, 7u64)];
        assert_eq!(taken_loss(&mut infos), Some(7));
        assert_eq!(infos, std::slice::from_ref(&tag));
        assert_eq!(taken_loss(&mut infos), None);
        // What a server says that is no number is not handed on either.
        let mut infos = vec![Info::new(LOST_OUTPUT, "many"), tag.clone()];
        assert_eq!(taken_loss(&mut infos), None);
        assert_eq!(infos, [tag]);
    }

    #[test]
    fn losses_are_said_at_the_first_and_when_they_have_doubled() {
        let mut losses = Losses::default();
        let said: Vec<u64> = (0..=1000).filter(|lost| losses.is_said(*lost)).collect();
        assert_eq!(said, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        // A server that starts anew at a smaller number, or says the most there is.
        assert!(!losses.is_said(3));
        assert!(losses.is_said(u64::MAX));
        assert!(!losses.is_said(u64::MAX));
        let mut many = Losses::default();
        assert!(many.is_said(300) && !many.is_said(599) && many.is_said(600));
    }

    #[test]
    fn a_pull_that_the_server_has_not_answered_stays() {
        let procs = [Proc::new("job", Rank::WILDCARD)];
        let id = added(
            &procs,
            IofChannel::STDOUT_CHANNEL,
            None,
            Directives::default(),
        );
        let refused = removed(id, false).map(|pull| pull.remote);
        assert_eq!(refused, Err(Status::ERR_NOT_AVAILABLE));
        answered(id, &Ok(Some(7)));
        assert_eq!(removed(id, false).map(|pull| pull.remote), Ok(Some(7)));
        let gone = removed(id, false).map(|pull| pull.remote);
        assert_eq!(gone, Err(Status::ERR_NOT_FOUND));
        // A process that is the server needs no number.
        let id = added(
            &procs,
            IofChannel::STDOUT_CHANNEL,
            None,
            Directives::default(),
        );
        assert_eq!(removed(id, true).map(|pull| pull.remote), Ok(None));
    }
}
