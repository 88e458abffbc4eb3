// SPDX-License-Identifier: MIT OR Apache-2.0
//! The CPU binding of the library's threads (`PMIX_BIND_PROGRESS_THREAD`, `PMIX_BIND_REQUIRED`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pmix_client::ThreadStart;
use pmix_topology::Cpuset;
use pmix_types::{Info, Status, Value, keys};

use crate::memory::Result;
use crate::per_process::PerProcess;

/// The CPUs that the first init of this process requested; `None` if its threads are not bound.
static BOUND: PerProcess<Mutex<Option<Arc<Cpuset>>>> = PerProcess::new(Mutex::new(None));

fn bound() -> MutexGuard<'static, Option<Arc<Cpuset>>> {
    BOUND.get().lock().unwrap_or_else(PoisonError::into_inner)
}

/// The binding that an init requests.
pub(crate) struct Binding {
    cpus: Option<Arc<Cpuset>>,
    /// `true` if init must fail when the threads cannot be bound.
    is_required: bool,
}

impl Binding {
    /// Reads the binding attributes passed to a function, and tries the binding once.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_BAD_PARAM` if the list is not a list of CPUs. Returns `PMIX_ERR_NOT_SUPPORTED` if the
    /// binding is required, and a CPU of the list does not exist or the library starts no threads.
    pub(crate) fn of(function: &str, infos: &[Info<'_>]) -> Result<Self> {
        let is_set = |key: &str| {
            let mut named = infos.iter().filter(|info| info.key.is(key));
            named.any(|info| info.truth().is_true())
        };
        let list = infos
            .iter()
            .find(|info| info.key.is(keys::BIND_PROGRESS_THREAD));
        let is_required = is_set(keys::BIND_REQUIRED) || list.is_some_and(Info::must_be_obeyed);
        let Some(list) = list else {
            return Ok(Self {
                cpus: None,
                is_required,
            });
        };
        let text = match &list.value {
            Value::String(Some(text)) => text.as_str(),
            _ => None,
        };
        let cpus = text.ok_or(Status::ERR_BAD_PARAM).and_then(|text| {
            Cpuset::parse(text).map_err(|error| {
                tracing::warn!("{function}: PMIX_BIND_PROGRESS_THREAD: {error}");
                error.status()
            })
        })?;
        let refusal = match is_set(keys::EXTERNAL_PROGRESS) {
            true => Some("with PMIX_EXTERNAL_PROGRESS there are no threads to bind".to_owned()),
            false => cpus.check_bindable().err().map(|error| error.to_string()),
        };
        let Some(refusal) = refusal else {
            return Ok(Self {
                cpus: Some(Arc::new(cpus)),
                is_required,
            });
        };
        tracing::warn!("{function}: PMIX_BIND_PROGRESS_THREAD: {refusal}");
        match is_required {
            true => Err(Status::ERR_NOT_SUPPORTED),
            false => Ok(Self {
                cpus: None,
                is_required,
            }),
        }
    }

    /// Makes this the binding of all threads that the library starts from now on.
    pub(crate) fn set(self) {
        *bound() = self.cpus;
    }

    /// Compares the binding that a later init requests with that of the first init, whose threads have started.
    ///
    /// # Errors
    /// Returns `PMIX_ERR_NOT_SUPPORTED` if another binding is required.
    pub(crate) fn check_again(&self) -> Result<()> {
        if self.is_required && self.cpus.is_some() && self.cpus != *bound() {
            tracing::warn!(
                "another binding of the threads is required than that of the first init, which started them"
            );
            return Err(Status::ERR_NOT_SUPPORTED);
        }
        Ok(())
    }
}

/// Returns the function that each thread of the library calls first; `None` if no binding was requested.
pub(crate) fn thread_start() -> Option<ThreadStart> {
    let cpus = Arc::clone(bound().as_ref()?);
    Some(ThreadStart::new(move || {
        // Init has already tried the binding. If it fails here, an unbound thread still serves the program.
        if let Err(error) = cpus.bind_thread() {
            tracing::warn!("a thread of the library runs where the process may: {error}");
        }
    }))
}
