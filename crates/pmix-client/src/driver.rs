// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parts of a client for programs that wait in their own loop, and for libraries that offer a client to other programs.
//!
//! - [`Driver`] is a client whose program waits in its own loop: poll(2), epoll or an async runtime.
//! - [`Core`] is the state machine of a client without a socket. It takes bytes, times and requests.
//! - The rest is for a library with another interface, such as the C library of this project: it keeps handlers of
//!   events in order ([`Handlers`]), answers some queries itself ([`OwnAnswers`]), and makes calls from requests that it
//!   has built ([`call`]).
//!
//! Source: PMIx Standard, `PMIx_Progress` and `PMIX_EXTERNAL_PROGRESS`.

use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use pmix_proto::Request;
use pmix_types::{Info, Status};
use rustix::event::epoll;

use crate::connection::BUFFER_BYTES;
use crate::get::is_directive;
use crate::shared::{Loop, event_descriptor, no_descriptor};
use crate::socket::Socket;
use crate::{Call, Client, Error, Settings};

pub use crate::core::{Answer, Completed, Core, CoreStats, FromAnswer, OperationId};
pub use crate::group::Question;
pub use crate::handlers::{EventHandler, HandlerOrder, Handlers};
pub use crate::obeyed::{check_get, check_required};
pub use crate::own_answers::OwnAnswers;
pub use crate::tool_connection::ToolConnection;

/// A client of a program with its own loop (`PMIX_EXTERNAL_PROGRESS`). It starts no thread. The program waits until the
/// descriptor ([`AsFd`]) is readable or the time returned by [`drive`](Self::drive) has passed, and then calls `drive`.
/// Callbacks and the listener are called by `drive`. Blocking calls are possible, too.
#[derive(Clone)]
pub struct Driver(Client);

impl Driver {
    /// Connects to a server as [`Client::init`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Client::init`], or an error if the system has no descriptor left.
    pub fn init(settings: Settings) -> Result<Self, Error> {
        let client = Client::begin(settings, |socket| {
            let wake = event_descriptor()?;
            let ready = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(no_descriptor)?;
            for fd in [wake.as_fd(), socket.as_fd()] {
                let data = epoll::EventData::new_u64(0);
                epoll::add(&ready, fd, data, epoll::EventFlags::IN).map_err(no_descriptor)?;
            }
            Ok(Some((Loop::new(wake), ready)))
        })?;
        Ok(Self(client))
    }

    /// Returns the driver of a client, or `None` if it has threads instead.
    #[must_use]
    pub fn of(client: &Client) -> Option<Self> {
        let is_driven = client.shared().ready.is_some();
        is_driven.then(|| Self(client.clone()))
    }

    /// Returns the client, whose clones have the same driver.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.0
    }

    /// Reads without waiting and makes all due callbacks. Returns the latest time for the next call, if there is one. A
    /// callback may call the client, including functions that wait.
    pub fn drive(&self, now: Instant) -> Option<Instant> {
        self.0.shared().drive(now)
    }
}

/// The descriptor for the loop of the program, readable when [`Driver::drive`] has work.
impl AsFd for Driver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0.shared().ready {
            Some(ready) => ready.as_fd(),
            None => unreachable!("a driver has a descriptor: `init` and `of` check it"),
        }
    }
}

/// Makes a call from a request that was built without a client.
pub fn call<'a, T: FromAnswer>(client: &'a Client, request: Request<'a>) -> Call<'a, T> {
    client.call(request)
}

/// Makes a call whose result is known.
pub fn answered<T>(client: &Client, result: Result<T, Error>) -> Call<'_, T> {
    Call::ready(client.shared(), result)
}

/// Creates the client of a tool whose server is a launcher, over the connection that the launcher made.
/// [`ToolConnection`] is the launcher's side, which expects no further replies. `settings` has the launcher as the server
/// and the name of this process. Its `layout` is that of the launcher's hello, its `server_version` the `PMIX_VERSION`
/// in the launcher's environment. Nothing is sent yet.
///
/// # Errors
///
/// Returns an error if the socket cannot be used, and `PMIX_ERR_BAD_PARAM` for settings without a server.
pub fn with_launcher(settings: Settings, stream: TcpStream) -> Result<Client, Error> {
    let core = Core::with_launcher(settings)?;
    stream
        .set_write_timeout(None)
        .and_then(|()| stream.set_read_timeout(None))
        .map_err(|error| Error::lost("cannot poll the connection", error))?;
    let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
    let socket = Some(Socket::Server(stream));
    Ok(Client::with_core(core, socket, buffer, None))
}

/// Creates a client without a server. Each call that needs a server fails with `PMIX_ERR_UNREACH` and this message.
#[must_use]
pub fn without_server(message: &str) -> Client {
    let core = Core::without_server(Error::new(Status::ERR_UNREACH, message));
    Client::with_core(core, None, Box::default(), None)
}

/// Returns the infos of a get that select or qualify the value. The others control the search.
#[must_use]
pub fn qualifiers<'i>(infos: &[Info<'i>]) -> Vec<Info<'i>> {
    let qualifiers = infos.iter().filter(|info| !is_directive(info));
    qualifiers.cloned().collect()
}
