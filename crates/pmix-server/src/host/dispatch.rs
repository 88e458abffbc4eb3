// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dispatch of upcalls to the methods of the host, and the requests that the server answers for it.

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use pmix_engine::host::{DeviceDistances, Log};
use pmix_engine::{HostCall, Upcall};
use pmix_topology::{Cpuset, DeviceFilter, Error, Topology};
use pmix_types::{DeviceDistance, Info, Status, Value, keys};

use super::completion::{Callback, ReplyTarget};
use super::guard::guarded;
use super::{Completion, Host, ServerEvent};
use crate::engine_handle::EngineHandle;

/// The state for upcalls that the library handles itself; they do not reach the host.
pub(crate) struct OwnUpcalls {
    /// `true` if the server is a gateway, which writes logged data to the standard streams.
    pub(crate) is_gateway: bool,
    pub(crate) devices: Devices,
}

/// Calls the method for an upcall, or handles it. If the method panics, only this request fails.
pub(crate) fn call(host: &dyn Host, own: &OwnUpcalls, call: HostCall, handle: &Arc<EngineHandle>) {
    let name = call.upcall.name();
    let target = ReplyTarget::Server(call.id, Arc::downgrade(handle));
    // Unwinding drops the completion, which fails the request.
    guarded(name, || match call.upcall {
        Upcall::Log(request) if own.is_gateway => {
            log(host, request, Completion::new(target));
        }
        Upcall::DeviceDistances(request) => {
            Completion::new(target).complete(own.devices.distances(&request));
        }
        upcall => dispatch(host, upcall, target),
    });
}

/// Calls the method of a host for an upcall that no server of this process made, for example one that another node of
/// the host packed ([`Upcall::pack`]). `reply` is called exactly once, as the function of [`Completion::from_fn`].
///
/// If the method panics, the reply is [`HostReply::DROPPED`](pmix_engine::HostReply::DROPPED). Each node answers
/// [`DeviceDistances`](pmix_engine::host::DeviceDistances) itself, so the reply to it is
/// [`HostReply::NotSupported`](pmix_engine::HostReply::NotSupported).
///
/// ```
/// use pmix_server::upcall::{HostReply, Publish, Upcall};
/// use pmix_server::{Completion, Host, call_host};
/// use pmix_types::{Info, Proc, Rank, Status};
/// use std::sync::mpsc::channel;
///
/// struct Controller;
///
/// impl Host for Controller {
///     fn publish(&self, call: Publish, done: Completion<()>) {
///         assert_eq!(call.infos.len(), 1);
///         done.succeed(());
///     }
/// }
///
/// // A node packs the upcall, and keeps its completion.
/// let proc = Proc::new("job@1", Rank::new(0));
/// let call = Publish::new(proc, vec![Info::new("port", "tcp:4711")]);
/// let frame = Upcall::from(call).pack()?;
///
/// // The controller unpacks it, and packs the reply.
/// let (link, frames) = channel();
/// let upcall = Upcall::unpack(&frame)?;
/// call_host(&Controller, upcall, move |reply| link.send(reply.pack()).unwrap_or_default());
/// let reply = HostReply::unpack(&frames.recv()??)?;
/// assert_eq!(reply, HostReply::Done(Status::SUCCESS));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn call_host(
    host: &dyn Host,
    upcall: Upcall,
    reply: impl FnOnce(pmix_engine::HostReply) + Send + 'static,
) {
    let target = ReplyTarget::Callback(Callback::new(reply));
    guarded(upcall.name(), || dispatch(host, upcall, target));
}

/// Reports an event to the host.
pub(crate) fn server_event(host: &dyn Host, event: ServerEvent) {
    guarded("server_event", || host.server_event(event));
}

/// Calls the method for an upcall.
fn dispatch(host: &dyn Host, upcall: Upcall, target: ReplyTarget) {
    macro_rules! methods {
        ($($upcall:ident => $method:ident,)*) => {
            match upcall {
                $(Upcall::$upcall(request) => host.$method(request, Completion::new(target)),)*
                // A host has no method for the devices of a node, and the engine of this release makes no other upcall.
                _ => Completion::<()>::new(target).not_supported(),
            }
        };
    }
    methods! {
        ClientConnected => client_connected,
        ClientFinalized => client_finalized,
        Abort => abort,
        Fence => fence,
        DirectModex => direct_modex,
        Publish => publish,
        Lookup => lookup,
        Unpublish => unpublish,
        Spawn => spawn,
        Connect => connect,
        Disconnect => disconnect,
        RegisterEvents => register_events,
        DeregisterEvents => deregister_events,
        NotifyEvent => notify_event,
        Query => query,
        ToolConnected => tool_connected,
        Log => log,
        Alloc => allocate,
        JobControl => job_control,
        Monitor => monitor,
        GetCredential => get_credential,
        ValidateCredential => validate_credential,
        IofPull => iof_pull,
        PushStdin => push_stdin,
        Group => group,
        Fabric => fabric,
        SessionControl => session_control,
        ResourceBlock => resource_block,
    }
}

// Distances between the devices of this node and processors, for processes that cannot compute them themselves.
//
// Source: PMIx Standard, chapter "Process-Related Non-Reserved Keys", heading "Device distances".

/// The devices of this node, read on first use.
///
/// A process sends a topology with its request, which the server ignores. The process asks about devices that it does
/// not see. Parsing a topology of a peer would also cost the server time that the peer determines.
pub(crate) struct Devices {
    hostname: String,
    /// The topology described by the host, if it includes devices.
    described: Option<Topology>,
    seen: OnceLock<Topology>,
}

impl Devices {
    pub(crate) fn new(hostname: String, described: Option<Topology>) -> Self {
        // A topology of processors only would hide the devices of this node.
        let described = described.filter(Topology::has_devices);
        Self {
            hostname,
            described: described.map(Topology::without_xml),
            seen: OnceLock::new(),
        }
    }

    /// Returns the distances that a process requests.
    pub(crate) fn distances(
        &self,
        call: &DeviceDistances,
    ) -> Result<Vec<DeviceDistance<'static>>, Status> {
        let cpus = match &call.cpus {
            None => Cpuset::full(),
            Some(list) => match list.as_str().map(processors) {
                Some(Ok(cpus)) => cpus,
                _ => {
                    tracing::debug!(proc = ?call.proc, cpus = %list, "not a list of processors");
                    return Err(Status::ERR_BAD_PARAM);
                }
            },
        };
        let seen = || self.seen.get_or_init(Topology::of_system);
        let node = self.described.as_ref().unwrap_or_else(seen);
        let filter = DeviceFilter::of_infos(&call.infos);
        node.distances(&cpus, &self.hostname, &filter)
            .map_err(|error: Error| {
                tracing::debug!(proc = ?call.proc, %error, "no distances are available");
                error.status()
            })
    }
}

/// Parses a list of processors in the form of the wire, `0,2-3`, or of `PMIX_CPUSET`, `hwloc:0,2-3`.
fn processors(list: &str) -> Result<Cpuset, Error> {
    match list.contains(':') {
        true => Cpuset::from_pmix(list),
        false => Cpuset::parse(list),
    }
}

// The gateway: the server for requests that the servers of other nodes cannot serve.
//
// The library itself serves one of them, `PMIx_Log` to the standard streams. The host serves all others.

/// Writes the data for the standard streams, and passes the data for other channels to the host.
pub(super) fn log(host: &dyn Host, mut call: Log, done: Completion<()>) {
    let had_any = !call.data.is_empty();
    call.data = not_written(
        call.data,
        &mut io::stdout().lock(),
        &mut io::stderr().lock(),
    );
    // The host decides about a request without data.
    match had_any && call.data.is_empty() {
        true => done.succeed(()),
        false => host.log(call, done),
    }
}

/// Writes the data for these streams. Returns the rest, including data that could not be written.
fn not_written<'a>(
    data: Vec<Info<'static>>,
    output: &'a mut dyn Write,
    errors: &'a mut dyn Write,
) -> Vec<Info<'static>> {
    let mut write = |info: &Info<'_>| -> bool {
        let stream: &mut dyn Write = match () {
            () if info.key.is(keys::LOG_STDOUT) => &mut *output,
            () if info.key.is(keys::LOG_STDERR) => &mut *errors,
            () => return false,
        };
        let Value::String(Some(text)) = &info.value else {
            return false;
        };
        let written = stream.write_all(text.as_bytes());
        written.and_then(|()| stream.flush()).is_ok()
    };
    data.into_iter().filter(|info| !write(info)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use pmix_engine::HostReply;
    use pmix_types::{Pdata, Proc, Rank};

    use super::*;

    /// A stream that its reader has closed.
    struct Gone;

    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A host that completes nothing, and panics for a publish.
    struct Careless;

    impl Host for Careless {
        fn fence(&self, _: pmix_engine::host::Fence, done: Completion<Vec<u8>>) {
            drop(done);
        }

        fn publish(&self, _: pmix_engine::host::Publish, _done: Completion<()>) {
            panic!("no table");
        }

        fn lookup(&self, _: pmix_engine::host::Lookup, done: Completion<Vec<Pdata<'static>>>) {
            // The untyped form, which another thread completes.
            let reply = HostReply::Found(Status::SUCCESS, Vec::new());
            let done = done.untyped();
            std::thread::spawn(move || done.complete(reply));
        }
    }

    fn reply_to(upcall: impl Into<Upcall>) -> HostReply {
        let (sender, replies) = channel();
        call_host(&Careless, upcall.into(), move |reply| {
            sender.send(reply).expect("one reply");
        });
        let reply = replies.recv().expect("a reply");
        assert!(replies.recv().is_err(), "a second reply");
        reply
    }

    #[test]
    fn a_call_of_another_node_gets_one_reply_whatever_the_host_does() {
        use pmix_engine::host::{Fence, Lookup, Publish, Query};
        let proc = || Proc::new("job", Rank::new(0));
        let fence = Fence::new(vec![proc()], Vec::new(), vec![1]);
        assert_eq!(reply_to(fence), HostReply::DROPPED);
        assert_eq!(
            reply_to(Publish::new(proc(), Vec::new())),
            HostReply::DROPPED
        );
        let found = HostReply::Found(Status::SUCCESS, Vec::new());
        assert_eq!(reply_to(Lookup::new(proc(), Vec::new(), Vec::new())), found);
        let query = Query::new(proc(), Vec::new());
        assert_eq!(reply_to(query), HostReply::NotSupported);
        let devices = DeviceDistances::new(proc(), None, Vec::new());
        assert_eq!(reply_to(devices), HostReply::NotSupported);
    }

    #[test]
    fn a_reply_that_panics_ends_neither_the_process_nor_the_host() {
        use pmix_engine::host::{Fence, Publish};
        let proc = Proc::new("job", Rank::new(0));
        // The first reply is sent by a call, the second while the panic of the host unwinds.
        let calls: [Upcall; 2] = [
            Fence::new(vec![proc.clone()], Vec::new(), Vec::new()).into(),
            Publish::new(proc, Vec::new()).into(),
        ];
        for call in calls {
            let (sender, replies) = channel();
            call_host(&Careless, call, move |reply| {
                sender.send(reply).expect("one reply");
                panic!("the link is closed");
            });
            assert_eq!(replies.recv(), Ok(HostReply::DROPPED));
        }
    }

    #[test]
    fn a_completion_is_small_and_can_change_threads() {
        fn is_send<T: Send>(_: &T) {}
        let done = Completion::<()>::from_fn(|_| ());
        is_send(&done);
        assert_eq!(format!("{done:?}"), "Completion(callback)");
        assert!(size_of_val(&done) <= 24);
        done.succeed(());
    }

    #[test]
    fn local_log_channels_are_written_and_others_left_to_the_host() {
        let data = vec![
            Info::new(keys::LOG_STDERR, "oops\n"),
            Info::new(keys::LOG_SYSLOG, "noted"),
            Info::new(keys::LOG_STDOUT, "hello\n"),
            Info::new(keys::LOG_STDOUT, 7_u32),
        ];
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let rest = not_written(data.clone(), &mut output, &mut errors);
        assert_eq!(
            (output.as_slice(), errors.as_slice()),
            (&b"hello\n"[..], &b"oops\n"[..])
        );
        assert_eq!(rest, [data[1].clone(), data[3].clone()]);
        let rest = not_written(data, &mut Gone, &mut errors);
        assert_eq!(rest.len(), 3, "a closed stream accepts nothing");
    }
}
