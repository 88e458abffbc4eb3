// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists of strings and environments, compared with the results of real libraries.

use pmix_types::{Argv, Key, Nspace, Proc, Rank, Status, Text};

use super::infos::{calls, list, number, text};

fn argv(field: &str) -> Argv<'static> {
    list(field).unwrap_or_default().into_iter().collect()
}

fn delimiter(field: &str) -> u8 {
    text(field).expect("a delimiter")[0]
}

#[test]
fn splits_as_the_libraries_do() {
    for (call, include_empty) in [("split", false), ("split_with_empty", true)] {
        for row in calls("argv.tsv", call) {
            let input = text(&row[0]).expect("a text");
            let split = Argv::split_inter(&input, delimiter(&row[1]), include_empty);
            assert_eq!(split, argv(&row[2]), "{call} {row:?}");
        }
    }
}

#[test]
fn a_part_of_any_length_is_kept_whole() {
    for row in calls("argv.tsv", "split_length") {
        let mut input = vec![b'x'; number(&row[0])];
        input.extend(b",y");
        let split = Argv::split(&input, b',');
        assert_eq!(split[0].len(), number::<usize>(&row[1]));
        assert_eq!(split[1], "y");
    }
}

#[test]
fn joins_and_counts_as_the_libraries_do() {
    for row in calls("argv.tsv", "join") {
        let joined = argv(&row[0]).join(delimiter(&row[1]));
        assert_eq!(joined, Text::new(text(&row[2]).unwrap()), "{row:?}");
    }
    for row in calls("argv.tsv", "count") {
        assert_eq!(argv(&row[0]).len(), number::<usize>(&row[1]), "{row:?}");
    }
    for row in calls("argv.tsv", "join_range") {
        let (start, end) = (number(&row[1]), number(&row[2]));
        let joined = argv(&row[0]).join_range(start, end, delimiter(&row[3]));
        assert_eq!(joined, Text::new(text(&row[4]).unwrap()), "{row:?}");
    }
}

#[test]
fn inserts_strings_where_the_libraries_do() {
    let mut seen = 0;
    for row in super::infos::rows("argv.tsv") {
        let Some((call, arg)) = row[0].split_once(' ') else {
            continue;
        };
        let mut list = argv(&row[1]);
        let arg = text(arg).unwrap();
        match call {
            "append" => list.append(arg),
            "prepend" => list.prepend(arg),
            "append_unique" => assert_eq!(list.append_unique(arg), row[1] != row[3]),
            _ => panic!("{call}"),
        }
        assert_eq!(list, argv(&row[3]), "{row:?}");
        seen += 1;
    }
    assert!(seen >= 8, "{seen}");
}

#[test]
fn variables_are_set_as_the_libraries_set_them() {
    for row in calls("argv.tsv", "setenv") {
        let mut list = argv(&row[0]);
        let (name, value) = (text(&row[1]).unwrap(), text(&row[2]).unwrap_or_default());
        let status = match list.set_var(&name, &value, row[3] == "overwrite") {
            Ok(()) => {
                assert_eq!(list.var(&name), Some(&value[..]), "{row:?}");
                Status::SUCCESS
            }
            Err(error) => error.status(),
        };
        assert_eq!(status.as_raw(), number::<i32>(&row[4]), "{row:?}");
        assert_eq!(list, argv(&row[5]), "{row:?}");
    }
}

#[test]
fn variables_are_unset_as_the_library_unsets_them() {
    for row in calls("argv.tsv", "unsetenv")
        .iter()
        .filter(|row| row[0] != "null")
    {
        let mut list = argv(&row[0]);
        let outcome = list.unset_var(text(&row[1]).unwrap());
        let status = outcome.map_or_else(|error| error.status(), |()| Status::SUCCESS);
        assert_eq!(status.as_raw(), number::<i32>(&row[2]), "{row:?}");
        assert_eq!(list, argv(&row[3]), "{row:?}");
    }
}

#[test]
fn a_text_ends_before_its_nul_when_it_is_split() {
    assert_eq!(*Argv::split(b"a,b\0c,d", b','), ["a", "b"]);
    assert_eq!(*Argv::split_with_empty(b"a,\0", b','), ["a"]);
}

#[test]
fn the_parts_borrow_from_the_text() {
    let text = String::from("n01,n02");
    let split = Argv::split(&text, b',');
    assert!(std::ptr::eq(split[0].as_bytes(), &text.as_bytes()[..3]));
}

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
