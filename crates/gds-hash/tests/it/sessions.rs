// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of sessions that the host registers apart from jobs.

use gds_hash::{Request, Store};
use pmix_types::{DataArray, Info, Nspace, Rank, Status, Value, keys};

use crate::store::{get, maps, store};

/// Returns a session value that a job asks for by the number of the session.
fn of_session(store: &Store, nspace: &str, id: u32, key: &str) -> Result<Value<'static>, Status> {
    let asked = [
        Info::new(keys::SESSION_INFO, true),
        Info::new(keys::SESSION_ID, id),
    ];
    let request = Request::new(Rank::WILDCARD, key).with(&asked);
    let found = store.get(&Nspace::new(nspace), &request);
    found.map_err(|error| error.status())
}

#[test]
fn a_registered_session_is_known_before_its_jobs_and_after_them() {
    let store = store();
    let name = |name: &'static str| Info::new(keys::CLUSTER_ID, name);
    let nodes = Info::new(keys::NODE_MAP, "a,b,c");
    let big = || Ok("big".into());
    assert_eq!(store.register_session(7, &[name("big"), nodes]), Ok(vec![]));
    assert_eq!(of_session(&store, "none", 7, keys::CLUSTER_ID), big());
    assert_eq!(
        of_session(&store, "none", 7, keys::NUM_NODES),
        Ok(Value::Uint32(3))
    );
    // The name of the job that holds the session is no value of the session.
    assert!(of_session(&store, "none", 7, keys::NSPACE).is_err());
    assert!(of_session(&store, "none", 8, keys::CLUSTER_ID).is_err());

    // A second registration and a description by a job change nothing.
    assert_eq!(store.register_session(7, &[name("other")]), Ok(vec![]));
    let own = Value::DataArray(DataArray::Info(vec![
        Info::new(keys::SESSION_ID, 7_u32),
        name("job's"),
    ]));
    let own = [Info::new(keys::SESSION_INFO_ARRAY, own)];
    store.register_nspace(&Nspace::new("in"), 1, &own).unwrap();
    store
        .register_nspace(&Nspace::new("out"), 1, &maps("a", "0"))
        .unwrap();
    assert_eq!(get(&store, "in", Rank::new(0), keys::CLUSTER_ID), big());
    assert_eq!(of_session(&store, "out", 7, keys::CLUSTER_ID), big());
    assert!(get(&store, "out", Rank::new(0), keys::CLUSTER_ID).is_err());

    store.deregister_nspace(&Nspace::new("in")).unwrap();
    assert_eq!(of_session(&store, "out", 7, keys::CLUSTER_ID), big());
    store.deregister_session(7).unwrap();
    assert!(of_session(&store, "out", 7, keys::CLUSTER_ID).is_err());
    assert!(store.deregister_session(7).is_err());
}

#[test]
fn a_session_of_a_job_outlives_it_once_registered() {
    let store = store();
    let array = |infos| {
        let infos = Value::DataArray(DataArray::Info(infos));
        vec![Info::new(keys::SESSION_INFO_ARRAY, infos)]
    };
    let id = || Info::new(keys::SESSION_ID, 7_u32);
    let name = |name: &'static str| Info::new(keys::CLUSTER_ID, name);
    let register = |nspace: &'static str, infos: Vec<Info<'static>>| {
        store.register_nspace(&Nspace::new(nspace), 1, &infos)
    };
    // The first job only names the session, and the second one describes it.
    register("bare", array(vec![id()])).unwrap();
    register("told", array(vec![id(), name("first")])).unwrap();
    let updated = store.register_session(7, &[name("second")]);
    assert_eq!(updated, Ok(vec![Nspace::new("bare")]));
    for nspace in ["bare", "told"] {
        let found = get(&store, nspace, Rank::new(0), keys::CLUSTER_ID);
        assert_eq!(found, Ok("first".into()), "{nspace}");
        store.deregister_nspace(&Nspace::new(nspace)).unwrap();
    }
    let found = of_session(&store, "none", 7, keys::CLUSTER_ID);
    assert_eq!(found, Ok("first".into()));
}

#[test]
fn a_session_with_a_wrong_number_or_wrong_infos_is_not_registered() {
    let store = store();
    let refused = |id, infos: &[Info<'_>]| store.register_session(id, infos).unwrap_err().status();
    assert_eq!(refused(u32::MAX, &[]), Status::ERR_BAD_PARAM);
    let other = [Info::new(keys::SESSION_ID, 8_u32)];
    assert_eq!(refused(7, &other), Status::ERR_BAD_PARAM);
    let no_map = [Info::new(keys::NODE_MAP, true)];
    assert_eq!(refused(7, &no_map), Status::ERR_TYPE_MISMATCH);
    assert!(store.deregister_session(7).is_err());
    assert_eq!(store.register_session(7, &[]), Ok(vec![]));
    let found = of_session(&store, "none", 7, keys::SESSION_ID);
    assert_eq!(found, Ok(Value::Uint32(7)));
}
