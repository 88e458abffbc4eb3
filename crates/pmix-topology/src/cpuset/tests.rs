// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of sets: as lists, as words of hwloc, and their comparison.

use super::*;
use pmix_types::Status;

fn set(list: &str) -> Cpuset {
    Cpuset::parse(list).unwrap()
}

#[test]
fn lists_survive_parsing_and_writing() {
    for list in [
        "",
        "0",
        "0-3",
        "1,3,5",
        "0-63,65,127-128",
        "0-",
        "5-",
        "0-2,64-",
        "63-",
        "65535",
    ] {
        assert_eq!(set(list).to_string(), list);
        assert_eq!(Cpuset::from_pmix(&set(list).to_pmix()).unwrap(), set(list));
    }
    assert_eq!(set("3,1-2\n").to_string(), "1-3");
    assert_eq!(set("0-63,64-").to_string(), "0-");
    assert!(set("0-63,64-").is_full());
    assert_eq!(set("65535-").to_string(), "65535-");
}

#[test]
fn rejects_invalid_lists() {
    for text in [
        "x",
        "3-1",
        "1,,2",
        "-1",
        "0-4294967295",
        "65536",
        "65536-",
        "1-,2",
        "+1",
        "1-+2",
        "--",
        "1- 2",
    ] {
        let error = Cpuset::parse(text).unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{text}");
    }
}

#[test]
fn the_source_precedes_the_list() {
    for source in ["hwloc", "HWLOC", "hwloc2.9"] {
        assert_eq!(
            Cpuset::from_pmix(&format!("{source}:1-2")).unwrap(),
            set("1-2")
        );
    }
    let status = |text| Cpuset::from_pmix(text).unwrap_err().status();
    assert_eq!(status("1-2"), Status::ERR_BAD_PARAM);
    assert_eq!(status("hwloc:x"), Status::ERR_BAD_PARAM);
    assert_eq!(status("other:1-2"), Status::ERR_NOT_SUPPORTED);
    assert_eq!(status(":1"), Status::ERR_NOT_SUPPORTED);
}

#[test]
fn sets_compare_by_their_processors() {
    let (low, high) = (set("0-3"), set("3-100"));
    assert!(low.intersects(&high));
    assert_eq!(low.and(&high), set("3"));
    let other = set("64-70");
    assert!(!low.intersects(&other));
    assert!(low.and(&other).is_empty());
    assert_eq!(low.and(&other), Cpuset::new());
    assert_eq!(high.len(), 98);
    assert!(high.contains(100) && !high.contains(101));
    assert!(set("3").is_subset(&high) && !low.is_subset(&high));
}

#[test]
fn unbounded_sets_contain_all_later_processors() {
    let full = Cpuset::full();
    assert!(set("0-").is_full() && full.contains(65_000) && !full.is_empty());
    assert_eq!(full.len(), Cpuset::MAX_CPUS);
    assert_eq!(full.first(), Some(0));
    assert_eq!(set("70-").first(), Some(70));
    assert_eq!(full.and(&set("1,70")), set("1,70"));
    assert_eq!(set("70-").and(&set("0-100")), set("70-100"));
    assert!(set("70-").intersects(&set("200-")) && !set("70-").intersects(&set("0-69")));
    assert!(set("200-").is_subset(&set("70-")) && !set("70-").is_subset(&set("0-100")));
    assert!(set("80-90").is_subset(&set("70-")));
}

#[test]
fn the_last_word_of_an_unbounded_set_may_be_partial() {
    for list in ["65500-", "65535-", "0-65471,65473-"] {
        let partial = set(list);
        assert_eq!(partial.to_string(), list);
        assert_eq!(partial.words().len(), 1024);
        let read = Cpuset::parse_bitmap(&partial.to_bitmap()).unwrap();
        assert_eq!(read, partial, "{list}");
    }
    let too_many = format!("0xf...f,{}", ["0x0"; 2049].join(","));
    Cpuset::parse_bitmap(&too_many).unwrap_err();
}

#[test]
fn words_survive() {
    for list in ["", "0-3,64", "0-", "3,128-", "0-127"] {
        let set = set(list);
        let same = Cpuset::from_words(set.words(), set.is_endless()).unwrap();
        assert_eq!(same, set);
        assert_eq!(Cpuset::parse_bitmap(&set.to_bitmap()).unwrap(), set);
    }
    let long = vec![0; 1 << 20];
    assert!(Cpuset::from_words(&long, false).unwrap().is_empty());
    assert!(Cpuset::from_words(&long, true).is_err());
    assert!(Cpuset::from_words(&[u64::MAX; 3], true).unwrap().is_full());
}

#[test]
fn bitmaps_are_words_highest_first() {
    let list = |text| Cpuset::parse_bitmap(text).unwrap().to_string();
    assert_eq!(list("0x80000001"), "0,31");
    assert_eq!(list("0x3,,0x0000000f"), "0-3,64-65");
    assert_eq!(list("0x0"), "");
    assert_eq!(list("0xf...f"), "0-");
    assert_eq!(list("0xf...f,0x1"), "0,32-");
    assert_eq!(list("0xf...f,0xfffffffe"), "1-");
    assert_eq!(list("0xf...f,,0x1"), "0,64-");
    for wrong in [
        "3",
        "0x1ffffffff",
        "0x1,x",
        "0x+1",
        "0xf...",
        "0x1,0xf...f",
        "0xf...f0x1x",
    ] {
        assert!(Cpuset::parse_bitmap(wrong).is_err(), "{wrong}");
    }
    for far in [format!("0x1{}", ",".repeat(4096)), ",".repeat(1 << 20)] {
        let error = Cpuset::parse_bitmap(&far).unwrap_err();
        assert!(error.message().contains("no processor"), "{error}");
    }
}

#[test]
fn inserting_agrees_with_a_list_of_numbers() {
    // Adds ranges across the boundaries of words.
    let mut set = Cpuset::new();
    let mut plain = std::collections::BTreeSet::new();
    let mut at = 7u32;
    for _ in 0..200 {
        at = (at * 37 + 11) % 400;
        let last = at + at % 90;
        set.insert_range(at, last);
        plain.extend(at..=last);
        assert!(set.iter().eq(plain.iter().copied()));
        assert_eq!(set.len() as usize, plain.len());
    }
}
