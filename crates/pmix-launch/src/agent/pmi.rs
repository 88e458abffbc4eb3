// SPDX-License-Identifier: MIT OR Apache-2.0
//! The variables of processes, and the service for those that use PMI-1 or PMI-2.

use std::ffi::OsString;
use std::path::PathBuf;

use pmix_client::Settings;
use pmix_mca::Environment;
use pmix_pmi::{JobSettings, Service};
use pmix_server::Server;
use pmix_types::{Nspace, Proc, Rank};

use super::Agent;
use crate::{Error, Interfaces, Plan};

/// The service for processes that use PMI-1 or PMI-2, if it is offered.
pub(super) struct PmiService(Option<Service>);

impl PmiService {
    pub(super) fn start(interfaces: Interfaces) -> Result<Self, Error> {
        if !interfaces.have_pmi() {
            return Ok(Self(None));
        }
        match Service::start() {
            Ok(service) => Ok(Self(Some(service))),
            // Programs with PMIx do not need the service.
            Err(error) if interfaces == Interfaces::All => {
                tracing::warn!("programs with PMI-1 or PMI-2 cannot run: {error}");
                Ok(Self(None))
            }
            Err(error) => Err(Error::request(error.to_string())),
        }
    }

    /// Registers a job whose processes the server knows.
    pub(super) fn register(
        &self,
        server: &Server,
        plan: &Plan,
        is_spawned: bool,
    ) -> Result<(), Error> {
        let Some(service) = &self.0 else {
            return Ok(());
        };
        let cannot =
            |error: &dyn std::fmt::Display| Error::request(format!("cannot offer PMI: {error}"));
        let proc = Proc::new(plan.nspace.clone(), Rank::new(0));
        let vars = server.setup_fork(&proc);
        let vars = vars.map_err(|e| Error::server("the server has no address", e))?;
        // The service connects to the server as the processes do.
        let environment = Environment {
            vars,
            cwd: PathBuf::new(),
            home: None,
            system: PathBuf::new(),
        };
        let registered = service.register(JobSettings {
            client: Settings::of(&environment).map_err(|e| cannot(&e))?,
            size: u32::try_from(plan.layout.num_procs()).unwrap_or(u32::MAX),
            num_here: u32::try_from(plan.layout.here().len()).unwrap_or(u32::MAX),
            is_spawned,
        });
        registered.map_err(|e| cannot(&e))
    }

    /// Ends the connection of a process that has ended. Returns `true` while commands that it has sent are served.
    pub(super) fn end(&self, proc: &Proc<'static>) -> bool {
        self.0.as_ref().is_some_and(|service| service.end(proc))
    }

    /// Closes the connections of a job.
    pub(super) fn deregister(&self, nspace: &Nspace<'_>) {
        if let Some(service) = &self.0 {
            service.deregister(nspace);
        }
    }
}

impl Agent<'_> {
    /// Returns `true` while the service serves commands of processes whose end was recorded and not handled.
    pub(crate) fn has_last_words(&self) -> bool {
        // Each connection has to end, so all of them are visited.
        let ended = self.children.ended();
        ended.filter(|proc| self.pmi.end(proc)).count() > 0
    }

    /// Returns the variables by which a process finds the server and the service for PMI.
    pub(super) fn variables(&self, proc: &Proc<'_>) -> Result<Vec<(OsString, OsString)>, Error> {
        let vars = self.server.setup_fork(proc);
        let mut vars = vars.map_err(|e| Error::server("the server has no address", e))?;
        if !self.plan.interfaces.have_pmix() {
            vars.retain(|(name, _)| !name.to_string_lossy().starts_with("PMIX"));
        }
        let of_pmi = self
            .pmi
            .0
            .as_ref()
            .and_then(|service| service.variables(proc));
        let of_pmi = of_pmi.into_iter().flatten();
        vars.extend(of_pmi.map(|(name, value)| (name.into(), value.into())));
        Ok(vars)
    }
}
