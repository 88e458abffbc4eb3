// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loaded component encodes to the same values as the built-in one.

use std::path::PathBuf;

use pmix_mca::Source;
use preg_core::{Limits, Params, Preg, check_plugin};

/// Returns the path of the library, next to this test's program.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("a program has a path");
    let name = format!(
        "{}preg_fold_plugin{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    );
    program.with_file_name(name)
}

fn settings() -> Params {
    let file = library();
    Params::builder()
        .set(
            "preg_base_plugins",
            file.to_str().expect("UTF-8"),
            Source::Api,
        )
        .set("preg", "fold", Source::Api)
        .build()
        .expect("valid")
}

#[test]
fn the_plugin_passes_the_check() {
    let report = check_plugin(&library(), &Params::default(), &[], &[]).expect("loads");
    assert_eq!(report.name, "fold");
    assert!(!report.enabled);
    assert_eq!(report.operations.len(), 7);
    let faults: Vec<_> = report.faults().collect();
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn loaded_and_built_in_component_give_equal_bytes_and_maps() {
    let loaded = Preg::open(&settings(), &[]).expect("opens");
    let built_in = (preg_fold::COMPONENT.query)(&Params::default());
    let built_in = built_in
        .expect("takes no settings")
        .expect("works everywhere");
    let racks = (0..5_000).map(|n| format!("r{:02}n{:02}", n / 72, n % 72));
    let racks = racks.collect::<Vec<_>>().join(",");
    let lists: [&[u8]; 6] = [
        b"",
        b"n1,n2",
        b"n9,n10,n11,login,\xff",
        b"a1,b1,a2,b2,a3",
        b",",
        { racks.as_bytes() },
    ];
    let limits = Limits::default();
    for list in lists {
        let value = loaded.generate_regex(list).expect("encodes");
        assert_eq!(
            Some(&value),
            built_in.generate_regex(list).expect("encodes").as_ref()
        );
        assert_eq!(loaded.parse_regex(value.as_view()).expect("decodes"), list);
        let value = loaded.generate_node_regex(list).expect("encodes").bytes;
        let wanted = built_in.generate_node_regex(list).expect("encodes");
        assert_eq!(Some(&value), wanted.as_ref());
        let nodes = built_in.parse_nodes(&value, &limits).expect("decodes");
        assert_eq!(Some(loaded.parse_nodes(&value).expect("decodes")), nodes);
    }
    for map in [&b"0,1;2,3;4,5"[..], b"0,2;1,3;;7", b"0-3;4-7"] {
        let value = loaded.generate_ppn(map).expect("encodes").bytes;
        assert_eq!(
            Some(&value),
            built_in.generate_ppn(map).expect("encodes").as_ref()
        );
        let procs = built_in.parse_procs(&value, &limits).expect("decodes");
        assert_eq!(Some(loaded.parse_procs(&value).expect("decodes")), procs);
    }
}
