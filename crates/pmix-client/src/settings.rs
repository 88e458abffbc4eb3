// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a client and their values in its environment.
//!
//! Source: OpenPMIx, the variables `PMIX_*` that its servers set for clients
//! (`PMIx_server_setup_fork`).

use std::ffi::OsStr;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bfrops::{BufferKind, Layout, Module};
use pmix_mca::Environment;
use pmix_proto::request::PREFETCH_VARIABLE;
use pmix_proto::shared;
use pmix_proto::{PeerForm, Role};
use pmix_types::{Proc, Rank, Status};

use crate::{Error, Uri};

/// The variables with the address of the server, the newest first, and the packing module of a client that uses it.
const ADDRESSES: &[(&str, Module)] = &[
    ("PMIX_SERVER_URI61", Module::V61),
    ("PMIX_SERVER_URI51", Module::V51),
    ("PMIX_SERVER_URI41", Module::V41),
    ("PMIX_SERVER_URI4", Module::V4),
    ("PMIX_SERVER_URI3", Module::V3),
    ("PMIX_SERVER_URI21", Module::V21),
    ("PMIX_SERVER_URI2", Module::V20),
];

/// The security module by which a client proves its user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Security {
    /// The client sends the numbers of its user and group.
    #[default]
    Native,
    /// The client sends no credential.
    None,
    /// The client sends a credential of the MUNGE daemon of its node. This needs the feature `munge` of the crate.
    Munge,
}

/// The name of a client, the address of its server, and limits.
///
/// | variable | content |
/// | --- | --- |
/// | `PMIX_NAMESPACE` | the nspace of the job |
/// | `PMIX_RANK` | the rank in it |
/// | `PMIX_SERVER_URI61`, `51`, `41`, `4`, `3`, `21`, `2` | the [address](Uri); the first selects the packing |
/// | `PMIX_SECURITY_MODE` | the security modules that the server accepts, comma-separated |
/// | `PMIX_BFROP_BUFFER_TYPE` | `PMIX_BFROP_BUFFER_FULLY_DESC` for fully described buffers |
/// | `PMIX_VERSION` | the release of the server |
/// | `PMIX_HOSTNAME` | the server's name of this node |
/// | [`PMIXRS_SHARED_DATA`](shared::VARIABLE) | the name of a server with shared memory, and the address of the table |
/// | [`PREFETCH_VARIABLE`] | the name of a server that sends data of further processes with a get |
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The name of the process. A tool without a name gets one from its server.
    pub proc: Proc<'static>,
    /// The role of the process in the hello: a client or a kind of tool.
    pub role: Role,
    /// The address and name of the server. A process without one is a [singleton](Self::singleton).
    pub server: Option<Uri>,
    /// The release of the server, for example `4.2.2`, if known. Requests to an older release are sent in its form.
    pub server_version: Option<String>,
    /// `true` if this client replaces the name of one of its groups by the members. Clients do so for servers of
    /// OpenPMIx since 5.0, which do not.
    pub resolves_groups: bool,
    /// `true` if the program decides about each acceptance of its invitations, as about a decline; see
    /// [`ClientEvent::Group`](crate::ClientEvent::Group). It must then read its events while it invites.
    pub asks_about_acceptances: bool,
    /// `true` if the server can remove committed keys: a key that is removed, or put again for fewer processes. Servers
    /// of this project and of OpenPMIx since 7 can. Other servers ignore removals without an error, so the client does
    /// not send them any.
    pub removes_keys: bool,
    /// `true` if the server understands that a commit continues in another message, as servers of this project do. A
    /// process that waits for the first commit of this one then waits for all of its messages.
    pub reads_commit_parts: bool,
    /// `true` if the server notifies the invited processes of a lost leader (`PMIX_GROUP_LEADER_FAILED`) and selects
    /// the next one, as servers of this project do. With other servers, a join ends when the exit event of its leader
    /// arrives.
    pub selects_leaders: bool,
    /// The layout that both sides pack in.
    pub layout: Layout,
    /// The security module by which the process proves its user.
    pub security: Security,
    /// The user that alone may verify a credential of MUNGE; `None` for any user.
    pub verifier: Option<u32>,
    /// The name that the server gives this node.
    pub host: Option<String>,
    /// The time limit of each call without one of its own; `None` for no limit. A fence may take long.
    pub time_limit: Option<Duration>,
    /// The time limit of init; `None` for [`time_limit`](Self::time_limit).
    pub init_limit: Option<Duration>,
    /// The largest length of a reply in bytes. A longer reply ends the connection with `PMIX_ERR_OUT_OF_RESOURCE`
    /// before it is read.
    pub max_reply_bytes: u32,
    /// The largest size in bytes of events and output that wait to be read; events have 4 MiB more, or a quarter of this size
    /// if that is less. Further ones are dropped and counted.
    pub max_unread_bytes: usize,
    /// The largest length in bytes of a decompressed string (`PMIX_COMPRESSED_STRING`). A [`get`](crate::Client::get)
    /// of a longer one fails with `PMIX_ERR_OUT_OF_RESOURCE`.
    pub max_string_bytes: usize,
    /// The largest number of bytes of other processes of the job that the server may send with the reply to a get; 0
    /// disables the prefetch. Unread data are dropped at the next reply of another kind and at the next event. Data
    /// beyond this number are not stored.
    pub max_prefetch_bytes: u32,
    /// The address of the memory that the server shares with the processes of the job on this node. With `None` all
    /// data are requested by messages.
    pub shared_data: Option<String>,
    /// `true` if init waits for a debugger when the job info requests it (`PMIX_DEBUG_STOP_IN_INIT`). This applies to
    /// clients and tools that a server started.
    pub stops_in_init: bool,
    /// The function that each thread of a [`Client`](crate::Client) calls when it starts.
    pub thread_start: Option<ThreadStart>,
}

/// A function that each thread of the library calls when it starts, for example to bind itself to processors.
#[derive(Clone)]
pub struct ThreadStart(Arc<dyn Fn() + Send + Sync>);

impl ThreadStart {
    /// Wraps a function. Several threads may call it at once.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(call))
    }

    /// Calls the function.
    pub fn call(&self) {
        (self.0)();
    }
}

impl fmt::Debug for ThreadStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ThreadStart")
    }
}

impl Settings {
    /// Enough for the job info of a million processes, as replies grow with the job.
    const MAX_REPLY_BYTES: u32 = 512 << 20;
    const MAX_UNREAD_BYTES: usize = 64 << 20;
    const MAX_STRING_BYTES: usize = 64 << 20;
    const MAX_PREFETCH_BYTES: u32 = 1 << 20;

    /// Creates settings for a process and its server, with defaults for the rest.
    #[must_use]
    pub const fn new(proc: Proc<'static>, server: Uri) -> Self {
        Self::with(proc, Some(server))
    }

    const fn with(proc: Proc<'static>, server: Option<Uri>) -> Self {
        Self {
            proc,
            role: Role::CLIENT,
            server,
            server_version: None,
            resolves_groups: false,
            asks_about_acceptances: false,
            removes_keys: false,
            reads_commit_parts: false,
            selects_leaders: false,
            layout: Layout::new(Module::V41),
            security: Security::Native,
            verifier: None,
            host: None,
            time_limit: None,
            init_limit: None,
            max_reply_bytes: Self::MAX_REPLY_BYTES,
            max_unread_bytes: Self::MAX_UNREAD_BYTES,
            max_string_bytes: Self::MAX_STRING_BYTES,
            max_prefetch_bytes: 0,
            shared_data: None,
            stops_in_init: true,
            thread_start: None,
        }
    }

    /// Creates settings for a process without a name and a server.
    pub(crate) fn unconnected() -> Self {
        Self::with(Proc::default(), None)
    }

    /// Creates settings for a tool that gets its name from the server, with defaults for the rest.
    #[must_use]
    pub fn of_tool(server: Uri) -> Self {
        Self {
            role: Role::TOOL,
            ..Self::new(Proc::default(), server)
        }
    }

    /// Creates settings for a process that no launcher started. It has no server and is a job of its own with rank 0
    /// and size 1.
    ///
    /// The nspace has the form of OpenPMIx: `singleton`, the host name and the process id, separated by dots.
    /// [`Client::init`](crate::Client::init) lists the calls that such a process can make.
    #[must_use]
    pub fn singleton() -> Self {
        let system = rustix::system::uname();
        let host = system.nodename().to_string_lossy();
        let nspace = format!("singleton.{host}.{}", std::process::id());
        Self {
            host: Some(host.into_owned()),
            ..Self::with(Proc::new(nspace, Rank::new(0)), None)
        }
    }

    /// Reads the settings from the environment of this process.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`of`](Self::of).
    pub fn from_env() -> Result<Self, Error> {
        Self::of(&Environment::of_process())
    }

    /// Reads the settings from the environment of this process, or creates those of a [singleton](Self::singleton) if
    /// `PMIX_NAMESPACE` is not set, that is, if no launcher started it.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`of`](Self::of). An environment with a job but without server or rank is an error.
    /// Otherwise each process of that job would become a singleton.
    pub fn from_env_or_singleton() -> Result<Self, Error> {
        let environment = Environment::of_process();
        match var(&environment, "PMIX_NAMESPACE")? {
            Some(_) => Self::of(&environment),
            None => Ok(Self::singleton()),
        }
    }

    /// Reads the settings from an environment.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_AVAILABLE` if no PMIx server started this process, `PMIX_ERR_BAD_PARAM` with the name of a
    /// variable that cannot be parsed, and `PMIX_ERR_NOT_SUPPORTED` if the server and this client have no security
    /// module in common.
    pub fn of(environment: &Environment) -> Result<Self, Error> {
        let proc = proc(environment)?;
        let proc = proc.ok_or_else(|| missing("PMIX_NAMESPACE or PMIX_RANK"))?;
        let address = Uri::of_environment(environment)?;
        let (server, module) = address.ok_or_else(|| missing("PMIX_SERVER_URI41"))?;
        Self::at(environment, proc, server, module)
    }

    /// Reads the settings for the connection of a launcher to its tool, if the tool passed its address
    /// (`PMIX_LAUNCHER_RNDZ_URI`).
    ///
    /// If the tool itself started the launcher, the environment has the launcher's name and the packing module. If
    /// another server started it, the launcher keeps the name from that server. Without a name it gets one from the
    /// tool.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` with the name of a variable that cannot be parsed, and `PMIX_ERR_NOT_SUPPORTED` if
    /// the tool and this launcher have no security module in common.
    pub fn of_launcher(environment: &Environment) -> Result<Option<Self>, Error> {
        const VARIABLE: &str = "PMIX_LAUNCHER_RNDZ_URI";
        let Some(text) = var(environment, VARIABLE)? else {
            return Ok(None);
        };
        let tool: Uri = text.parse().map_err(|error: Error| error.of(VARIABLE))?;
        let started_by = Uri::of_environment(environment)?;
        let is_of_tool = started_by.is_none_or(|(server, _)| server == tool);
        Ok(Some(match proc(environment)? {
            Some(proc) if is_of_tool => Self {
                role: Role::STARTED_LAUNCHER,
                ..Self::at(environment, proc, tool, Module::V41)?
            },
            Some(proc) => Self {
                role: Role::LAUNCHER_WITH_ID,
                ..Self::new(proc, tool)
            },
            None => Self {
                role: Role::LAUNCHER,
                ..Self::of_tool(tool)
            },
        }))
    }

    /// Reads the remaining settings of a connection to a server from the environment.
    fn at(
        environment: &Environment,
        proc: Proc<'static>,
        server: Uri,
        module: Module,
    ) -> Result<Self, Error> {
        let var = |name: &str| var(environment, name);
        let buffer = match var("PMIX_BFROP_BUFFER_TYPE")?.as_deref() {
            Some("PMIX_BFROP_BUFFER_FULLY_DESC") => BufferKind::Described,
            _ => BufferKind::NonDescribed,
        };
        let name = format!("{}.{}", server.server.nspace, server.server.rank);
        let shared_data = var(shared::VARIABLE)?.and_then(|text| {
            let (of, address) = text.rsplit_once(' ')?;
            (of == name).then(|| address.to_owned())
        });
        // Only servers of this project set this variable. It may be inherited from an outer server, so the name is
        // compared.
        let is_ours = var(PREFETCH_VARIABLE)?.is_some_and(|of| of == name);
        let layout = Layout::new(module).with_buffer(buffer);
        let server_version = var("PMIX_VERSION")?;
        let form =
            { server_version.as_ref() }.map(|version| PeerForm::new(layout, version.as_bytes()));
        let is_since = |major| form.is_some_and(|form| form.major >= major);
        let resolves_groups = !is_ours && is_since(5);
        Ok(Self {
            max_prefetch_bytes: if is_ours { Self::MAX_PREFETCH_BYTES } else { 0 },
            shared_data,
            server_version,
            resolves_groups,
            removes_keys: is_ours || is_since(7),
            reads_commit_parts: is_ours,
            selects_leaders: is_ours,
            layout,
            security: security(var("PMIX_SECURITY_MODE")?.as_deref())?,
            host: var("PMIX_HOSTNAME")?,
            ..Self::new(proc, server)
        })
    }
}

/// Returns the name of this process if a server set one.
fn proc(environment: &Environment) -> Result<Option<Proc<'static>>, Error> {
    let nspace = var(environment, "PMIX_NAMESPACE")?;
    let Some((nspace, rank)) = nspace.zip(var(environment, "PMIX_RANK")?) else {
        return Ok(None);
    };
    let rank = rank.parse().map_err(|_| unread("PMIX_RANK", &rank))?;
    Ok(Some(Proc::new(nspace, Rank::new(rank))))
}

fn var(environment: &Environment, name: &str) -> Result<Option<String>, Error> {
    let found = (environment.vars.iter()).find(|(known, _)| known == OsStr::new(name));
    let Some((_, value)) = found.filter(|(_, value)| !value.is_empty()) else {
        return Ok(None);
    };
    let text = value.to_str();
    let text = text.ok_or_else(|| unread(name, &value.to_string_lossy()))?;
    Ok(Some(text.to_owned()))
}

impl Uri {
    /// Returns the address of the server in an environment and the packing module of a client that uses it, or `None`
    /// if no variable has one.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_BAD_PARAM` with the name of the variable that cannot be parsed.
    pub fn of_environment(environment: &Environment) -> Result<Option<(Self, Module)>, Error> {
        for (name, module) in ADDRESSES {
            if let Some(text) = var(environment, name)? {
                let uri = text.parse().map_err(|error: Error| error.of(name))?;
                return Ok(Some((uri, *module)));
            }
        }
        Ok(None)
    }
}

impl Security {
    /// Returns the security module that the parameter `psec` in an environment selects for a tool, as it does for a
    /// server.
    ///
    /// # Errors
    ///
    /// Returns `PMIX_ERR_NOT_SUPPORTED` if the parameter names only modules that tools do not support.
    pub fn of_tool(environment: &Environment) -> Result<Self, Error> {
        let modules = var(environment, "PMIX_MCA_psec")?;
        // A list that begins with a caret disables modules.
        let is_list = |modules: &String| !modules.is_empty() && !modules.starts_with('^');
        security(modules.filter(is_list).as_deref()).map_err(|error| error.of("PMIX_MCA_psec"))
    }
}

/// Returns the first security module of the server that this client supports, or the default without a list. MUNGE needs
/// its daemon, so it comes last.
fn security(modules: Option<&str>) -> Result<Security, Error> {
    let Some(modules) = modules else {
        return Ok(Security::default());
    };
    let mut known = modules.split(',').filter_map(|name| match name.trim() {
        "native" => Some(Security::Native),
        "none" => Some(Security::None),
        _ => None,
    });
    let with_munge = || {
        let is_munge = |name: &str| cfg!(feature = "munge") && name.trim() == "munge";
        modules.split(',').any(is_munge).then_some(Security::Munge)
    };
    known.next().or_else(with_munge).ok_or_else(|| {
        let own = match cfg!(feature = "munge") {
            true => "native, none and munge",
            false => "native and none",
        };
        let message = format!(
            "the server supports only the security modules {modules}; this client supports {own}"
        );
        Error::new(Status::ERR_NOT_SUPPORTED, message)
    })
}

fn missing(name: &str) -> Error {
    let message = format!("this process was not started by a PMIx launcher: {name} is not set");
    Error::new(Status::ERR_NOT_AVAILABLE, message)
}

fn unread(name: &str, value: &str) -> Error {
    Error::new(
        Status::ERR_BAD_PARAM,
        format!("cannot parse {name}={value}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(vars: &[(&str, &str)]) -> Result<Settings, Error> {
        let vars = vars.iter().map(|(name, value)| (name.into(), value.into()));
        Settings::of(&Environment {
            vars: vars.collect(),
            cwd: "/".into(),
            home: None,
            system: "/etc".into(),
        })
    }

    const OWN: [(&str, &str); 2] = [("PMIX_NAMESPACE", "job"), ("PMIX_RANK", "3")];

    fn with(more: &[(&str, &str)]) -> Result<Settings, Error> {
        settings(&[&OWN[..], more].concat())
    }

    #[test]
    fn the_newest_server_address_selects_the_packing_module() {
        let old = ("PMIX_SERVER_URI21", "s.0;tcp4://127.0.0.1:1");
        let new = ("PMIX_SERVER_URI41", "s.0;tcp4://127.0.0.1:2");
        let both = with(&[old, new]).unwrap();
        assert_eq!(both.proc, Proc::new("job", Rank::new(3)));
        assert_eq!(
            (both.layout.module, both.server.unwrap().address.port()),
            (Module::V41, 2)
        );
        let one = with(&[old]).unwrap();
        assert_eq!(
            (one.layout.module, one.server.unwrap().address.port()),
            (Module::V21, 1)
        );
        let kind = ("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_FULLY_DESC");
        let described = with(&[new, kind]).unwrap();
        assert_eq!(described.layout.buffer, BufferKind::Described);
    }

    #[test]
    fn only_the_server_named_in_the_variable_prefetches() {
        let most = |of| {
            let address = ("PMIX_SERVER_URI41", "s.0;tcp4://127.0.0.1:2");
            let settings = with(&[address, (PREFETCH_VARIABLE, of)]);
            settings.map(|settings| settings.max_prefetch_bytes)
        };
        assert_eq!(most("s.0"), Ok(1 << 20));
        assert_eq!(most(""), Ok(0));
        // The variable comes from an outer server, and the one that started this process does not know it.
        assert_eq!(most("outer.0"), Ok(0));
    }

    #[test]
    fn only_the_server_named_in_the_variable_shares_data() {
        let shared = |text| {
            let address = ("PMIX_SERVER_URI41", "s.0;tcp4://127.0.0.1:2");
            let settings = with(&[address, (shared::VARIABLE, text)]);
            settings.map(|settings| settings.shared_data)
        };
        assert_eq!(shared("s.0 1.2.ab"), Ok(Some("1.2.ab".to_owned())));
        assert_eq!(shared("outer.0 1.2.ab"), Ok(None));
        assert_eq!(shared("s.0"), Ok(None));
        assert_eq!(shared(""), Ok(None));
    }

    #[test]
    fn key_removal_is_detected_by_the_server_release_or_our_marker() {
        let removes = |version, of| {
            let address = ("PMIX_SERVER_URI41", "s.0;tcp4://127.0.0.1:2");
            let version = ("PMIX_VERSION", version);
            let settings = with(&[address, version, (PREFETCH_VARIABLE, of)]);
            settings.map(|settings| (settings.removes_keys, settings.reads_commit_parts))
        };
        assert_eq!(removes("5.0.11", "s.0"), Ok((true, true)));
        assert_eq!(removes("5.0.11", ""), Ok((false, false)));
        assert_eq!(removes("4.2.2", "outer.0"), Ok((false, false)));
        assert_eq!(removes("7.0.0a1", ""), Ok((true, false)));
        assert_eq!(removes("", ""), Ok((false, false)));
    }

    #[test]
    fn a_security_module_that_both_sides_support_is_selected() {
        let mode = |modes| {
            let new = ("PMIX_SERVER_URI41", "s.0;tcp4://127.0.0.1:2");
            with(&[new, ("PMIX_SECURITY_MODE", modes)]).map(|settings| settings.security)
        };
        assert_eq!(mode("munge,native"), Ok(Security::Native));
        assert_eq!(mode("none"), Ok(Security::None));
        let munge = mode("munge").map_err(|error| error.status());
        match cfg!(feature = "munge") {
            true => assert_eq!(munge, Ok(Security::Munge)),
            false => assert_eq!(munge, Err(Status::ERR_NOT_SUPPORTED)),
        }
        for (psec, expected) in [
            ("native", Ok(Security::Native)),
            ("", Ok(Security::Native)),
            ("^munge", Ok(Security::Native)),
            ("other", Err(Status::ERR_NOT_SUPPORTED)),
        ] {
            let environment = Environment {
                vars: vec![("PMIX_MCA_psec".into(), psec.into())],
                cwd: "/".into(),
                home: None,
                system: "/etc".into(),
            };
            let selected = Security::of_tool(&environment).map_err(|error| error.status());
            assert_eq!(selected, expected, "{psec}");
        }
        assert_eq!(mode(""), Ok(Security::Native));
        let error = mode("other").unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
    }

    #[test]
    fn a_process_without_a_launcher_gets_not_available() {
        for vars in [&[][..], &OWN, &OWN[..1], &OWN[1..]] {
            let error = settings(vars).unwrap_err();
            assert_eq!(error.status(), Status::ERR_NOT_AVAILABLE, "{vars:?}");
        }
        let rank = settings(&[("PMIX_NAMESPACE", "job"), ("PMIX_RANK", "-1")]);
        assert_eq!(rank.unwrap_err().status(), Status::ERR_BAD_PARAM);
    }
}
