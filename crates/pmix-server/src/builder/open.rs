// SPDX-License-Identifier: MIT OR Apache-2.0
//! From settings to a server that listens.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use gds_hash::{Host as Node, Store};
use pmix_engine::Engine;
use pmix_mca::Surroundings;
use pmix_types::{Nspace, Proc, Status};

use super::Builder;
use crate::driver::{Driver, Parts};
use crate::fork::{Fork, LocalSupport};
use crate::rendezvous::{Contact, Places, Rendezvous};
use crate::server::RELEASE;
use crate::{Error, Server, psec};

/// Opens a server with these settings.
pub(super) fn open(mut settings: Builder) -> Result<Server, Error> {
    let surroundings = settings
        .surroundings
        .take()
        .unwrap_or_else(Surroundings::of_process);
    let params = match settings.params.take() {
        Some(params) => params,
        None => surroundings.params(None)?.build()?,
    };
    settings.config.server.nspace = own_nspace(settings.nspace.take())?;
    settings.config.user = Some(user());
    limit_greetings(&mut settings.config);
    let psec = psec::open(&params)?;
    let preg = match settings.preg.take() {
        Some(preg) => preg,
        None => Arc::new(pmix_builtin::open_preg(&params)?),
    };
    let hostname = hostname(&mut settings, &surroundings)?;
    let fallback = |variable| directory(&surroundings, variable);
    let system_dir = settings
        .system_tmpdir
        .take()
        .unwrap_or_else(|| fallback("PMIX_SYSTEM_TMPDIR"));
    let server_dir = settings
        .server_tmpdir
        .take()
        .unwrap_or_else(|| fallback("PMIX_SERVER_TMPDIR"));
    let (listener, address) = settings.listening.open()?;
    let server = settings.config.server.clone();
    let uri = uri(&server, address);
    let fork = Fork {
        uri: uri.clone(),
        security_mode: psec
            .iter()
            .map(|one| one.name())
            .collect::<Vec<_>>()
            .join(","),
        hostname: hostname.clone(),
        server_dir: server_dir.clone(),
        system_dir: system_dir.clone(),
        surroundings,
        local_support: LocalSupport::default(),
    };
    let places = Places {
        server_dir: &server_dir,
        system_dir: &system_dir,
        host: &hostname,
        nspace: &server.nspace.as_text().to_str_lossy(),
        mode: settings.socket_mode,
    };
    let rendezvous = rendezvous(&settings, &places, uri)?;
    let files = rendezvous.paths();
    let store = Arc::new(Store::new(Arc::clone(&preg), Node::new(hostname)));
    let engine = Engine::new(settings.config, Arc::clone(&store), psec);
    let driver = Driver::new(Parts {
        engine,
        host: settings.host,
        listener,
        address,
        rendezvous,
        tap: settings.tap,
    })?;
    Ok(Server::new(
        driver,
        fork,
        server,
        preg,
        files,
        settings.external_progress,
    ))
}

/// The name is part of the address and of file names.
fn own_nspace(given: Option<Nspace<'static>>) -> Result<Nspace<'static>, Error> {
    let nspace = given.unwrap_or_else(|| format!("pmix-server:{}", std::process::id()).into());
    let name = nspace.as_bytes();
    let legal = |byte: &u8| byte.is_ascii_graphic() && !b";/".contains(byte);
    if name.is_empty() || name.len() > Nspace::MAX_LEN || !name.iter().all(legal) {
        let why =
            format!("{nspace:?} cannot name a server: 1 to 255 printable characters, no ; or /");
        return Err(Error::new(Status::ERR_BAD_PARAM, why));
    }
    Ok(nspace)
}

fn user() -> (u32, u32) {
    use rustix::process::{getegid, geteuid};
    (geteuid().as_raw(), getegid().as_raw())
}

/// Connections that have not said who they are may not take all descriptors.
fn limit_greetings(config: &mut pmix_engine::Config) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) {
        config.greetings_per_user = config.greetings_per_user.min((limit / 4).max(4));
    }
}

/// What this node is called.
fn hostname(settings: &mut Builder, surroundings: &Surroundings) -> Result<String, Error> {
    let set = || {
        Some(
            surroundings
                .first_of(&["PMIX_HOSTNAME"])?
                .to_string_lossy()
                .into_owned(),
        )
    };
    let system = || {
        rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned()
    };
    let name = settings.hostname.take().or_else(set).unwrap_or_else(system);
    if name.is_empty() || name.contains(['/', '\n']) {
        let why = format!("{name:?} cannot name a node");
        return Err(Error::new(Status::ERR_BAD_PARAM, why));
    }
    Ok(name)
}

/// A temporary directory that the environment names, by a variable of ours or the usual ones.
fn directory(surroundings: &Surroundings, variable: &str) -> PathBuf {
    let found = surroundings.first_of(&[variable, "TMPDIR", "TEMP", "TMP"]);
    found.map_or_else(|| PathBuf::from("/tmp"), PathBuf::from)
}

/// How the server is reached: `<nspace>.<rank>;tcp4://<address>:<port>`.
fn uri(server: &Proc<'_>, address: SocketAddr) -> String {
    let Proc { nspace, rank } = server;
    let scheme = if address.is_ipv4() { "tcp4" } else { "tcp6" };
    format!("{nspace}.{rank};{scheme}://{address}")
}

fn rendezvous(settings: &Builder, places: &Places<'_>, uri: String) -> Result<Rendezvous, Error> {
    let contact = Contact {
        uri,
        release: RELEASE.to_owned(),
        pid: std::process::id(),
        user: user(),
        started: SystemTime::now(),
    };
    let readable = if settings.config.foreign_tools {
        0o044
    } else {
        0
    };
    let places = Places {
        mode: places.mode | readable,
        ..places.clone()
    };
    let opened = Rendezvous::open(settings.offers, &places, &contact);
    let opened = opened.and_then(|files| report(files, settings, &places, &contact));
    match opened {
        Err(error) if !settings.rendezvous_required => {
            tracing::warn!(%error, "tools do not find this server");
            Ok(Rendezvous::default())
        }
        other => other,
    }
}

/// Says how the server is reached where the host wants to read it.
fn report(
    mut files: Rendezvous,
    settings: &Builder,
    places: &Places<'_>,
    contact: &Contact,
) -> Result<Rendezvous, Error> {
    let line = format!("{}\n", contact.uri);
    let written = match settings.report_uri.as_deref() {
        None => Ok(()),
        Some("-") => io::stdout().write_all(line.as_bytes()),
        Some("+") => io::stderr().write_all(line.as_bytes()),
        Some(number) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            let open = File::options()
                .write(true)
                .open(Path::new("/dev/fd").join(number));
            open.and_then(|mut file| file.write_all(line.as_bytes()))
        }
        Some(path) => {
            files.add(Path::new(path), contact, places.mode)?;
            Ok(())
        }
    };
    written.map_err(|e| Error::io("reporting how the server is reached", &e))?;
    Ok(files)
}
