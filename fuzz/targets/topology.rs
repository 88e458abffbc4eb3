// SPDX-License-Identifier: MIT OR Apache-2.0
//! Machines in hwloc's XML, and processor sets in each of their three forms.

use pmix_topology::{Cpuset, DeviceFilter, Level, Topology, relative_locality};

/// The number of parts of a machine that are queried.
const ASKED: usize = 8;

/// Parses the XML of a machine. The written form of a machine must be read as the same machine.
pub(crate) fn xml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(read) = Topology::of_xml(text.to_owned()) else {
        return;
    };
    assert_eq!(read.to_xml(), text, "the text is handed on as it came");
    let read = read.without_xml();
    let written = read.to_xml().into_owned();
    let again = Topology::of_xml(written.clone())
        .unwrap_or_else(|error| panic!("our own XML: {error}\n{written}"))
        .without_xml();
    // hwloc requires memory, so a machine without memory is written with some.
    let read = match read.parts(Level::Numa) {
        [] => Topology::of_xml(again.to_xml().into_owned()).expect("our own XML, again"),
        _ => read,
    };
    assert_eq!(again.has_devices(), read.has_devices());
    for level in Level::ALL {
        assert_eq!(again.parts(level), read.parts(level), "{level:?}");
    }
    // One part of the machine, two parts together, and a processor that may not exist.
    let mut sets = vec![Cpuset::full(), Cpuset::new()];
    for level in Level::ALL {
        sets.extend(read.parts(level).iter().take(ASKED).cloned());
    }
    if let [_, _, first, .., last] = &sets[..] {
        let mut both = first.clone();
        both.extend(last);
        sets.push(both);
    }
    let filter = DeviceFilter::default();
    for set in &sets {
        let bound = read.locality(set);
        assert_eq!(again.locality(set), bound, "{set}");
        if let Some(bound) = bound {
            let shared = relative_locality(&bound, &bound);
            shared.unwrap_or_else(|error| panic!("our own words {bound}: {error}"));
        }
        let told = |topology: &Topology| topology.distances(set, "node", &filter).ok();
        assert_eq!(told(&again), told(&read), "{set}");
    }
}

/// Parses a processor set, or a locality. The written form of a set must be read as the same set.
pub(crate) fn sets(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let forms: [fn(&str) -> Option<Cpuset>; 3] = [
        |text| Cpuset::parse(text).ok(),
        |text| Cpuset::from_pmix(text).ok(),
        |text| Cpuset::parse_bitmap(text).ok(),
    ];
    for set in forms.iter().filter_map(|read| read(text)) {
        assert_eq!(Cpuset::parse(&set.to_string()).as_ref().ok(), Some(&set));
        assert_eq!(Cpuset::from_pmix(&set.to_pmix()).as_ref().ok(), Some(&set));
        assert_eq!(
            Cpuset::parse_bitmap(&set.to_bitmap()).as_ref().ok(),
            Some(&set)
        );
        let counted: usize = set.iter().count();
        assert_eq!(usize::try_from(set.len()).ok(), Some(counted), "{set}");
    }
    let (one, other) = text.split_once('|').unwrap_or((text, text));
    let there = relative_locality(one, other).ok();
    assert_eq!(relative_locality(other, one).ok(), there, "{text}");
}
