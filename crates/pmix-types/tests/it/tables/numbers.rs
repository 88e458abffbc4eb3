// SPDX-License-Identifier: MIT OR Apache-2.0
//! Status codes, data types and enumerations.

use pmix_types::{Constant, Release, Status};

use super::attributes::{Row, differs, has_releases, number, rows};

/// A type of open numbers, accessed through text and 64-bit numbers.
struct Kind {
    /// The C type.
    c_type: &'static str,
    /// The function that parses a name or a printed form.
    parse: fn(&str) -> Option<i128>,
    /// The function that returns the canonical name of a number, which must fit the type.
    name: fn(i128) -> Option<&'static str>,
    /// The function that prints a number with `Display`.
    print: fn(i128) -> String,
    /// The function that lists every name of the type with its number.
    all: fn() -> Vec<(&'static str, i128)>,
}

macro_rules! kinds {
    ($($name:ident $int:ty, $c_type:literal;)*) => {
        const KINDS: &[Kind] = &[$(Kind {
            c_type: $c_type,
            parse: |text| text.parse::<pmix_types::$name>().ok().map(|n| n.as_raw().into()),
            name: |n| pmix_types::$name::from_raw(<$int>::try_from(n).expect("fits")).name(),
            print: |n| pmix_types::$name::from_raw(<$int>::try_from(n).expect("fits")).to_string(),
            all: || pmix_types::$name::all().iter().map(|c| (c.name(), c.number().into())).collect(),
        }),*];
    };
}

kinds! {
    AllocDirective u8, "pmix_alloc_directive_t";
    AllocInheritance u8, "pmix_alloc_inheritance_t";
    BindEnvelope u8, "pmix_bind_envelope_t";
    CoordView u8, "pmix_coord_view_t";
    DataRange u8, "pmix_data_range_t";
    DeviceType u64, "pmix_device_type_t";
    FabricOperation u32, "pmix_fabric_operation_t";
    GroupOperation u32, "pmix_group_operation_t";
    GroupOption u32, "pmix_group_opt_t";
    InfoFlags u32, "pmix_info_directives_t";
    IofChannel u16, "pmix_iof_channel_t";
    JobState u8, "pmix_job_state_t";
    LinkState u8, "pmix_link_state_t";
    Locality u16, "pmix_locality_t";
    Persistence u8, "pmix_persistence_t";
    ProcState u8, "pmix_proc_state_t";
    Rank u32, "pmix_rank_t";
    ResourceBlockDirective u8, "pmix_resource_block_directive_t";
    Scope u8, "pmix_scope_t";
    StorageAccessType u16, "pmix_storage_access_type_t";
    StorageAccessibility u64, "pmix_storage_accessibility_t";
    StorageMedium u64, "pmix_storage_medium_t";
    StoragePersistence u64, "pmix_storage_persistence_t";
    DataType u16, "pmix_data_type_t";
    Status i32, "pmix_status_t";
    Command u8, "pmix_cmd_t";
}

fn kind(c_type: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.c_type == c_type)
}

/// Returns the rows of all tables of numbers, each with its C type.
fn numbers() -> Vec<(String, Row, i64)> {
    let mut found = Vec::new();
    for (table, c_type, column) in [
        ("status", "pmix_status_t", "value"),
        ("status_internal", "pmix_status_t", "value"),
        ("data_types", "pmix_data_type_t", "id"),
        ("data_types_historic", "pmix_data_type_t", "id"),
    ] {
        for row in rows(table) {
            let value = number(&row, column);
            found.push((c_type.to_owned(), row, value));
        }
    }
    for row in rows("enums") {
        let value = number(&row, "value");
        found.push((row["group"].clone(), row, value));
    }
    found
}

#[test]
fn every_name_has_its_number_in_every_spelling() {
    let mut checked = 0;
    for (c_type, row, value) in numbers() {
        let Some(kind) = kind(&c_type) else { continue };
        let name = &row["name"];
        let short = name.strip_prefix("PMIX_").expect("a prefix");
        for text in [
            name.as_str(),
            short,
            &name.to_lowercase(),
            &value.to_string(),
        ] {
            assert_eq!((kind.parse)(text), Some(value.into()), "{c_type} {text}");
        }
        assert!((kind.all)().contains(&(short, value.into())), "{name}");
        checked += 1;
    }
    assert_eq!(checked, 173 + 4 + 75 + 2 + 194 - (1 + 23 + 2 + 3 + 6 + 4));
}

#[test]
fn only_these_groups_have_no_open_number() {
    let mut without: Vec<_> = numbers().into_iter().map(|(c_type, ..)| c_type).collect();
    without.retain(|c_type| kind(c_type).is_none());
    without.dedup();
    let closed = [
        "build_config",
        "capability",
        "limit",
        "pmix_boolean_t",
        "pmix_value_cmp_t",
        "version",
    ];
    assert_eq!(without, closed);
}

#[test]
fn a_number_prints_its_canonical_name_and_is_parsed_back() {
    let rows = numbers();
    for (c_type, row, value) in &rows {
        let Some(kind) = kind(c_type) else { continue };
        let canonical = (kind.name)((*value).into()).expect("a name");
        let same = |other: &&(String, Row, i64)| other.0 == *c_type && other.2 == *value;
        let names: Vec<_> = rows.iter().filter(same).map(|(_, row, _)| row).collect();
        let full = format!("PMIX_{canonical}");
        let chosen = names
            .iter()
            .find(|row| row["name"] == full)
            .expect("a name of the number");
        if names.iter().any(|row| row["deprecated"] == "0") {
            assert_eq!(
                chosen["deprecated"], "0",
                "{full} stands for {}",
                row["name"]
            );
        }
        let printed = (kind.print)((*value).into());
        // A rank prints as a number, special or not.
        let shown = if c_type == "pmix_rank_t" {
            value.to_string()
        } else {
            full
        };
        assert!(printed.contains(&shown), "{printed}");
        assert_eq!((kind.parse)(&printed), Some((*value).into()));
    }
}

#[test]
fn numbers_without_a_name_survive_printing() {
    for kind in KINDS {
        for value in (0..=255).chain([50]) {
            let printed = (kind.print)(value);
            assert_eq!(
                (kind.parse)(&printed),
                Some(value),
                "{} {printed}",
                kind.c_type
            );
        }
        for text in [
            "",
            "PMIX_",
            "NO_SUCH_NAME",
            "1.5",
            "+1",
            "--1",
            "0x",
            "PMIX_X(1)",
            "99999999999999999999999",
        ] {
            assert_eq!((kind.parse)(text), None, "{} {text:?}", kind.c_type);
        }
    }
    let unnamed = pmix_types::ProcState::from_raw(77);
    assert_eq!(unnamed.to_string(), "PMIX_PROC_STATE(77)");
}

#[test]
fn sets_of_bits_print_and_parse_as_unions() {
    use pmix_types::{InfoFlags, IofChannel, StorageAccessType};
    let flags = InfoFlags::REQD | InfoFlags::QUALIFIER | InfoFlags::from_raw(0x120);
    assert_eq!(
        flags.to_string(),
        "PMIX_INFO_REQD|PMIX_INFO_QUALIFIER|0x120"
    );
    assert_eq!("INFO_QUALIFIER | PMIX_INFO_REQD|0x120".parse(), Ok(flags));
    assert_eq!(
        InfoFlags::from_raw(0).to_string(),
        "PMIX_INFO_DIRECTIVES(0x0)"
    );
    assert_eq!(
        IofChannel::ALL_CHANNELS.to_string(),
        "PMIX_FWD_ALL_CHANNELS"
    );
    assert_eq!(StorageAccessType::from_raw(3), StorageAccessType::RDWR);
    assert!("PMIX_INFO_REQD|".parse::<InfoFlags>().is_err());
    assert!("PMIX_INFO_REQD||8".parse::<InfoFlags>().is_err());
}

#[test]
fn constants_agree_with_the_rows() {
    for row in rows("status").iter().chain(&rows("status_internal")) {
        let name = row["name"].strip_prefix("PMIX_").expect("a prefix");
        let found: Vec<&Constant<i32>> =
            Status::all().iter().filter(|c| c.name() == name).collect();
        let [constant] = found.as_slice() else {
            panic!("{name} is there once")
        };
        assert!(has_releases(row, constant.releases()), "{name}");
        assert_eq!(constant.is_deprecated(), row["deprecated"] == "1", "{name}");
        let standing = constant.standing().as_str();
        assert_eq!(
            if standing == "extension" {
                "-"
            } else {
                standing
            },
            row["std"],
            "{name}"
        );
        assert!(
            !Status::from_raw(constant.number())
                .text()
                .starts_with("unknown status")
        );
        for release in constant.releases().iter() {
            let other = differs(row, "value_differs_in", release);
            let expected = other.unwrap_or(&row["value"]).parse().ok();
            assert_eq!(constant.number_in(release), expected, "{name} in {release}");
        }
    }
    let lost = Status::all()
        .iter()
        .find(|c| c.name() == "ERR_LOST_PRECISION")
        .expect("there");
    assert_eq!(lost.number_in(Release::V6_1_0), Some(-400));
    assert_eq!(lost.number_in(Release::Master), Some(-202));
    assert_eq!(lost.number_in(Release::V4_2_2), None);
}

#[test]
fn constants_work_as_patterns() {
    let state = "PMIX_JOB_STATE_PREPPED".parse().expect("a name");
    assert!(matches!(state, pmix_types::JobState::AWAITING_ALLOC));
    assert_eq!(
        pmix_types::JobState::PREPPED.name(),
        Some("JOB_STATE_AWAITING_ALLOC")
    );
    assert_eq!(pmix_types::DataType::REGEX2.as_raw(), 74);
    assert_eq!(pmix_types::DataType::from_raw(29).to_string(), "PMIX_MODEX");
}
