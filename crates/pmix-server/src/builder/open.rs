// SPDX-License-Identifier: MIT OR Apache-2.0
//! Creation of a listening server from its configuration.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use gds_hash::Store;
use pmix_engine::{Config, Credentials, Engine, HostObject, Psec};
use pmix_mca::{Environment, Params};
use pmix_topology::{Cpuset, Topology};
use pmix_types::{Info, Proc, Status, Text, keys};

use super::Builder;
use super::limits::{limit_replies, shared_bytes};
use super::names::{ServerNode, named_file, own_nspace, publish, uri, user};
use crate::driver::{Driver, Parts};
use crate::fork::{Fork, LocalSupport};
use crate::host::{Devices, OwnUpcalls};
use crate::psec::{self, VerifyResults};
use crate::rendezvous::Locations;
use crate::server::Modes;
use crate::shared::SharedTables;
use crate::{Error, Server};

/// Opens a server with these settings.
pub(super) fn open(mut settings: Builder) -> Result<Server, Error> {
    let progress_cpus = progress_cpus(&mut settings)?;
    let environment = settings.environment.take();
    let environment = environment.unwrap_or_else(Environment::of_process);
    let params = match settings.params.take() {
        Some(params) => params,
        None => environment.params(None)?.build()?,
    };
    let topology = settings.topology.take();
    let shared_topology = shared_topology(settings.share_topology, topology.as_ref(), &environment);
    let described_topology = topology.as_ref().map(xml);
    let verify_results = VerifyResults::default();
    let psec = psec::open(&params, &verify_results)?;
    let preg = match settings.preg.take() {
        Some(preg) => preg,
        None => Arc::new(pmix_builtin::open_preg(&params)?),
    };
    let started = SystemTime::now();
    complete_config(&mut settings, &params, started)?;
    let node = ServerNode::new(&mut settings, &environment)?;
    // The files contain the address, so the socket is opened before they are written.
    let (listener, address) = settings.listening.open()?;
    let server = settings.config.server.clone();
    let uri = uri(&server, address);
    let named = named_file(&settings, &environment);
    let rendezvous = publish(
        &settings,
        &locations(&settings, &node),
        named,
        &uri,
        started,
    )?;
    let files = rendezvous.paths();
    let mut fork = fork(uri, &psec, &node, environment);
    fork.security_params = psec::client_params(&psec, &params);
    fork.open_mpi_4 = settings.open_mpi_4;
    fork.shared = shared_tables(&settings, &params)?;
    let store = Arc::new(Store::new(preg.clone(), node.node()));
    let own = OwnUpcalls {
        is_gateway: settings.gateway,
        devices: Devices::new(node.hostname.clone(), topology),
    };
    let mut engine = Engine::new(settings.config, store, psec);
    if let Some(proc) = &settings.singleton {
        register_singleton(&mut engine, proc)?;
    }
    let driver = Driver::new(Parts {
        engine,
        shared: Arc::clone(&fork.shared),
        host: settings.host,
        own,
        listener,
        address,
        rendezvous,
        observer: settings.observer,
    })?;
    // The modules exist before the engine that gets their results.
    verify_results.connect(driver.handle());
    let modes = Modes {
        external_progress: settings.external_progress,
        progress_cpus,
        refuses_contradictions: settings.refuse_contradictions,
        described_topology,
        shared_topology,
    };
    Server::new(driver, fork, server, preg, files, modes)
}

/// Registers a process that no host started, and its job. It is a process of this user, as no host names another.
fn register_singleton(engine: &mut Engine, proc: &Proc<'_>) -> Result<(), Error> {
    engine.register_nspace(&proc.nspace, 1, &[Info::new(keys::JOB_SIZE, 1_u32)])?;
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let user = Credentials::new(uid.as_raw(), gid.as_raw());
    Ok(engine.register_client(proc, user, HostObject(0))?)
}

/// Completes the configuration of the engine with the name and user of this process and with the parameters.
fn complete_config(
    settings: &mut Builder,
    params: &Params,
    started: SystemTime,
) -> Result<(), Error> {
    let config = &mut settings.config;
    limit_replies(config, params)?;
    config.server.nspace = own_nspace(settings.nspace.take())?;
    config.user = Some(user());
    config.started = Some(started);
    limit_handshakes(config);
    Ok(())
}

/// Returns the processors for the progress thread, after a check that it can be bound to them.
fn progress_cpus(settings: &mut Builder) -> Result<Option<Cpuset>, Error> {
    let Some(cpus) = settings.progress_cpus.take() else {
        return Ok(None);
    };
    let checked = match settings.external_progress {
        true => Err(Error::new(
            Status::ERR_NOT_SUPPORTED,
            "with external progress there is no progress thread to bind",
        )),
        false => (cpus.check_bindable()).map_err(|e| Error::new(e.status(), e.to_string())),
    };
    match checked {
        Ok(()) => Ok(Some(cpus)),
        Err(error) if settings.bind_required => Err(error),
        Err(error) => {
            tracing::warn!("the progress thread runs where the process may: {error}");
            Ok(None)
        }
    }
}

/// Returns the topology of this node for the job info, if the configuration shares it.
fn shared_topology(
    wanted: bool,
    given: Option<&Topology>,
    environment: &Environment,
) -> Option<Text<'static>> {
    if !wanted {
        return None;
    }
    let from_environment = || {
        let file = environment.first_of(&["HWLOC_XMLFILE"])?;
        let read = Topology::of_xml_file(Path::new(file));
        read.inspect_err(|error| {
            tracing::warn!("its description of this node is not usable: {error}")
        })
        .ok()
    };
    let read;
    let topology = match given {
        Some(topology) => topology,
        None => {
            read = from_environment().unwrap_or_else(Topology::of_system);
            &read
        }
    };
    Some(xml(topology))
}

fn xml(topology: &Topology) -> Text<'static> {
    Text::new(topology.to_xml().into_owned().into_bytes()).to_shared()
}

/// Limits the connections in the handshake to a part of the descriptors, so that other connections remain possible.
fn limit_handshakes(config: &mut Config) {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) {
        // Any local user can open connections that never finish their handshake. The other three quarters stay for
        // clients.
        config.handshakes_per_user = config.handshakes_per_user.min((limit / 4).max(4));
    }
}

/// Returns the directories and permissions of the rendezvous files.
fn locations<'p>(settings: &Builder, node: &'p ServerNode) -> Locations<'p> {
    // A tool of another user can connect only if it can read the file with the address.
    let readable = if settings.config.foreign_tools {
        0o044
    } else {
        0
    };
    let nspace = settings.config.server.nspace.as_text();
    Locations {
        server_dir: &node.server_dir,
        system_dir: &node.system_dir,
        host: &node.hostname,
        nspace: nspace.to_str_lossy().into_owned(),
        mode: settings.socket_mode | readable,
    }
}

/// Returns the tables of job info in memory that the server shares with its clients.
fn shared_tables(settings: &Builder, params: &Params) -> Result<Arc<SharedTables>, Error> {
    let most = shared_bytes(params, settings.share_data)?;
    Ok(Arc::new(SharedTables::new(most)))
}

/// Returns the environment variables that are common to all clients.
fn fork(uri: String, psec: &[Box<dyn Psec>], node: &ServerNode, environment: Environment) -> Fork {
    let modules: Vec<_> = psec.iter().map(|module| module.name()).collect();
    Fork {
        uri,
        security_mode: modules.join(","),
        security_params: Vec::new(),
        hostname: node.hostname.clone(),
        server_dir: node.server_dir.clone(),
        system_dir: node.system_dir.clone(),
        environment,
        open_mpi_4: false,
        local_support: LocalSupport::default(),
        shared: Arc::new(SharedTables::new(0)),
    }
}
