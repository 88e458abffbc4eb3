// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparison with the results of OpenPMIx 4.2.2 with hwloc 2.9.0 for machines in hwloc's XML,
//! recorded in `testdata/topology`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pmix_topology::{Cpuset, DeviceFilter, Topology, relative_locality};
use pmix_types::{DeviceDistance, DeviceType, Status, Text};

/// The name of the host in the results.
const HOST: &str = "n1";

fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/topology")
}

/// Returns the described machines, and their copies after export and import.
fn machines() -> [BTreeMap<String, Topology>; 2] {
    let entries = std::fs::read_dir(data()).expect("the descriptions");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let descriptions = paths.filter(|path| path.extension().is_some_and(|end| end == "xml"));
    let machines = descriptions.map(|path| {
        let name = path
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        let topology = Topology::of_xml_file(&path);
        (
            name,
            topology.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        )
    });
    let machines: BTreeMap<_, _> = machines.collect();
    let again = machines.iter().map(|(name, topology)| {
        let xml = topology.clone().without_xml().to_xml().into_owned();
        let topology = Topology::of_xml(xml).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name.clone(), topology)
    });
    let again = again.collect();
    [machines, again]
}

/// Returns the rows of a call: the machine, the arguments, the result.
fn rows(verb: &str) -> Vec<(String, Vec<String>, Vec<String>)> {
    let text = std::fs::read_to_string(data().join("answers.tsv")).expect("the answers");
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let rows = text.lines().skip(1).map(|line| {
        let mut columns = line.split('\t');
        let mut next = || columns.next().expect("three columns");
        (next().to_owned(), words(next()), words(next()))
    });
    let rows = rows.filter(|(_, question, _)| question.first().is_some_and(|word| word == verb));
    rows.map(|(machine, question, answer)| (machine, question[1..].to_vec(), answer))
        .collect()
}

fn set(list: &str) -> Cpuset {
    Cpuset::parse(if list == "-" { "" } else { list }).expect("a list")
}

#[test]
fn sets_and_localities_equal_those_of_the_library() {
    let all = machines();
    assert!(all[0].len() >= 12, "{}", all[0].len());
    let rows = rows("set");
    assert!(rows.len() >= 200, "{}", rows.len());
    for (machine, question, answer) in rows {
        let cpus = set(&question[0]);
        let [read, written, text, told, locality] = &answer[..] else {
            panic!("{answer:?}");
        };
        assert_eq!([&**read, written, told], ["0"; 3], "{machine}");
        assert_eq!(&cpus.to_pmix(), text, "{machine}");
        assert_eq!(Cpuset::from_pmix(text).as_ref(), Ok(&cpus), "{machine}");
        for machines in &all {
            let ours = machines[&machine].locality(&cpus);
            let ours = ours.as_deref().unwrap_or("-");
            assert_eq!(ours, locality, "{machine}: {cpus}");
        }
    }
}

#[test]
fn localities_are_those_of_the_library() {
    let rows = rows("shared");
    assert!(rows.len() >= 100, "{}", rows.len());
    for (machine, question, answer) in rows {
        // The library never returns success.
        let status = answer[0].parse().map(Status::from_raw).expect("a status");
        assert_eq!(status, Status::ERR_TAKE_NEXT_OPTION, "{machine}");
        for plain in [false, true] {
            let side = |text: &str| match plain {
                true => text.strip_prefix("hwloc:").expect("a prefix").to_owned(),
                false => text.to_owned(),
            };
            let shared = relative_locality(&side(&question[0]), &side(&question[1])).expect("both");
            let bits = format!("0x{:04x}", shared.as_raw());
            assert_eq!(bits, answer[1], "{machine}: {question:?}");
        }
    }
}

#[test]
fn distances_are_those_of_the_library() {
    let (all, rows) = (machines(), rows("distances"));
    assert!(rows.len() >= 60, "{}", rows.len());
    let mut told = 0;
    for (machine, question, answer) in rows {
        let types = match question[1].strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).expect("a number"),
            None if question[1] == "all" => 0,
            None => question[1].parse().expect("a number"),
        };
        let filter = DeviceFilter {
            types: DeviceType::from_raw(types),
            ids: Vec::new(),
        };
        let context = format!("{machine}: {question:?}");
        let [ours, again] = all
            .each_ref()
            .map(|machines| machines[&machine].distances(&set(&question[0]), HOST, &filter));
        assert_eq!(ours, again, "{context}");
        match ours {
            Ok(found) => {
                let found: Vec<_> = found.iter().map(line).collect();
                assert_eq!(answer[0], "0", "{context}");
                assert_eq!(found, answer[1..], "{context}");
                told += found.len();
            }
            // The library would send a request to its server in this case, but has none.
            Err(error) => assert_eq!(answer, ["-25"], "{context}: {error}"),
        }
    }
    assert!(told > 100, "{told} distances");
}

fn line(of: &DeviceDistance<'_>) -> String {
    let text = |text: &Option<Text<'_>>| text.as_ref().expect("a name").to_string();
    let (uuid, name) = (text(&of.uuid), text(&of.osname));
    let (kind, near, far) = (of.device_type.as_raw(), of.mindist, of.maxdist);
    format!("{uuid},{name},{kind},{near},{far}")
}

#[test]
fn device_distances_are_filtered_by_type_and_id() {
    let [machines, _] = machines();
    let ask = |types: DeviceType, ids: &[&str], cpus: &str| {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        let filter = DeviceFilter { types, ids };
        let found = machines["devices"].distances(&set(cpus), HOST, &filter)?;
        let names = found
            .iter()
            .map(|one| one.osname.as_ref().expect("a name").to_string());
        Ok::<Vec<String>, pmix_topology::Error>(names.collect())
    };
    let any = DeviceType::UNKNOWN;
    assert_eq!(ask(any, &["ETH0"], "0"), Ok(vec!["eth0".to_owned()]));
    let by_uuid = ["ipv4://02:00:00:00:00:12", "mlx5_0"];
    assert_eq!(
        ask(any, &by_uuid, "0"),
        Ok(vec!["eth1".to_owned(), "mlx5_0".to_owned()])
    );
    assert_eq!(
        ask(DeviceType::OPENFABRICS, &by_uuid, "0"),
        Ok(vec!["mlx5_0".to_owned()])
    );
    let status = |answer: Result<_, pmix_topology::Error>| answer.unwrap_err().status();
    assert_eq!(status(ask(any, &["eth9"], "0")), Status::ERR_NOT_FOUND);
    assert_eq!(
        status(ask(DeviceType::BLOCK, &[], "0")),
        Status::ERR_NOT_FOUND
    );
    assert_eq!(status(ask(any, &[], "99")), Status::ERR_NOT_AVAILABLE);
    assert_eq!(status(ask(any, &[], "-")), Status::ERR_NOT_AVAILABLE);
    assert_eq!(status(ask(any, &[], "0-15")), Status::ERR_NOT_AVAILABLE);
    // A device with an invalid address does not affect other devices.
    let text = std::fs::read_to_string(data().join("devices.xml")).expect("a description");
    let odd = Topology::of_xml(text.replace("02:00:00:00:00:11", "02")).expect("a machine");
    let network = DeviceFilter {
        types: DeviceType::NETWORK,
        ids: Vec::new(),
    };
    let found = odd
        .distances(&set("0"), HOST, &network)
        .expect("the others");
    assert_eq!(found.len(), 2);
}

/// A limit that only quadratic growth exceeds.
const LIMIT: Duration = Duration::from_secs(30);

fn read(inside: &str, count: usize) -> Option<Topology> {
    let xml = format!(
        "<topology><object type=\"Machine\" cpuset=\"0x1\">{}</object></topology>",
        inside.repeat(count)
    );
    let begun = Instant::now();
    let topology = Topology::of_xml(xml).ok();
    if let Some(topology) = &topology {
        let cpus = Cpuset::from_iter([0]);
        assert!(topology.locality(&cpus).is_some());
        assert!(
            topology
                .distances(&cpus, "n1", &Default::default())
                .is_err()
        );
        assert!(topology.clone().without_xml().to_xml().len() > count);
    }
    let took = begun.elapsed();
    assert!(took < LIMIT, "{count} of {inside}: {took:?}");
    topology
}

const PU: &str = "<object type=\"PU\" cpuset=\"0x1\"/>";

#[test]
fn very_many_parts_take_linear_time() {
    let group = format!("<object type=\"Group\" cpuset=\"0x1\">{PU}</object>");
    assert!(read(&group, 250_000).is_some());
    let memory = |index: u32| {
        let numa = format!("<object type=\"NUMANode\" os_index=\"{index}\" cpuset=\"0x1\"/>");
        format!("{PU}{numa}")
    };
    assert!(read(&memory(1023), 50_000).is_some());
    assert!(read(&memory(1024), 50_000).is_none());
    // Nested threads are not a valid machine.
    let open = "<object type=\"PU\" cpuset=\"0x1\">".repeat(200);
    let deep = format!("{open}{}", "</object>".repeat(200));
    assert!(read(&deep, 2_000).is_none());
}
