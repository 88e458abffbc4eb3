// SPDX-License-Identifier: MIT OR Apache-2.0
//! The security modules that authenticate the users of clients and tools: the components of the framework
//! `psec`.
//!
//! | component | credential | verified by |
//! | --- | --- | --- |
//! | `native` | user and group, 4 bytes each in the writer's byte order | the registration and the socket's owner |
//! | `munge` | text of MUNGE with its NUL | the daemon of this node |
//! | `none` | none | none; only if it is configured explicitly |
//!
//! A component only decodes a credential; the engine compares it with the registration and with the owner of
//! the socket.
//!
//! Source: PMIx Standard, chapter "Security"; OpenPMIx, the components `native`, `munge` and
//! `none` of the framework `psec`.

mod credentials;
mod munge;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};

use pmix_engine::{Claim, Origin, PeerId, Psec, Verification, Verified};
use pmix_mca::{Catalog, Header, ParamSpec, Params};
use pmix_types::Status;

use crate::Error;
use crate::engine_handle::EngineHandle;

pub use self::credentials::CredentialService;

/// The framework's name.
const FRAMEWORK: &str = "psec";

/// The framework's own parameter.
const PARAMS: &[ParamSpec] = &[ParamSpec {
    name: "psec",
    default: "",
    help: "components to use (munge,native), or, with a leading ^, components to disable; empty: all enabled \
    components",
}];

/// A security module, created by its component.
type Module = Box<dyn Psec>;

/// A component and its constructor.
struct Component {
    header: Header<'static>,
    params: &'static [ParamSpec],
    make: fn(&Params, &VerifyResults) -> Result<Module, Error>,
}

static COMPONENTS: [Component; 3] = [
    Component {
        header: Header {
            name: "munge",
            priority: 20,
            enabled: false,
        },
        params: &[
            ParamSpec {
                name: "psec_munge_library",
                default: "libmunge.so.2",
                help: "the library to load: a file, or a name that the dynamic linker searches for",
            },
            ParamSpec {
                name: "psec_munge_socket",
                default: "",
                help: "the socket of the daemon; empty: the default of the library",
            },
        ],
        make: |params, results| {
            let library = OsStr::new(params.text("psec_munge_library", "libmunge.so.2"));
            let socket = params.text("psec_munge_socket", "");
            let socket = (!socket.is_empty()).then(|| Path::new(socket));
            let results = results.clone();
            let report = move |peer, verified| results.report(peer, verified);
            Ok(Box::new(munge::Munge::open(library, socket, report)?))
        },
    },
    Component {
        header: Header {
            name: "native",
            priority: 10,
            enabled: true,
        },
        params: &[ParamSpec {
            name: "psec_native_require_owner",
            default: "false",
            help: "reject a peer on this node if the kernel does not report its user",
        }],
        make: |params, _| {
            let require_owner = params.flag("psec_native_require_owner", false)?;
            Ok(Box::new(Native { require_owner }))
        },
    },
    Component {
        header: Header {
            name: "none",
            priority: 0,
            enabled: false,
        },
        params: &[],
        make: |_, _| Ok(Box::new(NoSecurity)),
    },
];

/// Returns the catalog of parameters of the framework, for output and checks.
#[must_use]
pub fn psec_parameters() -> Catalog {
    let mut catalog = Catalog::new(FRAMEWORK, PARAMS);
    for component in &COMPONENTS {
        catalog.plain_component(&component.header, component.params);
    }
    catalog
}

/// Returns the components that the parameters select, by priority.
///
/// # Errors
/// Returns an error for an invalid setting, if no component is left, or if a component does not work here.
pub(crate) fn open(params: &Params, results: &VerifyResults) -> Result<Vec<Module>, Error> {
    psec_parameters().check(params)?;
    let headers: Vec<_> = COMPONENTS.iter().map(|one| one.header.clone()).collect();
    let selection = pmix_mca::select(FRAMEWORK, &headers, params)?;
    let make = |index: usize| {
        let component = &COMPONENTS[index];
        let module = (component.make)(params, results);
        module.map_err(|e| e.of(&format!("component {} of psec", component.header.name)))
    };
    selection.active.into_iter().map(make).collect()
}

/// Returns the variables with the parameters that clients need to use the same daemon of MUNGE as the server. The server
/// may have them from a place that its clients do not read, such as a command line.
pub(crate) fn client_params(modules: &[Module], params: &Params) -> Vec<(&'static str, String)> {
    if !modules.iter().any(|module| module.name() == "munge") {
        return Vec::new();
    }
    let variables = [
        (
            "PMIX_MCA_psec_munge_library",
            params.text("psec_munge_library", ""),
        ),
        (
            "PMIX_MCA_psec_munge_socket",
            params.text("psec_munge_socket", ""),
        ),
    ];
    let set = { variables.into_iter() }.filter(|(_, value)| !value.is_empty());
    set.map(|(variable, value)| (variable, value.to_owned()))
        .collect()
}

/// The way of delayed results from a security module to the engine. Results before the server is opened and
/// after it is dropped are ignored.
#[derive(Clone, Default)]
pub(crate) struct VerifyResults(Arc<OnceLock<Weak<EngineHandle>>>);

impl VerifyResults {
    /// Sets the engine that gets the results.
    pub(crate) fn connect(&self, handle: &Arc<EngineHandle>) {
        // The thread of a security module must not keep a dropped server alive.
        self.0.get_or_init(|| Arc::downgrade(handle));
    }

    /// Passes the verified user of a credential, or the error, to the engine.
    fn report(&self, peer: PeerId, verified: Result<Verified, pmix_engine::Error>) {
        if let Some(handle) = self.0.get().and_then(Weak::upgrade) {
            handle.verified(peer, verified);
        }
    }
}

/// The component `none`, which has no credentials and checks nothing.
struct NoSecurity;

impl Psec for NoSecurity {
    fn name(&self) -> &str {
        "none"
    }

    fn verify(&self, _: &[u8], _: &Claim<'_>) -> Result<Verification, pmix_engine::Error> {
        Ok(Verified::default().into())
    }
}

// The component `native`: a peer sends the numbers of its user and group.
//
// | bytes | field, in the writer's byte order |
// | --- | --- |
// | 4 | effective user |
// | 4 | effective group |
//
// Frozen: append only.

struct Native {
    /// `true` to reject a peer of this node if the kernel has no information about its user.
    require_owner: bool,
}

impl Psec for Native {
    fn name(&self) -> &str {
        "native"
    }

    fn verify(
        &self,
        credential: &[u8],
        claim: &Claim<'_>,
    ) -> Result<Verification, pmix_engine::Error> {
        let stated = self.read(credential, claim.origin)?;
        Ok(proven(stated, claim.origin).into())
    }
}

/// Returns the user and group that a credential proves for a connection of this origin.
///
/// In a user namespace (rootless containers, `unshare --user`), the system tells a process other numbers than it tells the
/// server. The credential is only a statement, so the owner of the socket according to the kernel decides.
fn proven(stated: Verified, origin: Origin) -> Verified {
    match origin.uid {
        Some(owner) if stated.uid != Some(owner) => Verified {
            uid: Some(owner),
            gid: origin.gid,
        },
        _ => stated,
    }
}

impl Native {
    /// Decodes the credential of a peer with this origin.
    fn read(&self, credential: &[u8], origin: Origin) -> Result<Verified, pmix_engine::Error> {
        let refused = |why: String| Err(pmix_engine::Error::new(Status::ERR_INVALID_CRED, why));
        // Both sides are on one node, so their byte order is the same.
        let Ok::<[u8; 8], _>(bytes) = credential.try_into() else {
            let len = credential.len();
            return refused(format!(
                "a native credential has 8 bytes, this one has {len}"
            ));
        };
        let [uid @ .., _, _, _, _] = bytes;
        let [_, _, _, _, gid @ ..] = bytes;
        if self.require_owner && origin.loopback && origin.uid.is_none() {
            let why = "the kernel does not report the owner of the socket, which is required";
            return refused(why.to_owned());
        }
        Ok(Verified {
            uid: Some(u32::from_ne_bytes(uid)),
            gid: Some(u32::from_ne_bytes(gid)),
        })
    }
}

#[cfg(test)]
mod tests {
    use pmix_mca::Source;
    use pmix_types::Status;

    use super::*;

    fn names(settings: &[(&str, &str)]) -> Result<Vec<String>, Error> {
        let set = |builder: pmix_mca::ParamsBuilder, (name, value): &(&str, &str)| {
            builder.set(name, *value, Source::Api)
        };
        let params = settings
            .iter()
            .fold(Params::builder(), set)
            .build()
            .unwrap();
        let modules = open(&params, &VerifyResults::default())?;
        Ok(modules.iter().map(|m| m.name().to_owned()).collect())
    }

    #[test]
    fn native_alone_is_the_default() {
        assert_eq!(names(&[]).unwrap(), ["native"]);
    }

    #[test]
    fn none_must_be_named() {
        assert_eq!(
            names(&[("psec", "none,native")]).unwrap(),
            ["native", "none"]
        );
        assert_eq!(names(&[("psec_none_enabled", "true")]).unwrap().len(), 2);
    }

    #[test]
    fn nothing_left_and_unknown_names_are_errors() {
        let nothing = names(&[("psec", "^native")]).unwrap_err();
        assert_eq!(nothing.status(), Status::ERR_SILENT);
        assert!(nothing.to_string().contains("psec = ^native"), "{nothing}");
        let unknown = names(&[("psec", "natvie")]).unwrap_err();
        assert!(unknown.to_string().contains("native"), "{unknown}");
        let unknown = names(&[("psec_native_requrie_owner", "1")]).unwrap_err();
        assert!(unknown.to_string().contains("require_owner"), "{unknown}");
    }

    #[test]
    fn a_component_that_cannot_work_is_named() {
        let library = ("psec_munge_library", "libmunge-not-there.so.9");
        let error = names(&[("psec", "munge"), library])
            .unwrap_err()
            .to_string();
        assert!(error.contains("component munge of psec"), "{error}");
    }

    #[test]
    fn the_committed_plugins_toml_documents_every_key() {
        let text = include_str!("../../../plugins.toml");
        for info in psec_parameters().describe(&Params::default()) {
            let key = match &info.component {
                Some(component) => &info.name[format!("psec_{component}_").len()..],
                None => "select",
            };
            let quoted = format!("# {key} = \"{}\"", info.default);
            let bare = format!("# {key} = {}", info.default);
            let documented = text.contains(&quoted) || text.contains(&bare);
            assert!(documented, "{} = {}", info.name, info.default);
        }
    }

    #[test]
    fn the_owner_of_the_socket_decides_where_a_credential_states_another_user() {
        let of = |uid, gid| Verified { uid, gid };
        let from = |uid, gid| Origin {
            uid,
            gid,
            loopback: true,
        };
        let stated = of(Some(65534), Some(65534));
        let proven = |origin| super::proven(stated, origin);
        assert_eq!(proven(from(Some(1000), None)), of(Some(1000), None));
        let known = proven(from(Some(1000), Some(100)));
        assert_eq!(known, of(Some(1000), Some(100)));
        // Without the information of the kernel, and for the same user, the statement is compared as it is.
        assert_eq!(proven(from(None, None)), stated);
        assert_eq!(proven(from(Some(65534), None)), stated);
    }

    fn verify(
        credential: &[u8],
        require_owner: bool,
        uid: Option<u32>,
    ) -> Result<Verified, pmix_engine::Error> {
        let origin = Origin {
            uid,
            gid: None,
            loopback: true,
        };
        Native { require_owner }.read(credential, origin)
    }

    #[test]
    fn a_credential_is_a_user_and_a_group() {
        let credential = [1000_u32.to_ne_bytes(), 1001_u32.to_ne_bytes()].concat();
        let verified = verify(&credential, false, None).unwrap();
        assert_eq!((verified.uid, verified.gid), (Some(1000), Some(1001)));
        for len in [0, 7, 9] {
            let error = verify(&vec![0; len], false, None).unwrap_err();
            assert_eq!(error.status(), Status::ERR_INVALID_CRED);
        }
    }

    #[test]
    fn the_word_of_the_kernel_can_be_required() {
        assert!(verify(&[0; 8], true, None).is_err());
        assert!(verify(&[0; 8], true, Some(0)).is_ok());
    }
}
