// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of named numbers (status codes, data types, enumerations), and the Rust type of each group.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::head;
use super::sheet::{Row, Sheet, span};

/// A named number with its names in Rust.
struct Named {
    /// The name without `PMIX_`.
    name: String,
    /// The name as a constant of its type.
    short: String,
    /// `true` if the name begins like others of its type.
    is_regular: bool,
    number: i64,
    releases: u8,
    is_deprecated: bool,
    standing: &'static str,
    elsewhere: Vec<(&'static str, i64)>,
    about: String,
}

impl Named {
    fn of(row: Row<'_>, column: &str) -> Result<Self, String> {
        let name = row.name()?;
        Ok(Self {
            name: name.to_owned(),
            short: name.to_owned(),
            is_regular: true,
            number: row.number(column)?,
            releases: row.releases()?,
            is_deprecated: row.is_deprecated()?,
            standing: row.standing()?,
            elsewhere: Vec::new(),
            about: String::new(),
        })
    }

    /// Adds the numbers of other releases.
    fn with_elsewhere(mut self, row: Row<'_>) -> Result<Self, String> {
        for (release, text) in row.differs("value_differs_in")? {
            let number = text
                .parse()
                .map_err(|e| row.fault(&format!("{text:?}: {e}")))?;
            self.elsewhere.push((release, number));
        }
        Ok(self)
    }

    /// Returns the sort key: the number, and among equal numbers first the name that is printed.
    fn order(&self) -> impl Ord + use<> {
        let by_use = (
            self.is_deprecated,
            !self.is_regular,
            Reverse(self.releases.count_ones()),
        );
        (self.number, by_use, self.name.clone())
    }

    /// Returns the documentation of the constant.
    fn documentation(&self) -> String {
        let mut text = match self.about.as_str() {
            "" => format!("`PMIX_{}` = {}", self.name, self.number),
            about => format!(
                "{}{} (`PMIX_{}` = {})",
                &about[..1].to_uppercase(),
                &about[1..],
                self.name,
                self.number
            ),
        };
        let _ = write!(text, ", {}", span(self.releases));
        if self.is_deprecated {
            text.push_str("; deprecated");
        }
        text
    }

    fn row(&self) -> String {
        let Self {
            name,
            number,
            releases,
            standing,
            ..
        } = self;
        let mut text =
            format!("Constant::new(\"PMIX_{name}\", {number}, {releases:#07b}, {standing})");
        if self.is_deprecated {
            text.push_str(".deprecated()");
        }
        if !self.elsewhere.is_empty() {
            let one = |(release, number): &(&str, i64)| format!("({release}, {number})");
            let list: Vec<_> = self.elsewhere.iter().map(one).collect();
            let _ = write!(text, ".elsewhere(&[{}])", list.join(", "));
        }
        text
    }
}

/// Adds the constants of a type and its table.
fn render(text: &mut String, rust: &str, base: &str, table: &str, mut rows: Vec<Named>) {
    rows.sort_by_cached_key(Named::order);
    let _ = writeln!(text, "\nimpl {rust} {{");
    for row in &rows {
        let _ = writeln!(text, "    /// {}.", row.documentation());
        let _ = writeln!(
            text,
            "    pub const {}: Self = Self::from_raw({});",
            row.short, row.number
        );
    }
    let _ = writeln!(
        text,
        "}}\n\npub(crate) const {table}: Table<{base}> = Table {{\n    rows: &["
    );
    for row in &rows {
        let _ = writeln!(text, "        {},", row.row());
    }
    let mut places: Vec<_> = (0..rows.len()).collect();
    places.sort_by_key(|place| &rows[*place].name);
    let places: Vec<_> = places.iter().map(usize::to_string).collect();
    let _ = writeln!(text, "    ],\n    by_name: &[{}],\n}};", places.join(", "));
}

/// Returns the status codes, public and internal.
pub(crate) fn status() -> Result<String, String> {
    let texts = Sheet::read("status_text")?;
    let texts: BTreeMap<i64, &str> = texts
        .rows()
        .map(|row| Ok((row.number("value")?, row.need("text")?)))
        .collect::<Result<_, String>>()?;
    let mut rows = Vec::new();
    for sheet in [Sheet::read("status")?, Sheet::read("status_internal")?] {
        for row in sheet.rows() {
            let mut named = Named::of(row, "value")?.with_elsewhere(row)?;
            let about = texts.get(&named.number);
            named.about = about
                .ok_or_else(|| row.fault("data/status_text.tsv has no text for it"))?
                .to_string();
            rows.push(named);
        }
    }
    let uses = [
        "crate::Release::V6_1_0",
        "crate::Status",
        "crate::table::Standing::{Deprecated, Extension, Provisional, Stable}",
        "crate::table::{Constant, Table}",
    ];
    let sheets = "`data/status.tsv`, `data/status_internal.tsv` and `data/status_text.tsv`";
    let mut text = head("The status codes.", sheets, &uses);
    render(&mut text, "Status", "i32", "STATUS", rows);
    text.push_str("\n/// The text of each status, sorted by number.\npub(crate) const TEXTS: &[(i32, &str)] = &[\n");
    for (number, about) in &texts {
        let _ = writeln!(text, "    ({number}, {about:?}),");
    }
    text.push_str("];\n");
    Ok(text)
}

/// Returns the data types, including historic ones.
pub(crate) fn data_types() -> Result<String, String> {
    let mut rows = Vec::new();
    for sheet in [
        Sheet::read("data_types")?,
        Sheet::read("data_types_historic")?,
    ] {
        for row in sheet.rows() {
            let mut named = Named::of(row, "id")?;
            if let Some(c_type) = row.get("c_type")? {
                named.about = format!("`{c_type}`");
            }
            rows.push(named);
        }
    }
    let uses = [
        "crate::DataType",
        "crate::table::Standing::{Deprecated, Extension, Provisional, Removed, Stable}",
        "crate::table::{Constant, Table}",
    ];
    let sheets = "`data/data_types.tsv` and `data/data_types_historic.tsv`";
    let mut text = head("The data types.", sheets, &uses);
    render(&mut text, "DataType", "u16", "DATA_TYPE", rows);
    Ok(text)
}

/// Returns the number types of `data/enums.tsv`.
pub(crate) fn enums() -> Result<String, String> {
    let sheet = Sheet::read("enums")?;
    let mut tables: BTreeMap<&str, Vec<Named>> = BTreeMap::new();
    for row in sheet.rows() {
        let name = row.need("group")?;
        let Some(group) = GROUPS.iter().find(|group| group.c_type == name) else {
            if LEFT_OUT.iter().any(|(group, _)| *group == name) {
                continue;
            }
            return Err(row.fault(&format!("the group {name} has no Rust type")));
        };
        tables
            .entry(group.c_type)
            .or_default()
            .push(member(group, row)?);
    }
    let types: Vec<_> = GROUPS.iter().map(|group| group.rust).collect();
    let types = format!("crate::{{{}}}", types.join(", "));
    let uses = [
        types.as_str(),
        "crate::table::Standing::{Extension, Provisional, Stable}",
        "crate::table::{Constant, Table}",
    ];
    let mut text = head(
        "The enumerations and sets of bits.",
        "`data/enums.tsv`",
        &uses,
    );
    for group in GROUPS {
        let rows = tables.remove(group.c_type).unwrap_or_default();
        render(&mut text, group.rust, group.base, &group.table(), rows);
    }
    Ok(text)
}

/// Returns a number of a group.
fn member(group: &Group, row: Row<'_>) -> Result<Named, String> {
    let mut named = Named::of(row, "value")?.with_elsewhere(row)?;
    if let Some(short) = group.short(&named.name) {
        named.short = short.to_owned();
    } else {
        named.is_regular = false;
    }
    Ok(named)
}

/// A group of `data/enums.tsv`.
pub(crate) struct Group {
    /// The C type, as in the column `group`.
    pub(crate) c_type: &'static str,
    /// The Rust type.
    pub(crate) rust: &'static str,
    /// The underlying integer.
    pub(crate) base: &'static str,
    /// The redundant prefixes of names. The first that matches is omitted.
    pub(crate) prefixes: &'static [&'static str],
}

/// Groups without a Rust type, and the reasons.
pub(crate) const LEFT_OUT: &[(&str, &str)] = &[
    ("build_config", "about one build of OpenPMIx"),
    ("capability", "about one build of OpenPMIx"),
    ("version", "about one build of OpenPMIx"),
    ("limit", "lengths, which the names of the model check"),
    ("pmix_boolean_t", "a closed enum of pmix-types"),
    ("pmix_value_cmp_t", "a closed enum of pmix-types"),
];

const fn group(
    c_type: &'static str,
    rust: &'static str,
    base: &'static str,
    prefixes: &'static [&'static str],
) -> Group {
    Group {
        c_type,
        rust,
        base,
        prefixes,
    }
}

/// Every group that becomes a table.
pub(crate) const GROUPS: &[Group] = &[
    group(
        "pmix_alloc_directive_t",
        "AllocDirective",
        "u8",
        &["ALLOC_"],
    ),
    group(
        "pmix_alloc_inheritance_t",
        "AllocInheritance",
        "u8",
        &["ALLOC_INHERIT_"],
    ),
    group("pmix_bind_envelope_t", "BindEnvelope", "u8", &["CPUBIND_"]),
    group(
        "pmix_coord_view_t",
        "CoordView",
        "u8",
        &["COORD_VIEW_", "COORD_"],
    ),
    group("pmix_data_range_t", "DataRange", "u8", &["RANGE_"]),
    group("pmix_device_type_t", "DeviceType", "u64", &["DEVTYPE_"]),
    group(
        "pmix_fabric_operation_t",
        "FabricOperation",
        "u32",
        &["FABRIC_"],
    ),
    group(
        "pmix_group_operation_t",
        "GroupOperation",
        "u32",
        &["GROUP_"],
    ),
    group("pmix_group_opt_t", "GroupOption", "u32", &["GROUP_"]),
    group("pmix_info_directives_t", "InfoFlags", "u32", &["INFO_"]),
    group("pmix_iof_channel_t", "IofChannel", "u16", &["FWD_"]),
    group("pmix_job_state_t", "JobState", "u8", &["JOB_STATE_"]),
    group(
        "pmix_link_state_t",
        "LinkState",
        "u8",
        &["LINK_STATE_", "LINK_"],
    ),
    group("pmix_locality_t", "Locality", "u16", &["LOCALITY_"]),
    group("pmix_persistence_t", "Persistence", "u8", &["PERSIST_"]),
    group("pmix_proc_state_t", "ProcState", "u8", &["PROC_STATE_"]),
    group("pmix_rank_t", "Rank", "u32", &["RANK_"]),
    group(
        "pmix_resource_block_directive_t",
        "ResourceBlockDirective",
        "u8",
        &["RESOURCE_BLOCK_"],
    ),
    group("pmix_scope_t", "Scope", "u8", &["SCOPE_"]),
    group(
        "pmix_storage_access_type_t",
        "StorageAccessType",
        "u16",
        &["STORAGE_ACCESS_"],
    ),
    group(
        "pmix_storage_accessibility_t",
        "StorageAccessibility",
        "u64",
        &["STORAGE_ACCESSIBILITY_"],
    ),
    group(
        "pmix_storage_medium_t",
        "StorageMedium",
        "u64",
        &["STORAGE_MEDIUM_"],
    ),
    group(
        "pmix_storage_persistence_t",
        "StoragePersistence",
        "u64",
        &["STORAGE_PERSISTENCE_"],
    ),
];

impl Group {
    /// Returns the name of the table: the C type in upper case, without its affixes.
    pub(crate) fn table(&self) -> String {
        let name = self.c_type.strip_prefix("pmix_").unwrap_or(self.c_type);
        name.strip_suffix("_t").unwrap_or(name).to_uppercase()
    }

    /// Returns the name of a constant of the type, or `None` if it has no redundant prefix.
    pub(crate) fn short<'a>(&self, name: &'a str) -> Option<&'a str> {
        self.prefixes
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))
    }
}
