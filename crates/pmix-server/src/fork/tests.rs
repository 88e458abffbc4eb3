// SPDX-License-Identifier: MIT OR Apache-2.0

use pmix_types::{Envar, Info, Rank, Status, Value, keys};

use super::*;

fn fork(vars: &[(&str, &str)]) -> Fork {
    let owned = |(name, value): &(&str, &str)| (name.into(), value.into());
    Fork {
        uri: "rm.0;tcp4://127.0.0.1:4711".to_owned(),
        security_mode: "native".to_owned(),
        security_params: vec![("PMIX_MCA_psec_munge_socket", "/run/m".to_owned())],
        hostname: "n01".to_owned(),
        server_dir: "/tmp/session".into(),
        system_dir: "/tmp".into(),
        environment: Environment {
            vars: vars.iter().map(owned).collect(),
            cwd: "/".into(),
            home: None,
            system: "/etc".into(),
        },
        open_mpi_4: false,
        local_support: LocalSupport::default(),
        shared: Arc::new(SharedTables::new(1 << 20)),
    }
}

#[test]
fn open_mpi_4_finds_the_sign_of_a_launcher_where_the_host_asks_for_it() {
    let mut fork = fork(&[]);
    assert_eq!(value(&environment(&fork), "JSM_JSRUN_PORT"), None);
    fork.open_mpi_4 = true;
    let found = value(&environment(&fork), "JSM_JSRUN_PORT");
    assert_eq!(found.as_deref(), Some("1"));
}

fn environment(fork: &Fork) -> Vec<(String, String)> {
    let variables = fork.environment(&Proc::new("job@1", Rank::new(3)));
    let text = |text: OsString| text.into_string().unwrap();
    variables
        .into_iter()
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

fn value(environment: &[(String, String)], name: &str) -> Option<String> {
    let found: Vec<_> = environment
        .iter()
        .filter(|(known, _)| known == name)
        .collect();
    assert!(found.len() < 2, "{name} is there twice");
    found.first().map(|(_, value)| value.clone())
}

fn envar(key: &'static str, name: &str, value: &str) -> Info<'static> {
    let envar = Envar {
        envar: Some(name.to_owned().into()),
        value: Some(value.to_owned().into()),
        separator: b':',
    };
    Info::new(key, Value::Envar(Box::new(envar)))
}

#[test]
fn a_client_finds_its_server_and_itself() {
    let environment = environment(&fork(&[]));
    let expected = [
        ("PMIX_NAMESPACE", "job@1"),
        ("PMIX_RANK", "3"),
        ("PMIX_SERVER_URI41", "rm.0;tcp4://127.0.0.1:4711"),
        ("PMIX_SERVER_URI2", "rm.0;tcp4://127.0.0.1:4711"),
        ("PMIX_GDS_MODULE", "hash"),
        ("PMIX_MCA_psec_munge_socket", "/run/m"),
        ("PMIX_SECURITY_MODE", "native"),
        ("PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC"),
        ("PMIX_HOSTNAME", "n01"),
        ("PMIX_VERSION", RELEASE),
        ("PMIX_SERVER_TMPDIR", "/tmp/session"),
        ("PMIX_SYSTEM_TMPDIR", "/tmp"),
        ("PMIXRS_PREFETCH_SERVER", "rm.0"),
    ];
    for (name, expected) in expected {
        assert_eq!(
            value(&environment, name).as_deref(),
            Some(expected),
            "{name}"
        );
    }
}

#[test]
fn local_support_changes_the_environment_of_its_job_alone() {
    let fork = fork(&[("PATH", "/bin"), ("SET", "outer")]);
    let job = "job@1".into();
    let infos = [
        envar(keys::SET_ENVAR, "SET", "inner"),
        envar(keys::ADD_ENVAR, "PATH", "not taken"),
        envar(keys::PREPEND_ENVAR, "PATH", "/opt/bin"),
        envar(keys::APPEND_ENVAR, "PATH", "/sbin"),
        envar(keys::ADD_ENVAR, "NEW", "1"),
        Info::new("some.key", true),
    ];
    fork.local_support.set(&job, &infos).unwrap();
    fork.local_support
        .set(&"other".into(), &[envar(keys::SET_ENVAR, "OTHER", "1")])
        .unwrap();
    let changed = environment(&fork);
    let expected = [
        ("SET", "inner"),
        ("PATH", "/opt/bin:/bin:/sbin"),
        ("NEW", "1"),
    ];
    for (name, expected) in expected {
        assert_eq!(value(&changed, name).as_deref(), Some(expected), "{name}");
    }
    assert_eq!(value(&changed, "OTHER"), None);
    fork.local_support.forget(&job);
    assert_eq!(value(&environment(&fork), "PATH"), None);
}

#[test]
fn invalid_changes_of_an_environment_are_rejected() {
    let support = LocalSupport::default();
    let set = |info| support.set(&"job@1".into(), &[info]).unwrap_err().status();
    assert_eq!(
        set(Info::new(keys::UNSET_ENVAR, "A")),
        Status::ERR_NOT_SUPPORTED
    );
    let mut processed = Info::new(keys::UNSET_ENVAR, "A").required();
    processed.set_processed();
    assert!(support.set(&"job@1".into(), &[processed]).is_ok());
    assert_eq!(
        set(Info::new(keys::SET_ENVAR, "A=1")),
        Status::ERR_BAD_PARAM
    );
    assert_eq!(
        set(envar(keys::SET_ENVAR, "A=1", "2")),
        Status::ERR_BAD_PARAM
    );
}

#[test]
fn an_application_takes_parameters_and_what_its_model_reads_along() {
    let fork = fork(&[("PMIX_MCA_a", "1"), ("OMPI_MCA_b", "2"), ("HOME", "/root")]);
    let names = |infos: &[Info<'_>]| -> Vec<String> {
        let found = setup_envars(&fork.environment, infos);
        let name = |info: &Info<'_>| match &info.value {
            Value::Envar(envar) => envar.envar.as_ref().unwrap().to_string(),
            other => panic!("{other:?}"),
        };
        found.iter().map(name).collect()
    };
    let wanted = Info::new(keys::SETUP_APP_ENVARS, true);
    let model = Info::new(keys::PROGRAMMING_MODEL, "ompi");
    assert_eq!(names(&[]), [""; 0]);
    assert_eq!(
        names(&[Info::new(keys::SETUP_APP_NONENVARS, true)]),
        [""; 0]
    );
    assert_eq!(names(std::slice::from_ref(&wanted)), ["PMIX_MCA_a"]);
    assert_eq!(names(&[wanted, model]), ["PMIX_MCA_a", "OMPI_MCA_b"]);
}
