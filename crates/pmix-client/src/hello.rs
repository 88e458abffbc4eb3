// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hello of a client.
//!
//! Source: OpenPMIx, `ptl/base`.

use pmix_proto::{Hello, RELEASE, Role, shared};
use pmix_types::{Info, Value, keys};

use crate::settings::Security;
use crate::{Error, Settings};

/// Returns the hello of this process.
pub(crate) fn hello<'a>(
    settings: &'a Settings,
    credential: &'a [u8],
    reads_shared: bool,
) -> Hello<'a> {
    Hello {
        psec: match settings.security {
            Security::Native => "native".into(),
            Security::None => "none".into(),
            Security::Munge => "munge".into(),
        },
        credential,
        role: settings.role,
        ids: (settings.role.says_ids()).then(ids),
        proc: (settings.role.says_proc()).then(|| settings.proc.clone()),
        version: RELEASE.into(),
        module: settings.layout.module.name().into(),
        buffer: settings.layout.buffer,
        gds: match reads_shared {
            true => format!("{},hash", shared::MODULE).into(),
            false => "hash".into(),
        },
        infos: about(settings.role),
    }
}

/// Returns the infos about this process in the hello of a role. A server of PRRTE terminates when a tool sends none.
fn about(role: Role) -> Vec<Info<'static>> {
    if role == Role::CLIENT {
        return Vec::new();
    }
    let (uid, gid) = ids();
    let pid = i32::try_from(std::process::id()).unwrap_or_default();
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    vec![
        Info::new(keys::PROC_PID, Value::Pid(pid)),
        Info::new(keys::REALUID, rustix::process::getuid().as_raw()),
        Info::new(keys::USERID, uid),
        Info::new(keys::REALGID, rustix::process::getgid().as_raw()),
        Info::new(keys::GRPID, gid),
        Info::new(keys::CMD_LINE, words.collect::<Vec<_>>().join(" ")),
    ]
}

/// Returns the effective user and group of this process.
fn ids() -> (u32, u32) {
    let uid = rustix::process::geteuid().as_raw();
    (uid, rustix::process::getegid().as_raw())
}

/// Returns the credential of this process. For `native` this is the user and group in the byte order of the machine.
///
/// # Errors
///
/// Returns an error that names the MUNGE daemon if it makes no credential.
pub(crate) fn credential(settings: &Settings) -> Result<Vec<u8>, Error> {
    Ok(match settings.security {
        Security::None => Vec::new(),
        Security::Native => {
            let (uid, gid) = ids();
            [uid.to_ne_bytes(), gid.to_ne_bytes()].concat()
        }
        Security::Munge => of_munge(settings.verifier)?,
    })
}

/// Requests a credential from the MUNGE daemon that the parameters name.
#[cfg(feature = "munge")]
fn of_munge(verifier: Option<u32>) -> Result<Vec<u8>, Error> {
    let params = pmix_mca::Params::from_process(None).and_then(pmix_mca::ParamsBuilder::build);
    let params = params.map_err(|error| failed("the parameters cannot be read", error))?;
    let library = params.text("psec_munge_library", "libmunge.so.2");
    let socket = params.text("psec_munge_socket", "");
    let socket = (!socket.is_empty()).then(|| std::path::Path::new(socket));
    let opened = pmix_mca::Munge::open(std::ffi::OsStr::new(library), socket);
    let mut munge = opened.map_err(|error| failed("the MUNGE library cannot be used", error))?;
    let made = match verifier {
        Some(user) => munge.restrict_to(user).and_then(|()| munge.encode()),
        None => munge.encode(),
    };
    let daemon = match socket {
        Some(socket) => format!("the MUNGE daemon (munged) at {}", socket.display()),
        None => "the MUNGE daemon (munged) at the default socket".to_owned(),
    };
    made.map_err(|error| {
        failed(
            format_args!("{daemon} makes no credential; start it or set psec_munge_socket"),
            error,
        )
    })
}

#[cfg(not(feature = "munge"))]
fn of_munge(_: Option<u32>) -> Result<Vec<u8>, Error> {
    let message = "this client was built without support for MUNGE";
    Err(Error::new(pmix_types::Status::ERR_NOT_SUPPORTED, message))
}

#[cfg(feature = "munge")]
fn failed(what: impl std::fmt::Display, error: pmix_mca::Error) -> Error {
    pmix_types::ErrorDetail::caused(error.status(), what, error).into()
}
