// SPDX-License-Identifier: MIT OR Apache-2.0
//! The creation and validation of credentials for processes: the upcalls `get_credential` and `validate_credential`,
//! handled by the security modules of the server.
//!
//! | module | creates | accepts |
//! | --- | --- | --- |
//! | `native` | user and group of the requester, as verified before | those of the host or of the requester |
//! | `munge` | a MUNGE credential, for the user of the host only | those that the daemon of the node confirms, once |
//! | `none` | nothing | nothing |
//!
//! `PMIX_CRED_TYPE` lists the acceptable modules in the order of preference, separated by commas. Without it, the
//! module with the highest priority creates the credential, and the form of a credential selects the module that
//! validates it. The result has the module (`PMIX_CRED_TYPE`) and, for a validation, user and group (`PMIX_USERID`,
//! `PMIX_GRPID`).
//!
//! Source: PMIx Standard, chapter "Security".

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{self, SyncSender, TrySendError};

use pmix_engine::host::{GetCredential, ValidateCredential};
use pmix_mca::Params;
use pmix_types::{Info, Status, Text, Value, keys};

use super::{COMPONENTS, FRAMEWORK, psec_parameters};
use crate::{Completion, Credential, Error};

/// Maximum length of a credential.
const LONGEST: usize = 64 << 10;
/// Maximum number of requests pending at the MUNGE daemon.
const WAITING: usize = 1024;
/// The prefix of every MUNGE credential.
const MUNGE: &[u8] = b"MUNGE:";

/// The creation and validation of credentials for the processes of a host.
///
/// A host passes it the upcalls `get_credential` and `validate_credential`. A separate thread sends requests to the
/// MUNGE daemon and completes them later. The first such request starts the thread, and it ends with this object.
#[derive(Debug)]
pub struct CredentialService {
    /// The modules, by descending priority.
    modules: Vec<&'static str>,
    /// The user and group of the host.
    user: (u32, u32),
    library: String,
    socket: Option<PathBuf>,
    munge: OnceLock<Option<SyncSender<MungeRequest>>>,
}

/// A request for the daemon, with its callback.
enum MungeRequest {
    Make(Completion<Credential>),
    Validate(Vec<u8>, Completion<Vec<Info<'static>>>),
}

impl CredentialService {
    /// Creates a service with the modules that the parameters select. `user` is the user and group of the host.
    ///
    /// # Errors
    ///
    /// Returns an error for an invalid setting, or if no module is left.
    pub fn new(params: &Params, user: (u32, u32)) -> Result<Self, Error> {
        psec_parameters().check(params)?;
        let headers: Vec<_> = COMPONENTS.iter().map(|one| one.header.clone()).collect();
        let selection = pmix_mca::select(FRAMEWORK, &headers, params)?;
        let chosen = selection.active.into_iter();
        let modules = chosen
            .filter_map(|index| COMPONENTS.get(index))
            .map(|one| one.header.name);
        let socket = params.text("psec_munge_socket", "");
        Ok(Self {
            modules: modules.collect(),
            user,
            library: params
                .text("psec_munge_library", "libmunge.so.2")
                .to_owned(),
            socket: (!socket.is_empty()).then(|| PathBuf::from(socket)),
            munge: OnceLock::new(),
        })
    }

    /// Creates a credential of the requester.
    ///
    /// It fails with `PMIX_ERR_NOT_SUPPORTED` if no acceptable module is active, with `PMIX_ERR_NO_PERMISSIONS` for a
    /// MUNGE credential of another user than the host's, and with `PMIX_ERR_NOT_AVAILABLE` if the daemon does not
    /// respond.
    pub fn get(&self, call: &GetCredential, done: Completion<Credential>) {
        let asks = user_of(&call.directives);
        let wanted = match wanted(&call.directives) {
            Ok(wanted) => wanted,
            Err(status) => return done.fail(status),
        };
        let module = match wanted {
            // Without a preference of the requester (`PMIX_CRED_TYPE`), the order of the configuration decides.
            None => self.modules.first().copied(),
            Some(names) => names.into_iter().find_map(|name| self.module(name)),
        };
        match (module, asks) {
            (Some("native"), Some((uid, gid))) => {
                let credential = [uid.to_ne_bytes(), gid.to_ne_bytes()].concat();
                done.succeed(made("native", credential));
            }
            // The daemon certifies the user of this process, so it cannot create credentials of another one.
            (Some("munge"), Some((uid, _))) if uid == self.user.0 => {
                self.ask(MungeRequest::Make(done));
            }
            (Some("munge"), _) => done.fail(Status::ERR_NO_PERMISSIONS),
            (Some("none"), _) => done.succeed(made("none", Vec::new())),
            _ => done.fail(Status::ERR_NOT_SUPPORTED),
        }
    }

    /// Validates a credential.
    ///
    /// It fails with `PMIX_ERR_INVALID_CRED` if it is not valid, and with `PMIX_ERR_NOT_SUPPORTED` if the module for
    /// its form is not active.
    pub fn validate(&self, call: &ValidateCredential, done: Completion<Vec<Info<'static>>>) {
        // The daemon would copy it, and no module creates one of this length.
        if call.credential.len() > LONGEST {
            return done.fail(Status::ERR_INVALID_CRED);
        }
        let credential = call.credential.as_slice();
        let named = match wanted(&call.directives) {
            Ok(wanted) => wanted,
            Err(status) => return done.fail(status),
        };
        let form = match credential {
            [] => "none",
            bytes if bytes.starts_with(MUNGE) => "munge",
            _ => "native",
        };
        // The requester rules out the module that the form needs, so another module must not accept the credential.
        if named.is_some_and(|names| !names.contains(&form)) {
            return done.fail(Status::ERR_INVALID_CRED);
        }
        match self.module(form) {
            Some("native") => {
                let read = native(credential);
                // A native credential proves nothing by itself, so only users that are known otherwise are accepted.
                let known = [Some(self.user), user_of(&call.directives)];
                match read.filter(|read| known.contains(&Some(*read))) {
                    Some((uid, gid)) => done.succeed(proven("native", uid, gid)),
                    None => done.fail(Status::ERR_INVALID_CRED),
                }
            }
            Some("munge") => self.ask(MungeRequest::Validate(credential.to_vec(), done)),
            // A credential of the module `none` proves nothing.
            Some(_) => done.fail(Status::ERR_INVALID_CRED),
            None if form == "none" => done.fail(Status::ERR_INVALID_CRED),
            None => done.fail(Status::ERR_NOT_SUPPORTED),
        }
    }

    /// Returns a module by its name, if it is active.
    fn module(&self, name: &str) -> Option<&'static str> {
        self.modules.iter().find(|module| **module == name).copied()
    }

    /// Queues a request for the thread, and starts it if necessary.
    fn ask(&self, request: MungeRequest) {
        let start = || {
            let library = OsStr::new(&self.library);
            let started = start(library, self.socket.as_deref());
            let started = started.inspect_err(|error| tracing::warn!("{error}"));
            started.ok()
        };
        let Some(requests) = self.munge.get_or_init(start) else {
            return request.fail(Status::ERR_NOT_AVAILABLE);
        };
        match requests.try_send(request) {
            Ok(()) => {}
            // The daemon hangs. A longer queue would only delay the error and occupy memory.
            Err(TrySendError::Full(request)) => request.fail(Status::ERR_OUT_OF_RESOURCE),
            Err(TrySendError::Disconnected(request)) => request.fail(Status::ERR_NOT_AVAILABLE),
        }
    }
}

impl MungeRequest {
    fn fail(self, status: Status) {
        match self {
            Self::Make(done) => done.fail(status),
            Self::Validate(_, done) => done.fail(status),
        }
    }

    fn serve(self, munge: &mut pmix_mca::Munge) {
        match self {
            Self::Make(done) => match munge.encode() {
                Ok(credential) => done.succeed(made("munge", credential)),
                Err(error) => {
                    tracing::warn!("{error}");
                    done.fail(Status::ERR_NOT_AVAILABLE);
                }
            },
            Self::Validate(credential, done) => match munge.decode(&credential) {
                Ok((uid, gid)) => done.succeed(proven("munge", uid, gid)),
                Err(error) => {
                    tracing::debug!("a credential was rejected: {error}");
                    done.fail(error.status());
                }
            },
        }
    }
}

/// Starts the thread that calls the daemon, which may block.
fn start(library: &OsStr, socket: Option<&Path>) -> Result<SyncSender<MungeRequest>, Error> {
    let mut munge = pmix_mca::Munge::open(library, socket)?;
    let (requests, queue) = mpsc::sync_channel::<MungeRequest>(WAITING);
    let thread = std::thread::Builder::new().name("munge-credentials".to_owned());
    let serve = move || {
        queue
            .into_iter()
            .for_each(|request| request.serve(&mut munge))
    };
    let cannot = |e| Error::io("cannot start a thread for the MUNGE library", e);
    thread.spawn(serve).map_err(cannot)?;
    Ok(requests)
}

/// Returns the acceptable modules (`PMIX_CRED_TYPE`), or `None` if any module is.
fn wanted<'i>(directives: &'i [Info<'_>]) -> Result<Option<Vec<&'i str>>, Status> {
    let Some(info) = directives.iter().find(|info| info.key.is(keys::CRED_TYPE)) else {
        return Ok(None);
    };
    match &info.value {
        Value::String(None) => Ok(None),
        Value::String(Some(names)) => {
            let names = names.as_str().ok_or(Status::ERR_BAD_PARAM)?;
            Ok(Some(names.split(',').map(str::trim).collect()))
        }
        _ => Err(Status::ERR_BAD_PARAM),
    }
}

/// Returns the user and group of the requester, as determined by the server.
fn user_of(directives: &[Info<'_>]) -> Option<(u32, u32)> {
    let number = |key: &str| {
        let info = directives.iter().find(|info| info.key.is(key));
        info.and_then(|info| info.value.to_number().ok())
    };
    Some((number(keys::USERID)?, number(keys::GRPID)?))
}

/// Returns the user and group of a native credential.
fn native(credential: &[u8]) -> Option<(u32, u32)> {
    let (uid, gid) = credential.split_first_chunk::<4>()?;
    let gid: [u8; 4] = gid.try_into().ok()?;
    Some((u32::from_ne_bytes(*uid), u32::from_ne_bytes(gid)))
}

fn made(module: &'static str, credential: Vec<u8>) -> Credential {
    Credential {
        credential,
        infos: vec![kind(module)],
    }
}

fn proven(module: &'static str, uid: u32, gid: u32) -> Vec<Info<'static>> {
    vec![
        kind(module),
        Info::new(keys::USERID, uid),
        Info::new(keys::GRPID, gid),
    ]
}

fn kind(module: &'static str) -> Info<'static> {
    Info::new(keys::CRED_TYPE, Value::String(Some(Text::from(module))))
}
