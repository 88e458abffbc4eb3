// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the URI of the server where the host wants it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use pmix_proto::Contact;

use super::Builder;
use crate::Error;
use crate::fork::RELEASE;
use crate::rendezvous::{Locations, Rendezvous};

/// Writes the rendezvous files, and the address where the host wants to read it.
///
/// # Errors
/// A file cannot be written, and it is required.
pub(super) fn publish(
    settings: &Builder,
    places: &Locations<'_>,
    uri: &str,
    started: SystemTime,
) -> Result<Rendezvous, Error> {
    let contact = Contact {
        uri: uri.to_owned(),
        release: RELEASE.to_owned(),
        pid: std::process::id(),
        user: user(),
        started,
    };
    let opened = Rendezvous::open(settings.offers, places, &contact);
    let opened = opened.and_then(|files| report(files, settings, places, &contact));
    match opened {
        Err(error) if !settings.rendezvous_required => {
            tracing::warn!(%error, "tools do not find this server");
            Ok(Rendezvous::default())
        }
        other => other,
    }
}

fn report(
    mut files: Rendezvous,
    settings: &Builder,
    places: &Locations<'_>,
    contact: &Contact,
) -> Result<Rendezvous, Error> {
    let line = format!("{}\n", contact.uri);
    let written = match settings.report_uri.as_deref() {
        None => Ok(()),
        Some("-") => io::stdout().write_all(line.as_bytes()),
        Some("+") => io::stderr().write_all(line.as_bytes()),
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            let path = Path::new("/dev/fd").join(number);
            let open = File::options().write(true).open(path);
            open.and_then(|mut file| file.write_all(line.as_bytes()))
        }
        Some(path) => {
            return files
                .add(Path::new(path), contact, places.mode)
                .map(|()| files);
        }
    };
    written.map_err(|e| Error::io("reporting how the server is reached", e))?;
    Ok(files)
}

/// The user and the group that this process runs as.
pub(super) fn user() -> (u32, u32) {
    use rustix::process::{getegid, geteuid};
    (geteuid().as_raw(), getegid().as_raw())
}
