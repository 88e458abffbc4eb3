// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection that all threads share: one thread reads it and hands each reply to the thread
//! that waits for it.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use pmix_proto::{ClientConnection, Event, Output, PeerForm, Request, Tag};
use pmix_types::IntoOwned as _;

use super::Forwarded;
use super::lock;
use super::worker::{ClientEvent, STACK_BYTES, Worker};
use crate::Error;
use crate::connection::Connection;

/// Takes the payload of a reply, or why there will be none; called by the thread that reads.
type Waiter = Box<dyn FnOnce(Result<Vec<u8>, Error>) + Send>;

/// One connection to a server.
pub(crate) struct Channel {
    stream: TcpStream,
    form: PeerForm,
    asking: Mutex<Asking>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Asking {
    session: ClientConnection,
    waiting: HashMap<Tag, Waiter>,
    /// Why nobody can ask any longer.
    lost: Option<Error>,
}

impl Channel {
    /// Takes a connection over and starts the thread that reads from it.
    pub(super) fn open(connection: Connection, worker: Arc<Worker>) -> Result<Arc<Self>, Error> {
        let (stream, session, events) = connection.into_parts();
        let broken = |error: std::io::Error| Error::lost("the server cannot be waited for", error);
        stream
            .set_write_timeout(None)
            .and_then(|()| stream.set_read_timeout(None))
            .map_err(broken)?;
        for event in events {
            worker.client_event(ClientEvent::Event(event));
        }
        let channel = Arc::new(Self {
            stream,
            form: *session.form(),
            asking: Mutex::new(Asking {
                session,
                waiting: HashMap::new(),
                lost: None,
            }),
            thread: Mutex::new(None),
        });
        let reader = Arc::clone(&channel);
        let named = thread::Builder::new().name("pmix-client".to_owned());
        let thread = named
            .stack_size(STACK_BYTES)
            .spawn(move || reader.run(&worker));
        let thread = thread.map_err(broken)?;
        *lock(&channel.thread) = Some(thread);
        Ok(channel)
    }

    pub(super) const fn form(&self) -> &PeerForm {
        &self.form
    }

    /// Asks; the reply goes to the waiter.
    pub(super) fn ask(&self, request: &Request<'_>, waiter: Waiter) -> Result<(), Error> {
        let mut asking = lock(&self.asking);
        if let Some(lost) = &asking.lost {
            return Err(lost.clone());
        }
        let tag = asking.session.request(request, None)?;
        asking.waiting.insert(tag, waiter);
        let sent = self.transmit(&mut asking);
        if sent.is_err() {
            asking.waiting.remove(&tag);
        }
        sent
    }

    /// Asks and waits for the reply.
    pub(super) fn wait(&self, request: &Request<'_>) -> Result<Vec<u8>, Error> {
        let (sender, receiver) = mpsc::sync_channel(1);
        // Who asked is there until the reply is.
        self.ask(request, Box::new(move |payload| drop(sender.send(payload))))?;
        let closed = |_| Error::lost("the server was lost", ErrorKind::ConnectionAborted.into());
        receiver.recv().map_err(closed)?
    }

    /// Says something that has no reply.
    pub(super) fn say(&self, request: &Request<'_>) -> Result<(), Error> {
        let mut asking = lock(&self.asking);
        asking.session.request(request, None)?;
        self.transmit(&mut asking)
    }

    /// Says that the process is alive.
    pub(super) fn heartbeat(&self) -> Result<(), Error> {
        let mut asking = lock(&self.asking);
        asking.session.heartbeat()?;
        self.transmit(&mut asking)
    }

    /// Ends the connection and the thread that reads from it.
    pub(super) fn close(&self) {
        // A connection that the server has closed already is as good.
        let _ = self.stream.shutdown(Shutdown::Both);
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the thread that reads from the server panicked");
        }
    }

    fn transmit(&self, asking: &mut Asking) -> Result<(), Error> {
        while let Some(bytes) = asking.session.poll_transmit() {
            let written = (&self.stream).write_all(&bytes);
            written.map_err(|error| Error::lost("the server was lost", error))?;
        }
        Ok(())
    }

    /// Reads until there is nothing to read any longer.
    fn run(&self, worker: &Arc<Worker>) {
        let mut buffer = vec![0; 16 << 10];
        let lost = loop {
            let come = match (&self.stream).read(&mut buffer) {
                Ok(0) => {
                    break Error::lost("the server was lost", ErrorKind::UnexpectedEof.into());
                }
                Ok(len) => buffer.get(..len).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => break Error::lost("the server was lost", error),
            };
            if let Err(error) = self.hand_out(come, worker) {
                break error;
            }
        };
        let waiting = {
            let mut asking = lock(&self.asking);
            asking.lost = Some(lost.clone());
            std::mem::take(&mut asking.waiting)
        };
        for waiter in waiting.into_values() {
            waiter(Err(lost.clone()));
        }
        worker.client_event(ClientEvent::Lost);
    }

    /// Hands what came to those who wait for it, with no lock held.
    fn hand_out(&self, come: &[u8], worker: &Arc<Worker>) -> Result<(), Error> {
        let mut replies = Vec::new();
        let mut notices = Vec::new();
        {
            let mut asking = lock(&self.asking);
            let read = asking.session.handle_input(come);
            while let Some(reply) = asking.session.poll_reply() {
                replies.extend(
                    asking
                        .waiting
                        .remove(&reply.tag)
                        .map(|w| (w, reply.payload)),
                );
            }
            while let Some(notice) = asking.session.poll_unsolicited() {
                notices.push(notice);
            }
            read?;
        }
        for (waiter, payload) in replies {
            waiter(Ok(payload));
        }
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
                Ok(event) => worker.client_event(event),
                Err(error) => tracing::warn!("what came unasked cannot be read: {error}"),
            }
        }
        Ok(())
    }
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
