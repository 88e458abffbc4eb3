// SPDX-License-Identifier: MIT OR Apache-2.0
//! The variables of processes, and the service for those that use PMI-1 or PMI-2.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pmix_client::Settings;
use pmix_mca::Environment;
use pmix_pmi::{JobSettings, Service};
use pmix_server::Server;
use pmix_types::{Nspace, Proc};

use super::Agent;
use crate::{Error, Interfaces, Plan};

/// The time for requests that processes sent by PMI before they ended.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The service for processes that use PMI-1 or PMI-2.
pub(super) struct PmiService {
    /// The service, if it is offered.
    service: Option<Service>,
    interfaces: Interfaces,
    /// The processes that have ended and whose requests were still served.
    last_words: Vec<Proc<'static>>,
    /// The time at which their requests are not waited for any more.
    until: Option<Instant>,
}

impl PmiService {
    /// Starts the service if it is offered. `wake` is called when it has served the requests of a process that ended.
    pub(super) fn start(
        interfaces: Interfaces,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let mut pmi = Self {
            service: None,
            interfaces,
            last_words: Vec::new(),
            until: None,
        };
        if interfaces.have_pmi() {
            match Service::start(wake) {
                Ok(service) => pmi.service = Some(service),
                Err(error) => pmi.do_without(&error)?,
            }
        }
        Ok(pmi)
    }

    /// Warns that PMI cannot be used, or returns an error if nothing else is offered.
    fn do_without(&self, error: &dyn fmt::Display) -> Result<(), Error> {
        match self.interfaces {
            // Programs with PMIx do not need the service.
            Interfaces::All => {
                tracing::warn!("programs with PMI-1 or PMI-2 cannot run: {error}");
                Ok(())
            }
            _ => Err(Error::request(format!("cannot offer PMI: {error}"))),
        }
    }

    /// Registers a job whose processes the server knows.
    pub(super) fn register(
        &self,
        server: &Server,
        plan: &Plan,
        is_spawned: bool,
    ) -> Result<(), Error> {
        let Some(service) = &self.service else {
            return Ok(());
        };
        let rank = plan.layout.here().first().copied();
        let Some(rank) = rank else {
            return Ok(());
        };
        let proc = Proc::new(plan.nspace.clone(), rank);
        let vars = server.setup_fork(&proc);
        let vars = vars.map_err(|e| Error::server("the server has no address", e))?;
        // The service connects to the server as the processes do.
        let environment = Environment {
            vars,
            cwd: PathBuf::new(),
            home: None,
            system: PathBuf::new(),
        };
        let client = match Settings::of(&environment) {
            Ok(client) => client,
            Err(error) => return self.do_without(&error),
        };
        let registered = service.register(JobSettings {
            client,
            size: u32::try_from(plan.layout.num_procs()).unwrap_or(u32::MAX),
            num_here: u32::try_from(plan.layout.here().len()).unwrap_or(u32::MAX),
            is_spawned,
        });
        registered.or_else(|error| self.do_without(&error))
    }

    /// Ends the connections of processes that have ended.
    pub(super) fn end_all(&mut self, ended: Option<&[Proc<'static>]>, now: Instant) {
        let Some(service) = &self.service else {
            return;
        };
        let serving = ended.into_iter().flatten().filter(|proc| service.end(proc));
        self.last_words.extend(serving.cloned());
        if !self.last_words.is_empty() {
            self.until.get_or_insert(now + LAST_WORDS);
        }
    }

    /// Returns `true` while requests of processes that have ended are served, for a bounded time.
    pub(super) fn awaits_last_words(&self, now: Instant) -> bool {
        let service = self.service.as_ref();
        let is_serving = |proc| service.is_some_and(|service| service.is_serving(proc));
        self.until.is_some_and(|until| now < until) && self.last_words.iter().any(is_serving)
    }

    /// Returns `true` if such requests were waited for and are not any more.
    pub(super) fn has_served_last_words(&self, now: Instant) -> bool {
        self.until.is_some() && !self.awaits_last_words(now)
    }

    /// Returns the time at which such requests are not waited for any more.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.until
    }

    /// Ends the wait, because the ends of the processes are handled.
    pub(super) fn forget_last_words(&mut self) {
        self.last_words.clear();
        self.until = None;
    }

    /// Closes the connections of a job.
    pub(super) fn deregister(&self, nspace: &Nspace<'_>) {
        if let Some(service) = &self.service {
            service.deregister(nspace);
        }
    }
}

impl Agent<'_> {
    /// Returns the variables by which a process finds the server and the service for PMI.
    pub(super) fn variables(&self, proc: &Proc<'_>) -> Result<Vec<(OsString, OsString)>, Error> {
        let vars = self.server.setup_fork(proc);
        let mut vars = vars.map_err(|e| Error::server("the server has no address", e))?;
        if !self.plan.interfaces.have_pmix() {
            vars.retain(|(name, _)| !name.as_bytes().starts_with(b"PMIX"));
        }
        let service = self.pmi.service.as_ref();
        let of_pmi = service.and_then(|service| service.variables(proc));
        let of_pmi = of_pmi.into_iter().flatten();
        vars.extend(of_pmi.map(|(name, value)| (name.into(), value.into())));
        Ok(vars)
    }
}
