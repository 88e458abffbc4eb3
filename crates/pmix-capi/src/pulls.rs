// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output pulls of a program (`PMIx_IOF_pull`).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pmix_client::Forwarded;
use pmix_proto::LOST_OUTPUT;
use pmix_tool::pull::{Directives, Output, Streams};
use pmix_types::{Bytes, Info, IofChannel, Proc, Rank, Status};

use crate::abi::*;
use crate::later::later;
use crate::memory::{self, Result};
use crate::owned::CArray;
use crate::per_process::PerProcess;
use crate::state::client;

/// An output pull.
pub(crate) struct Pull {
    /// The number by which the server knows the pull; `None` until the server replies, and if this process is the
    /// server.
    pub(crate) remote: Option<u64>,
    pub(crate) procs: Vec<Proc<'static>>,
    pub(crate) channels: IofChannel,
    /// The callback; NULL writes the output to the standard stream of the same name.
    function: pmix_iof_cbfunc_t,
    /// The output of each stream that has not been delivered.
    streams: Streams,
    losses: Losses,
}

/// The state of the log messages about lost output. A loss is logged first, and again each time that it has doubled,
/// so that a process that is too slow does not fill the log.
#[derive(Default)]
struct Losses {
    /// The loss that was logged last.
    logged: u64,
}

impl Losses {
    /// Returns `true` if the total loss `lost` must be logged.
    fn is_logged(&mut self, lost: u64) -> bool {
        let is_logged = lost > 0 && (self.logged == 0 || lost / 2 >= self.logged);
        if is_logged {
            self.logged = lost;
        }
        is_logged
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

/// Drops all pulls, in the last finalize of the process. Writes partial lines of pulls without a callback; callbacks
/// are no longer called.
pub(crate) fn forget_all() {
    let all = std::mem::take(&mut pulls().all);
    for (id, mut pull) in all {
        if pull.function.is_none() {
            deliver_outputs(id, None, pull.streams.end());
        }
    }
}

/// Delivers output from the server to its pull.
pub(crate) fn deliver(mut output: Forwarded) {
    let id = usize::try_from(output.local_id).unwrap_or(0);
    if let Some(lost) = take_loss(&mut output.infos)
        && pulls()
            .all
            .get_mut(&id)
            .is_some_and(|pull| pull.losses.is_logged(lost))
    {
        tracing::warn!(
            "{lost} pieces of output of pull {id} were lost because this process did not read them in time"
        );
    }
    buffer(
        id,
        Output {
            source: output.source,
            channel: output.channel,
            infos: output.infos,
            data: output.data,
        },
    );
}

/// Removes the count of lost output from the infos and returns it. Servers of this project send it when it has grown.
/// It is for the log only: the program receives the attributes of the Standard.
fn take_loss(infos: &mut Vec<Info<'static>>) -> Option<u64> {
    let mut lost = None;
    infos.retain(|info| {
        let is_loss = info.key.is(LOST_OUTPUT);
        if is_loss {
            lost = info.value.to_number().ok();
        }
        !is_loss
    });
    lost
}

/// Adds output to a pull, and delivers all of it that is not buffered.
fn buffer(id: usize, output: Output) {
    let (function, due, time) = {
        let mut pulls = pulls();
        let Some(pull) = pulls.all.get_mut(&id) else {
            return;
        };
        let due = pull.streams.push(output);
        (pull.function, due, pull.streams.timer())
    };
    if let Some(time) = time {
        flush_after(id, time);
    }
    deliver_outputs(id, function, due);
}

/// Delivers the buffered output of a pull after `time`.
fn flush_after(id: usize, time: Duration) {
    let due = Instant::now().checked_add(time);
    let flush = move || {
        let mut pulls = pulls();
        let Some(pull) = pulls.all.get_mut(&id) else {
            return;
        };
        let (function, due) = (pull.function, pull.streams.flush());
        drop(pulls);
        deliver_outputs(id, function, due);
    };
    let begun = match (due, client()) {
        (Some(due), Ok(client)) => client.later_at(due, flush).is_ok(),
        // The time is beyond the range of the clock, so the output is never due.
        (None, _) => true,
        (_, Err(_)) => false,
    };
    if !begun {
        tracing::warn!(
            "cannot start a thread that delivers gathered output; waiting for more output"
        );
    }
}

/// Delivers output from the host to all pulls of this process that match it.
fn deliver_from_host(
    source: &Proc<'static>,
    channel: IofChannel,
    data: &[u8],
    infos: &Vec<Info<'static>>,
) {
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
        let copies = memory::copied(data).and_then(|data| Ok((data, memory::cloned(infos)?)));
        let Ok((data, infos)) = copies else {
            tracing::warn!("output is lost: the process has no memory for it");
            return;
        };
        let source = source.clone();
        let output = Output {
            source,
            channel,
            infos,
            data,
        };
        buffer(id, output);
    }
}

fn deliver_outputs(id: usize, function: pmix_iof_cbfunc_t, outputs: Vec<Output>) {
    for output in outputs {
        match function {
            Some(_) => call(id, function, output),
            None => print(&output),
        }
    }
}

/// Writes output to the standard stream of the same name.
fn print(output: &Output) {
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
    let channel = output.channel.as_raw();
    let convert = || {
        let infos = CArray::of(&output.infos)?;
        let source = CArray::of(std::slice::from_ref(&output.source))?;
        let bytes = CArray::of(&[Bytes::from(output.data)])?;
        Ok((source, bytes, infos))
    };
    match convert() {
        // SAFETY: the program passed this function to `PMIx_IOF_pull`, and the arguments are valid until it returns.
        Ok((source, bytes, infos)) => unsafe {
            let (source, bytes) = (source.as_mut_ptr(), bytes.as_mut_ptr());
            function(id, channel, source, bytes, infos.as_mut_ptr(), infos.len());
        },
        Err(status) => {
            let _: Status = status;
            tracing::warn!("forwarded output is lost: {status}");
        }
    }
}

/// Stores the number that the server assigned to a pull; drops the pull if the server rejected it.
pub(crate) fn handle_reply(id: usize, answer: &std::result::Result<Option<u64>, Status>) {
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

/// Removes a pull, which delivers no new output. Buffered output is delivered by the thread that runs callbacks.
/// `is_own` is `true` if this process is the server.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOT_FOUND` if there is no such pull. Returns `PMIX_ERR_NOT_AVAILABLE` if the server has not
/// replied yet: without its number the pull cannot be ended, so it stays and may be removed later.
pub(crate) fn remove(id: usize, is_own: bool) -> Result<Pull> {
    let mut pulls = pulls();
    let pull = pulls.all.get(&id).ok_or(Status::ERR_NOT_FOUND)?;
    if pull.remote.is_none() && !is_own {
        return Err(Status::ERR_NOT_AVAILABLE);
    }
    let mut pull = pulls.all.remove(&id).ok_or(Status::ERR_NOT_FOUND)?;
    drop(pulls);
    let (function, kept) = (pull.function, pull.streams.end());
    if !kept.is_empty() && later(move || deliver_outputs(id, function, kept)).is_err() {
        tracing::warn!("gathered output is lost: cannot start a thread that delivers it");
    }
    Ok(pull)
}

/// Adds a pull. Must be called before the request, so that no output arrives earlier.
///
/// # Errors
///
/// Returns `PMIX_ERR_NOMEM` if there is no memory for the list of processes.
pub(crate) fn add(
    procs: &[Proc<'static>],
    channels: IofChannel,
    function: pmix_iof_cbfunc_t,
    directives: Directives,
) -> Result<usize> {
    let mut own = memory::list_for(procs.len())?;
    own.extend_from_slice(procs);
    let mut pulls = pulls();
    pulls.last += 1;
    let id = pulls.last;
    let pull = Pull {
        remote: None,
        procs: own,
        channels,
        function,
        streams: Streams::new(directives),
        losses: Losses::default(),
    };
    pulls.all.insert(id, pull);
    Ok(id)
}

/// Delivers output from the host to the pulls of this process, on the thread that runs callbacks.
pub(crate) fn deliver_here(
    source: &Proc<'static>,
    channel: IofChannel,
    data: &[u8],
    infos: &Vec<Info<'static>>,
) -> Result<()> {
    if pulls().all.is_empty() {
        return Ok(());
    }
    let (source, data, infos) = (
        source.clone(),
        memory::copied(data)?,
        memory::cloned(infos)?,
    );
    if later(move || deliver_from_host(&source, channel, &data, &infos)).is_err() {
        tracing::warn!("output is lost: cannot start a thread that delivers it");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pmix_types::keys;

    use super::*;

    #[test]
    fn a_program_receives_no_count_of_lost_output() {
        let tag = Info::new(keys::IOF_TAG_OUTPUT, true);
        let mut infos = vec![tag.clone(), Info::new(LOST_OUTPUT, 7u64)];
        assert_eq!(take_loss(&mut infos), Some(7));
        assert_eq!(infos, std::slice::from_ref(&tag));
        assert_eq!(take_loss(&mut infos), None);
        // A value that is not a number is removed as well.
        let mut infos = vec![Info::new(LOST_OUTPUT, "many"), tag.clone()];
        assert_eq!(take_loss(&mut infos), None);
        assert_eq!(infos, [tag]);
    }

    #[test]
    fn losses_are_logged_first_and_each_time_that_they_have_doubled() {
        let mut losses = Losses::default();
        let logged: Vec<u64> = (0..=1000).filter(|lost| losses.is_logged(*lost)).collect();
        assert_eq!(logged, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
        // A server that starts again at a smaller number, and the largest number.
        assert!(!losses.is_logged(3));
        assert!(losses.is_logged(u64::MAX));
        assert!(!losses.is_logged(u64::MAX));
        let mut many = Losses::default();
        assert!(many.is_logged(300) && !many.is_logged(599) && many.is_logged(600));
    }

    #[test]
    fn a_pull_that_the_server_has_not_answered_stays() {
        let procs = [Proc::new("job", Rank::WILDCARD)];
        let id = add(
            &procs,
            IofChannel::STDOUT_CHANNEL,
            None,
            Directives::default(),
        )
        .unwrap();
        let refused = remove(id, false).map(|pull| pull.remote);
        assert_eq!(refused, Err(Status::ERR_NOT_AVAILABLE));
        handle_reply(id, &Ok(Some(7)));
        assert_eq!(remove(id, false).map(|pull| pull.remote), Ok(Some(7)));
        let removed = remove(id, false).map(|pull| pull.remote);
        assert_eq!(removed, Err(Status::ERR_NOT_FOUND));
        // A process that is the server itself needs no number.
        let id = add(
            &procs,
            IofChannel::STDOUT_CHANNEL,
            None,
            Directives::default(),
        )
        .unwrap();
        assert_eq!(remove(id, true).map(|pull| pull.remote), Ok(None));
    }
}
