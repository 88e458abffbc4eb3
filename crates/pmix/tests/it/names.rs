// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program can name every type that the crate takes or returns without another dependency.

use pmix::client::{Client, Error as ClientError, PeerForm, Request};
use pmix::encoding::{Extent, Module, Preg, Scheme};
use pmix::host::forward::mio::Registry;
use pmix::params::{Catalog, ParamInfo, Params};
use pmix::server::upcall::{Fence, Group};
use pmix::server::{Completion, Config, ControlLimits, EventLimits, OutputLimits, Server};
use pmix::types::Info;
use pmix::wire::Layout;

/// Sends a custom request of a client to its server.
fn ask(client: &Client, request: Request<'_>) -> Result<(PeerForm, Vec<u8>), ClientError> {
    let form = *client.form();
    Ok((form, client.request(request).wait()?))
}

/// Changes limits of a server, as a host does.
fn limit(config: &mut Config, control: ControlLimits, events: EventLimits, output: OutputLimits) {
    (config.control, config.events, config.output) = (control, events, output);
}

/// A host that keeps upcalls with their completions.
#[derive(Default)]
struct Upcalls {
    fences: Vec<(Fence, Completion<Vec<u8>>)>,
    _groups: Vec<(Group, Completion<Vec<Info<'static>>>)>,
}

/// Lists the schemes with their parameters, as a program does.
fn schemes<'p>(preg: &'p Preg, value: &[u8]) -> Vec<(&'p dyn Scheme, Option<Extent>)> {
    let extent = |module: &'p Module| {
        let own = value.starts_with(module.scheme.tag());
        let found = preg
            .scheme_of(value)
            .ok()
            .flatten()
            .map(|(_, extent)| extent);
        (&*module.scheme, found.filter(|_| own))
    };
    preg.modules().iter().map(extent).collect()
}

#[test]
fn types_of_signatures_have_names() {
    let params = Params::default();
    let preg = pmix::encoding::open_preg(&params).expect("the schemes");
    let known = schemes(&preg, b"raw:a,b");
    let own = known.iter().filter(|(_, extent)| extent.is_some());
    let own: Vec<_> = own.map(|(scheme, _)| scheme.name()).collect();
    assert_eq!(own, ["raw"]);
    let catalog: Catalog = pmix::server::psec_parameters();
    let infos: Vec<ParamInfo> = catalog.describe(&params);
    assert!(!infos.is_empty());
    // The compiler checks the remaining names.
    let _ = (ask, limit);
    let _: (Option<&Registry>, Option<Layout>, Option<Server>) = (None, None, None);
    assert!(Upcalls::default().fences.is_empty());
}
