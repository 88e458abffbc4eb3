// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection that all threads share. A thread that waits for a reply reads the connection if
//! nobody else does, and hands on what is for others. A thread of its own reads it from the first call
//! on that nobody waits in: one with a callback, a registration for events, a pull of output.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use pmix_proto::{ClientConnection, Event, Output, PeerForm, Request, Tag};
use pmix_types::IntoOwned as _;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::Forwarded;
use super::lock;
use super::worker::{ClientEvent, STACK_BYTES, Worker};
use crate::Error;

/// The payload of a reply, or why there will be none.
type Answer = Result<Vec<u8>, Error>;

/// Takes an answer; called by the thread that reads, and does no more than queue it.
type Callback = Box<dyn FnOnce(Answer) + Send>;

/// One connection to a server.
pub(crate) struct Channel {
    stream: TcpStream,
    form: PeerForm,
    asking: Mutex<Asking>,
    /// Told when nobody reads any longer, while there is a thread for it or this end closes.
    free: Condvar,
    /// What requests have packed and the system has not taken, for the thread that sends, and how much of
    /// it has been taken. Nobody holds the other lock meanwhile, so that answers are handed out.
    unsent: Mutex<(Vec<u8>, usize)>,
    /// What was read last; for the thread that reads.
    buffer: Mutex<Box<[u8]>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    worker: Arc<Worker>,
    /// Whether the program's own loop reads in place of a thread.
    is_driven: bool,
}

struct Asking {
    session: ClientConnection,
    waiting: HashMap<Tag, Waiting>,
    /// Whether a thread reads, or is about to.
    is_read: bool,
    /// Whether there is a thread that does nothing else.
    has_reader: bool,
    /// Whether this end closes the connection.
    is_closing: bool,
    /// Why nobody can ask any longer.
    lost: Option<Error>,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Read {
    Bytes,
    Nothing,
}

/// How often the connection is read before the program goes on.
const MOST_READS: usize = 64;

/// Who waits for a reply.
enum Waiting {
    /// A thread, which is woken.
    Thread(Arc<Condvar>),
    /// A thread whose answer is there.
    Answered(Answer),
    /// A callback.
    Callback(Callback),
}

impl Asking {
    /// Tells all threads that wait that there will be no reply; returns the callbacks that are to be told.
    fn refuse(&mut self, error: &Error) -> Vec<Callback> {
        let mut callbacks = Vec::new();
        for (tag, waiting) in std::mem::take(&mut self.waiting) {
            let answered = match waiting {
                Waiting::Callback(then) => {
                    callbacks.push(then);
                    continue;
                }
                Waiting::Thread(there) => {
                    there.notify_one();
                    Err(error.clone())
                }
                Waiting::Answered(answer) => answer,
            };
            self.waiting.insert(tag, Waiting::Answered(answered));
        }
        callbacks
    }
}

impl Channel {
    /// Takes a connection over.
    pub(super) fn open(
        (stream, session): (TcpStream, ClientConnection),
        events: Vec<Event<'static>>,
        worker: Arc<Worker>,
        is_driven: bool,
    ) -> Result<Arc<Self>, Error> {
        let broken = |error: std::io::Error| Error::lost("the server cannot be waited for", error);
        stream
            .set_write_timeout(None)
            .and_then(|()| stream.set_read_timeout(None))
            .map_err(broken)?;
        for event in events {
            worker.client_event(ClientEvent::Event(event));
        }
        Ok(Arc::new(Self {
            stream,
            form: *session.form(),
            asking: Mutex::new(Asking {
                session,
                waiting: HashMap::new(),
                is_read: false,
                has_reader: false,
                is_closing: false,
                lost: None,
            }),
            free: Condvar::new(),
            unsent: Mutex::default(),
            buffer: Mutex::new(vec![0; 16 << 10].into_boxed_slice()),
            thread: Mutex::new(None),
            worker,
            is_driven,
        }))
    }

    /// The socket.
    pub(super) const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(super) const fn form(&self) -> &PeerForm {
        &self.form
    }

    /// Starts the thread that reads whether anybody waits or not, if it has not begun.
    pub(super) fn listen(self: &Arc<Self>) -> Result<(), Error> {
        if self.is_driven {
            return Ok(());
        }
        let mut thread = lock(&self.thread);
        if thread.is_some() {
            return Ok(());
        }
        {
            let mut asking = lock(&self.asking);
            if asking.is_closing {
                return Ok(());
            }
            asking.has_reader = true;
        }
        let channel = Arc::clone(self);
        let named = thread::Builder::new().name("pmix-client".to_owned());
        let begun = named.stack_size(STACK_BYTES).spawn(move || channel.run());
        *thread = Some(begun.map_err(|error| {
            let mut asking = lock(&self.asking);
            asking.has_reader = false;
            // It may have been told to read in the meantime.
            if !asking.is_read {
                self.pass_on(&asking);
            }
            Error::lost("the server cannot be waited for", error)
        })?);
        Ok(())
    }

    /// Asks; the reply goes to a callback.
    pub(super) fn ask(
        self: &Arc<Self>,
        request: &Request<'_>,
        then: Callback,
    ) -> Result<(), Error> {
        self.listen()?;
        self.send(request, Waiting::Callback(then)).map(drop)
    }

    /// Asks and waits for the reply.
    pub(super) fn wait(&self, request: &Request<'_>) -> Answer {
        let here = Arc::new(Condvar::new());
        let tag = self.send(request, Waiting::Thread(Arc::clone(&here)))?;
        let mut asking = lock(&self.asking);
        loop {
            if let Some(Waiting::Answered(_)) = asking.waiting.get(&tag)
                && let Some(Waiting::Answered(answer)) = asking.waiting.remove(&tag)
            {
                return answer;
            }
            if asking.is_read {
                asking = { here.wait(asking) }.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            asking.is_read = true;
            drop(asking);
            let is_open = self.read(RecvFlags::empty()).is_some();
            asking = lock(&self.asking);
            self.stop_reading(&mut asking);
            if let Some(Waiting::Answered(_)) = asking.waiting.get(&tag) {
                self.pass_on(&asking);
            } else if !is_open {
                // All who waited have been answered by now.
                asking.waiting.remove(&tag);
                return Err(asking.lost.clone().unwrap_or_else(gone));
            }
        }
    }

    /// Nobody reads any longer.
    fn stop_reading(&self, asking: &mut Asking) {
        asking.is_read = false;
        if asking.is_closing {
            self.free.notify_all();
        }
    }

    /// Lets another thread read that has to.
    fn pass_on(&self, asking: &Asking) {
        if asking.has_reader || asking.is_closing {
            return self.free.notify_all();
        }
        let waits = |waiting: &Waiting| match waiting {
            Waiting::Thread(there) => Some(Arc::clone(there)),
            Waiting::Answered(_) | Waiting::Callback(_) => None,
        };
        if let Some(there) = asking.waiting.values().find_map(waits) {
            there.notify_one();
        }
    }

    /// Sends a request whose reply somebody waits for.
    fn send(&self, request: &Request<'_>, waiting: Waiting) -> Result<Tag, Error> {
        let tag = {
            let mut asking = lock(&self.asking);
            if let Some(lost) = &asking.lost {
                return Err(lost.clone());
            }
            let tag = asking.session.request(request, None)?;
            asking.waiting.insert(tag, waiting);
            tag
        };
        let sent = self.transmit();
        if sent.is_err() {
            lock(&self.asking).waiting.remove(&tag);
        }
        sent.map(|()| tag)
    }

    /// Says something that has no reply.
    pub(super) fn say(&self, request: &Request<'_>) -> Result<(), Error> {
        lock(&self.asking).session.request(request, None)?;
        self.transmit()
    }

    /// Says that the process is alive.
    pub(super) fn heartbeat(&self) -> Result<(), Error> {
        lock(&self.asking).session.heartbeat()?;
        self.transmit()
    }

    /// Ends the connection and the thread that reads from it. All who wait for a reply have been told
    /// when this returns.
    pub(super) fn close(&self) {
        {
            let mut asking = lock(&self.asking);
            asking.is_closing = true;
            asking.lost.get_or_insert_with(gone);
        }
        // A connection that the server has closed already is as good.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.free.notify_all();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the thread that reads from the server panicked");
        }
        let mut asking = lock(&self.asking);
        // Another thread that reads has nothing to wait for any longer, but may have to hand out what came.
        while asking.is_read {
            asking = { self.free.wait(asking) }.unwrap_or_else(PoisonError::into_inner);
        }
        let error = asking.lost.clone().unwrap_or_else(gone);
        let callbacks = asking.refuse(&error);
        drop(asking);
        for then in callbacks {
            then(Err(error.clone()));
        }
    }

    /// Sends what requests have packed, in the order in which they were packed.
    fn transmit(&self) -> Result<(), Error> {
        let mut unsent = lock(&self.unsent);
        loop {
            let (bytes, sent) = &mut *unsent;
            let rest = bytes.get(*sent..).unwrap_or_default();
            if rest.is_empty() {
                match lock(&self.asking).session.poll_transmit() {
                    Some(next) => *unsent = (next, 0),
                    None => {
                        *unsent = (Vec::new(), 0);
                        return Ok(());
                    }
                }
                continue;
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.stream, rest, flags) {
                Ok(len) => *sent += len,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait_for_room()?,
                Err(error) => return Err(Error::lost("the server was lost", error.into())),
            }
        }
    }

    /// Waits until the server takes more. A server that is owed the reading of its answers takes none, so
    /// they are read meanwhile if nobody else does.
    fn wait_for_room(&self) -> Result<(), Error> {
        let reads = {
            let mut asking = lock(&self.asking);
            if let Some(lost) = &asking.lost {
                return Err(lost.clone());
            }
            !std::mem::replace(&mut asking.is_read, true)
        };
        let wanted = match reads {
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::OUT,
        };
        // What goes wrong shows when more is sent.
        let _ = poll(&mut [PollFd::new(&self.stream, wanted)], None);
        if reads {
            self.read(RecvFlags::DONTWAIT);
            let mut asking = lock(&self.asking);
            self.stop_reading(&mut asking);
            self.pass_on(&asking);
        }
        Ok(())
    }

    /// Reads until there is nothing to read any longer, while nobody else does.
    fn run(&self) {
        {
            let mut asking = lock(&self.asking);
            while asking.is_read && asking.lost.is_none() && !asking.is_closing {
                asking = { self.free.wait(asking) }.unwrap_or_else(PoisonError::into_inner);
            }
            if asking.is_read {
                return;
            }
            asking.is_read = true;
        }
        while self.read(RecvFlags::empty()).is_some() {}
        self.stop_reading(&mut lock(&self.asking));
    }

    /// Reads what is there, unless another thread does; false if there will be no more.
    pub(super) fn drive(&self) -> bool {
        {
            let mut asking = lock(&self.asking);
            if asking.lost.is_some() || asking.is_read {
                return asking.lost.is_none();
            }
            asking.is_read = true;
        }
        // A server that sends without end does not keep the program.
        let mut reads = (0..MOST_READS).map(|_| self.read(RecvFlags::DONTWAIT));
        let last = reads.find(|read| *read != Some(Read::Bytes));
        let mut asking = lock(&self.asking);
        self.stop_reading(&mut asking);
        self.pass_on(&asking);
        last != Some(None)
    }

    /// Reads and hands out what came; nothing if there will be no more.
    fn read(&self, flags: RecvFlags) -> Option<Read> {
        let mut buffer = lock(&self.buffer);
        let read = loop {
            match rustix::net::recv(&self.stream, &mut buffer[..], flags) {
                Ok((0, _)) => break Err(gone()),
                Ok((len, _)) => break Ok(buffer.get(..len).unwrap_or_default()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Some(Read::Nothing),
                Err(error) => break Err(Error::lost("the server was lost", error.into())),
            }
        };
        match read.and_then(|come| self.hand_out(come)) {
            Ok(()) => Some(Read::Bytes),
            Err(error) => {
                self.lose(&error);
                None
            }
        }
    }

    /// The server is lost: all who wait are told.
    fn lose(&self, error: &Error) {
        let (callbacks, is_closing) = {
            let mut asking = lock(&self.asking);
            asking.lost = Some(error.clone());
            let callbacks = asking.refuse(error);
            self.free.notify_all();
            (callbacks, asking.is_closing)
        };
        for then in callbacks {
            then(Err(error.clone()));
        }
        if !is_closing {
            self.worker.client_event(ClientEvent::Lost);
        }
    }

    /// Hands what came to those who wait for it, and to callbacks with no lock held.
    fn hand_out(&self, come: &[u8]) -> Result<(), Error> {
        let mut replies = Vec::new();
        let mut notices = Vec::new();
        let read = {
            let mut asking = lock(&self.asking);
            let read = asking.session.handle_input(come);
            while let Some(reply) = asking.session.poll_reply() {
                match asking.waiting.remove(&reply.tag) {
                    Some(Waiting::Callback(then)) => replies.push((then, reply.payload)),
                    Some(Waiting::Thread(there)) => {
                        let answer = Waiting::Answered(Ok(reply.payload));
                        asking.waiting.insert(reply.tag, answer);
                        there.notify_one();
                    }
                    // A second reply, or one to nobody.
                    Some(answered @ Waiting::Answered(_)) => {
                        asking.waiting.insert(reply.tag, answered);
                    }
                    None => {}
                }
            }
            while let Some(notice) = asking.session.poll_unsolicited() {
                notices.push(notice);
            }
            read
        };
        for (then, payload) in replies {
            then(Ok(payload));
        }
        read?;
        for notice in notices {
            let payload = &notice.payload;
            let read = match notice.header.tag {
                Tag::EVENT => Event::decode(&self.form, None, payload)
                    .map(|event| ClientEvent::Event(event.into_owned())),
                Tag::OUTPUT => Output::decode(&self.form, None, payload).map(forwarded),
                tag => {
                    tracing::debug!("ignored a message with tag {tag}");
                    continue;
                }
            };
            match read {
                Ok(event) => self.worker.come(event, payload.len()),
                Err(error) => tracing::warn!("what came unasked cannot be read: {error}"),
            }
        }
        Ok(())
    }
}

fn gone() -> Error {
    Error::lost("the server was lost", ErrorKind::UnexpectedEof.into())
}

fn forwarded(output: Output<'_>) -> ClientEvent {
    ClientEvent::Output(Forwarded {
        local_id: output.local_id,
        source: output.source.into_owned(),
        channel: output.channel,
        infos: output.infos.into_owned(),
        data: output.data.into_owned(),
    })
}
