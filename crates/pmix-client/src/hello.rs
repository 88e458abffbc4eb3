// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hello of a client.
//!
//! Source: OpenPMIx, `ptl/base`.

use pmix_proto::{Hello, RELEASE, Role, shared};
use pmix_types::{Info, Value, keys};

use crate::Settings;
use crate::settings::Security;

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
pub(crate) fn credential(security: Security) -> Vec<u8> {
    match security {
        Security::None => Vec::new(),
        Security::Native => {
            let (uid, gid) = ids();
            [uid.to_ne_bytes(), gid.to_ne_bytes()].concat()
        }
    }
}
