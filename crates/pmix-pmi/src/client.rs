// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PMIx client of a process and its socket, as other threads use them.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmix_client::Client;
use pmix_types::Status;

use crate::Error;

/// The PMIx client of a process. The thread of the connection uses it, and the service closes it when the process has
/// ended.
#[derive(Clone, Default)]
pub(crate) struct SharedClient(Arc<Mutex<Connected>>);

/// The state of a connection that other threads read or change.
#[derive(Default)]
pub(crate) struct Connected {
    pub(crate) client: Option<Client>,
    /// `true` from the time at which the process is identified until it finalizes.
    pub(crate) is_in_use: bool,
    /// `true` if the process has ended.
    pub(crate) has_ended: bool,
    /// `true` while the thread of the connection waits for other processes.
    is_blocked: bool,
    /// The number of threads that wait for keys of other processes.
    num_polling: usize,
}

impl SharedClient {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Connected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns `true` if a process uses PMI over this connection. A second one would act for the same process.
    pub(crate) fn is_in_use(&self) -> bool {
        let connected = self.lock();
        connected.is_in_use && !connected.has_ended
    }

    /// Marks the connection as used by a process.
    pub(crate) fn begin_use(&self) {
        self.lock().is_in_use = true;
    }

    /// Ends a barrier for which the thread of the connection waits, because the process has ended.
    pub(crate) fn end(&self) {
        let mut connected = self.lock();
        connected.has_ended = true;
        let blocked = connected.is_blocked.then(|| connected.client.clone());
        drop(connected);
        // The process waited for the reply, so it has sent no abort that would need the client.
        if let Some(client) = blocked.flatten() {
            client.close();
        }
    }

    /// Closes the connection to the PMIx server.
    pub(crate) fn close(&self) {
        let mut connected = self.lock();
        connected.has_ended = true;
        let client = connected.client.take();
        drop(connected);
        if let Some(client) = client {
            client.close();
        }
    }

    pub(crate) fn client(&self) -> Result<Client, Error> {
        self.lock().client.clone().ok_or_else(not_initialized)
    }

    /// Begins a wait of the thread of the connection, until the result is dropped.
    pub(crate) fn block(&self) -> Result<(Client, Blocked), Error> {
        let mut connected = self.lock();
        if connected.has_ended {
            return Err(ended());
        }
        let client = connected.client.clone().ok_or_else(not_initialized)?;
        connected.is_blocked = true;
        Ok((client, Blocked(self.clone())))
    }

    /// Begins a wait of a thread for a key, until the result is dropped.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_OUT_OF_RESOURCE` if the process already waits for [`MAX_POLLING`] keys.
    pub(crate) fn poll(&self) -> Result<Polling, Error> {
        let mut connected = self.lock();
        if connected.num_polling >= MAX_POLLING {
            let message = format!("the process already waits for {MAX_POLLING} keys");
            return Err(Error::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        connected.num_polling += 1;
        Ok(Polling(self.clone()))
    }

    /// Returns `true` if the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }
}

/// The largest number of keys that the threads of one process wait for at a time.
const MAX_POLLING: usize = 16;

/// A wait of the thread of a connection.
pub(crate) struct Blocked(SharedClient);

impl Drop for Blocked {
    fn drop(&mut self) {
        self.0.lock().is_blocked = false;
    }
}

/// A wait of a thread for a key.
pub(crate) struct Polling(SharedClient);

impl Drop for Polling {
    fn drop(&mut self) {
        self.0.lock().num_polling -= 1;
    }
}

pub(crate) fn not_initialized() -> Error {
    Error::new(Status::ERR_INIT, "the process has not initialized PMI")
}

pub(crate) fn ended() -> Error {
    Error::new(Status::ERR_LOST_CONNECTION, "the process has ended")
}

/// The parts of a connection that other threads use.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) stream: Arc<TcpStream>,
    pub(crate) client: SharedClient,
}

impl Handle {
    /// Returns `true` if a process uses PMI over this connection.
    pub(crate) fn is_in_use(&self) -> bool {
        self.client.is_in_use()
    }

    /// Marks the connection as used by a process.
    pub(crate) fn begin_use(&self) {
        self.client.begin_use();
    }

    /// Returns `true` if the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.client.has_ended()
    }

    /// Ends the connection of a process that has ended. Its thread still serves the commands that the process has sent.
    pub(crate) fn end(&self) {
        // A child of the process may hold the socket. The bytes that have arrived can still be read, and a thread that
        // writes a reply does not wait any more.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.client.end();
    }

    /// Closes the connection.
    pub(crate) fn close(&self) {
        // The thread of the connection reads the end of the stream.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.client.close();
    }

    /// Returns `true` if both are of the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.stream, &other.stream)
    }
}
