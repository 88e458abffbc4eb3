// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nspaces, keys, ranks and processes, compared with the results of real libraries.

use pmix_types::{Key, Nspace, Proc, Rank};

use super::table::{calls, number, text};

fn nspace(field: &str) -> Nspace<'static> {
    Nspace::new(text(field).unwrap_or_default())
}

fn rank(field: &str) -> Rank {
    Rank::new(number(field))
}

/// Returns a text of one letter, and one that differs at `place`.
fn differing(place: usize) -> (Vec<u8>, Vec<u8>) {
    let mut other = vec![b'n'; 690];
    other[place] = b'x';
    (vec![b'n'; 690], other)
}

#[test]
fn nspaces_match_as_in_the_libraries() {
    for row in calls("names.tsv", "check_nspace") {
        let matches = nspace(&row[0]).matches(&nspace(&row[1]));
        assert_eq!(matches, row[2] == "1", "{row:?}");
    }
    for row in calls("names.tsv", "nspace_invalid") {
        assert_eq!(nspace(&row[0]).is_invalid(), row[1] == "1", "{row:?}");
    }
    for row in calls("names.tsv", "check_nspace_differ_at") {
        let (a, b) = differing(number(&row[0]));
        assert_eq!(
            Nspace::new(a).matches(&Nspace::new(b)),
            row[1] == "1",
            "{row:?}"
        );
    }
}

#[test]
fn nspaces_and_keys_are_cut_as_in_the_libraries() {
    for row in calls("names.tsv", "load_nspace") {
        let text = vec![b'n'; number(&row[0])];
        let kept: usize = number(&row[1]);
        assert_eq!(Nspace::load(&text[..]).as_bytes(), &text[..kept]);
        assert_eq!(Nspace::load(text.clone()).as_bytes(), &text[..kept]);
    }
    for row in calls("names.tsv", "load_key") {
        let text = vec![b'n'; number(&row[0])];
        let kept: usize = number(&row[1]);
        assert_eq!(Key::load(&text[..]).as_bytes(), &text[..kept]);
    }
    let proc = Proc::load(vec![b'n'; 300], Rank::new(7));
    assert_eq!(
        (proc.nspace.as_bytes().len(), proc.rank),
        (255, Rank::new(7))
    );
}

#[test]
fn keys_match_as_in_the_libraries() {
    for row in calls("names.tsv", "check_key") {
        let key = Key::load(text(&row[0]).unwrap());
        assert_eq!(key.is(text(&row[1]).unwrap()), row[2] == "1", "{row:?}");
    }
    for row in calls("names.tsv", "check_key_differ_at") {
        let (a, b) = differing(number(&row[0]));
        assert_eq!(Key::new(a).is(b), row[1] == "1", "{row:?}");
    }
    for row in calls("names.tsv", "reserved_key") {
        assert_eq!(
            Key::load(text(&row[0]).unwrap()).is_reserved(),
            row[1] == "1",
            "{row:?}"
        );
    }
}

#[test]
fn ranks_and_processes_match_as_in_the_libraries() {
    for row in calls("names.tsv", "check_rank") {
        assert_eq!(
            rank(&row[0]).matches(rank(&row[1])),
            row[2] == "1",
            "{row:?}"
        );
    }
    for row in calls("names.tsv", "check_procid") {
        let a = Proc::new(nspace(&row[0]), rank(&row[1]));
        let b = Proc::new(nspace(&row[2]), rank(&row[3]));
        assert_eq!(a.matches(&b), row[4] == "1", "{row:?}");
    }
    for row in calls("names.tsv", "procid_invalid") {
        let proc = Proc::new(nspace(&row[0]), rank(&row[1]));
        assert_eq!(proc.is_invalid(), row[2] == "1", "{row:?}");
    }
}

#[test]
fn clusters_are_joined_as_in_the_libraries() {
    for row in calls("names.tsv", "multicluster_construct") {
        let joined = Nspace::of_cluster(&nspace(&row[0]), &nspace(&row[1]));
        assert_eq!(joined, Some(nspace(&row[2])), "{row:?}");
    }
    for row in calls("names.tsv", "multicluster_lengths") {
        let cluster = Nspace::new(vec![b'c'; number(&row[0])]);
        let nspace = Nspace::new(vec![b'n'; number(&row[1])]);
        let joined = Nspace::of_cluster(&cluster, &nspace).unwrap_or_default();
        assert_eq!(joined.as_bytes().len(), number::<usize>(&row[2]), "{row:?}");
    }
}

#[test]
fn clusters_are_split_as_in_the_libraries() {
    for row in calls("names.tsv", "multicluster_parse") {
        let joined = nspace(&row[0]);
        assert_eq!(
            joined.split_cluster(),
            (nspace(&row[1]), nspace(&row[2])),
            "{row:?}"
        );
    }
}
