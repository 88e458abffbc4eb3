// SPDX-License-Identifier: MIT OR Apache-2.0
//! Permitted dependencies between crates (only on lower layers), and no scheme names in other crates.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::tree::{Fault, File, Tree};

/// The layer of every crate, as in `docs/architecture.md`.
const LAYERS: &[(&str, u32)] = &[
    ("pmix-types", 0),
    ("pmix-files", 0),
    ("pmix-shm", 0),
    ("pmix-mpir", 0),
    ("pmix-map", 1),
    ("pmix-topology", 1),
    ("pmix-mca", 1),
    ("bfrops", 1),
    ("pmix-random", 1),
    ("pmix-hostlist", 2),
    ("preg-core", 2),
    ("preg-native", 3),
    ("preg-raw", 3),
    ("preg-compress", 3),
    ("preg-fold", 3),
    ("gds-hash", 3),
    ("pmix-builtin", 4),
    ("pmix-proto", 4),
    ("pmix-engine", 5),
    ("pmix-server", 6),
    ("pmix-client", 6),
    ("pmix-host", 7),
    ("pmix-tool", 7),
    ("pmix-pmi", 7),
    ("pmix", 8),
    ("pmix-launch", 8),
    ("pmix-capi", 8),
    ("pmix-cli", 9),
];

/// Crates without dependents, which may depend on any crate: tasks, and components as loadable files.
const TOP: &[&str] = &[
    "xtask",
    "pmix-interop",
    "pmix-faults",
    "pmix-bench",
    "pmix-fuzz",
    "preg-fold-plugin",
];

/// Encoders, which only the list of built-in components may name.
const SCHEMES: &[&str] = &["preg-native", "preg-raw", "preg-compress", "preg-fold"];

/// Crates of pure data, without dependencies outside the workspace.
const STD_ONLY: &[&str] = &["pmix-types"];

/// Optional dependencies of crates of pure data, which a feature enables.
const OPTIONAL: &[(&str, &str)] = &[("pmix-types", "data-encoding"), ("pmix-types", "serde")];

/// The only permitted dependencies in the workspace of some crates.
const ONLY: &[(&str, &[&str])] = &[
    ("pmix-map", &["pmix-types"]),
    ("pmix-topology", &["pmix-types", "pmix-files"]),
    ("pmix-hostlist", &["pmix-types", "pmix-map"]),
    ("pmix-proto", &["pmix-types", "bfrops"]),
    // The trait that reads maps hides encoders, plugins and parameters.
    ("gds-hash", &["pmix-types", "bfrops", "pmix-map"]),
    (
        "pmix-engine",
        &["pmix-types", "bfrops", "pmix-map", "pmix-proto", "gds-hash"],
    ),
    (
        "pmix-host",
        &["pmix-types", "pmix-map", "pmix-engine", "pmix-server"],
    ),
    (
        "pmix-client",
        &[
            "pmix-types",
            "pmix-shm",
            "bfrops",
            "pmix-mca",
            "pmix-proto",
            "gds-hash",
        ],
    ),
];

/// Dependencies that a crate must take without default features, to avoid linking these.
const BARE: &[(&str, &str, &str)] = &[(
    "pmix-client",
    "pmix-mca",
    "a client links neither a plugin loader nor a reader of configuration files",
)];

/// Checks the manifest of every crate, and that every crate in the tables has one.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in &tree.files {
        let manifest = file.path.starts_with("crates/") || file.path == "xtask/Cargo.toml";
        if manifest && file.path.ends_with("/Cargo.toml") {
            check_manifest(file, &mut faults);
        }
    }
    if let Some(workspace) = tree.files.iter().find(|file| file.path == "Cargo.toml") {
        let missing = missing(tree).into_iter();
        faults.extend(missing.map(|name| {
            let message = format!("the tables of layers name {name}, which is no crate");
            workspace.fault(0, message)
        }));
    }
    faults
}

/// Returns the crates in the tables that have no manifest.
fn missing(tree: &Tree) -> Vec<&'static str> {
    let manifests = tree.files.iter();
    let manifests = manifests.filter(|file| file.path.ends_with("/Cargo.toml"));
    let tables = manifests.filter_map(|file| file.text.parse::<Table>().ok());
    let found: BTreeSet<_> = tables
        .filter_map(|table| Some(package(&table)?.to_owned()))
        .collect();
    let layers = LAYERS.iter().map(|(name, _)| *name);
    let mut named: Vec<_> = layers.chain(TOP.iter().copied()).collect();
    named.retain(|name| !found.contains(*name));
    named
}

/// Returns the package name in a manifest.
fn package(table: &Table) -> Option<&str> {
    table.get("package")?.get("name")?.as_str()
}

fn check_manifest(file: &File, faults: &mut Vec<Fault>) {
    let table: Table = match file.text.parse() {
        Ok(table) => table,
        Err(e) => return faults.push(file.fault(0, format!("cannot be read: {e}"))),
    };
    let name = package(&table).unwrap_or_default();
    if TOP.contains(&name) {
        return;
    }
    let Some(layer) = layer_of(name) else {
        let message = format!("crate {name:?} has no layer; add it to the table of layers");
        return faults.push(file.fault(0, message));
    };
    for kind in ["dependencies", "build-dependencies"] {
        for other in names(table.get(kind)) {
            if OPTIONAL.contains(&(name, other)) && is_optional(table.get(kind), other) {
                continue;
            }
            if let Some(why) = forbidden(name, layer, other) {
                faults.push(file.fault(line_of(file, other), why));
            }
        }
    }
    for (_, other, why) in BARE.iter().filter(|(bare, ..)| *bare == name) {
        let entry = table.get("dependencies").and_then(|all| all.get(*other));
        if let Some(entry) = entry.filter(|entry| entry.get("features").is_some()) {
            let why = format!("{name} may not have {entry} of {other}: {why}");
            faults.push(file.fault(line_of(file, other), why));
        }
    }
    for other in names(table.get("dev-dependencies")) {
        if TOP.contains(&other) {
            let why = format!("nothing may depend on {other}");
            faults.push(file.fault(line_of(file, other), why));
        }
    }
}

/// Returns the reason why a crate may not depend on another, if any.
fn forbidden(name: &str, layer: u32, other: &str) -> Option<String> {
    if TOP.contains(&other) {
        return Some(format!("nothing may depend on {other}"));
    }
    if STD_ONLY.contains(&name) {
        return Some(format!("{name} is pure data and may not depend on {other}"));
    }
    let other_layer = layer_of(other)?;
    if other_layer >= layer {
        return Some(format!(
            "{name} is of layer {layer} and may not depend on {other} of layer {other_layer}"
        ));
    }
    if SCHEMES.contains(&other) && name != "pmix-builtin" {
        return Some(format!("only pmix-builtin may name the encoder {other}"));
    }
    let (_, allowed) = ONLY.iter().find(|(narrow, _)| *narrow == name)?;
    (!allowed.contains(&other)).then(|| format!("{name} may depend on {allowed:?} alone"))
}

fn layer_of(name: &str) -> Option<u32> {
    let (_, layer) = LAYERS.iter().find(|(known, _)| *known == name)?;
    Some(*layer)
}

fn names(dependencies: Option<&Value>) -> impl Iterator<Item = &str> {
    let table = dependencies.and_then(Value::as_table);
    table.into_iter().flat_map(Table::keys).map(String::as_str)
}

fn is_optional(dependencies: Option<&Value>, name: &str) -> bool {
    let entry = dependencies.and_then(|table| table.get(name));
    let optional = entry.and_then(|entry| entry.get("optional"));
    optional.and_then(Value::as_bool) == Some(true)
}

fn line_of(file: &File, dependency: &str) -> usize {
    let found = file
        .text
        .lines()
        .position(|line| line.starts_with(dependency));
    found.map_or(0, |index| index + 1)
}

/// A scheme's crate, fragments that identify it in a literal, and its names as literals.
struct Scheme {
    package: &'static str,
    marks: &'static [&'static str],
    names: &'static [&'static str],
}

const SCHEME_NAMES: &[Scheme] = &[
    Scheme {
        package: "preg-native",
        marks: &["pmix["],
        names: &["native", "pmix"],
    },
    Scheme {
        package: "preg-raw",
        marks: &["raw:"],
        names: &["raw"],
    },
    Scheme {
        package: "preg-compress",
        marks: &["blob:", "component=zlib"],
        names: &["compress", "blob"],
    },
    Scheme {
        package: "preg-fold",
        marks: &["fold:"],
        names: &["fold"],
    },
];

/// Crates that may name every scheme: the list of components, and developer tools.
const EXEMPT: &[&str] = &["pmix-builtin", "xtask", "fuzz"];

/// Literals that contain or equal a scheme's name by chance: path, literal, and meaning.
const CHANCE: &[(&str, &str, &str)] = &[
    ("crates/pmix-cli/", "pmix", "the name of the command"),
    ("crates/pmix-cli/src/args/", "raw", "the name of an option"),
    (
        "crates/pmix-client/src/",
        "native",
        "the name of a security module",
    ),
    (
        "crates/pmix-server/src/",
        "native",
        "the name of a security module",
    ),
    (
        "crates/pmix-types/src/ops/names.rs",
        "pmix",
        "how the keys of the Standard begin",
    ),
    (
        "crates/pmix-types/src/json/",
        r"blob:\0component=zlib:\0size=",
        "the frame that the documented JSON form leaves out",
    ),
];

/// Checks the string literals of every file that is no test.
pub(crate) fn check_names(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (file, source) in tree.rust() {
        if file.is_test() || EXEMPT.contains(&file.package()) {
            continue;
        }
        for literal in &source.strings {
            if source.in_test(literal.line) {
                continue;
            }
            if let Some(scheme) = betrayed(file, &literal.text) {
                let message = format!("{:?} names {}", literal.text, scheme.package);
                faults.push(file.fault(literal.line, message));
            }
        }
    }
    faults
}

fn betrayed(file: &File, literal: &str) -> Option<&'static Scheme> {
    let chance =
        |(path, text, _): &(&str, &str, &str)| file.path.starts_with(path) && *text == literal;
    if CHANCE.iter().any(chance) {
        return None;
    }
    SCHEME_NAMES.iter().find(|scheme| {
        scheme.package != file.package()
            && (scheme.names.contains(&literal)
                || scheme.marks.iter().any(|mark| literal.contains(mark)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(name: &str, rest: &str) -> Vec<String> {
        let path = format!("crates/{name}/Cargo.toml");
        let text = format!("[package]\nname = \"{name}\"\n{rest}");
        let faults = check(&Tree::of(&[(&path, &text)]));
        faults.into_iter().map(|fault| fault.to_string()).collect()
    }

    #[test]
    fn an_arrow_that_points_up_is_refused_with_its_line() {
        let faults = faults_of("preg-core", "[dependencies]\npmix-cli.workspace = true\n");
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("crates/preg-core/Cargo.toml:4: "));
    }

    #[test]
    fn crates_of_one_layer_do_not_know_each_other() {
        let faults = faults_of(
            "preg-raw",
            "[dependencies]\npreg-native = { path = \"x\" }\n",
        );
        assert_eq!(faults.len(), 1);
    }

    #[test]
    fn only_the_list_of_components_names_an_encoder() {
        let dependency = "[dependencies]\npreg-fold.workspace = true\n";
        assert_eq!(faults_of("pmix-cli", dependency).len(), 1);
        assert_eq!(faults_of("pmix-builtin", dependency).len(), 0);
    }

    #[test]
    fn tests_may_look_up_but_not_at_the_tasks() {
        let up = "[dev-dependencies]\npmix-builtin.workspace = true\n";
        assert_eq!(faults_of("preg-core", up).len(), 0);
        let tasks = "[dev-dependencies]\nxtask.workspace = true\n";
        assert_eq!(faults_of("preg-core", tasks).len(), 1);
    }

    #[test]
    fn pure_data_and_narrow_crates_stay_so() {
        assert_eq!(
            faults_of("pmix-types", "[dependencies]\nserde = \"1\"\n").len(),
            1
        );
        let narrow = "[dependencies]\npmix-files.workspace = true\nmemchr = \"2\"\n";
        assert_eq!(faults_of("pmix-map", narrow).len(), 1);
    }

    #[test]
    fn a_client_takes_no_features_of_the_parameters() {
        let bare = "[dependencies]\npmix-mca.workspace = true\n";
        assert_eq!(faults_of("pmix-client", bare).len(), 0);
        let with = "[dependencies]\npmix-mca = { workspace = true, features = [\"plugins\"] }\n";
        let faults = faults_of("pmix-client", with);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("crates/pmix-client/Cargo.toml:4: "));
    }

    #[test]
    fn a_layer_without_a_crate_is_reported() {
        let named = |names: &[&str]| {
            let crates = names.iter().map(|name| {
                let path = format!("crates/{name}/Cargo.toml");
                (path, format!("[package]\nname = \"{name}\"\n"))
            });
            let mut files = vec![("Cargo.toml".to_owned(), "[workspace]\n".to_owned())];
            files.extend(crates);
            let files: Vec<_> = files
                .iter()
                .map(|(p, t)| (p.as_str(), t.as_str()))
                .collect();
            let faults = check(&Tree::of(&files)).into_iter();
            faults.map(|fault| fault.to_string()).collect::<Vec<_>>()
        };
        let layers = LAYERS.iter().map(|(name, _)| *name);
        let all: Vec<_> = layers.chain(TOP.iter().copied()).collect();
        assert_eq!(named(&all), [""; 0]);
        let faults = named(&all[1..]);
        assert_eq!(faults.len(), 1);
        assert!(
            faults[0].contains("pmix-types, which is no crate"),
            "{faults:?}"
        );
    }

    #[test]
    fn a_crate_without_a_layer_is_reported() {
        assert_eq!(faults_of("pmix-utils", "").len(), 1);
    }

    #[test]
    fn a_tag_or_name_of_another_crate_is_found() {
        let text = concat!(
            "const A: &str = \"raw:\";\n",
            "const B: &[u8] = b\"fold\";\n",
            "// a comment may say raw:\n",
            "#[cfg(feature = \"compress\")]\n",
            "#[cfg(test)]\nmod tests { const C: &str = \"blob:\"; }\n",
        );
        let faults = check_names(&Tree::of(&[("crates/preg-core/src/preg.rs", text)]));
        let lines: Vec<_> = faults.iter().map(|fault| fault.line).collect();
        assert_eq!(lines, [1, 2]);
    }

    #[test]
    fn a_scheme_may_name_itself_and_the_list_all() {
        let own = ("crates/preg-raw/src/lib.rs", "const A: &str = \"raw:\";\n");
        let list = (
            "crates/pmix-builtin/src/lib.rs",
            "const A: &str = \"raw:\";\n",
        );
        let test = (
            "crates/preg-core/tests/all.rs",
            "const A: &str = \"raw:\";\n",
        );
        assert_eq!(check_names(&Tree::of(&[own, list, test])).len(), 0);
        let other = ("crates/preg-fold/src/lib.rs", "const A: &str = \"raw:\";\n");
        assert_eq!(check_names(&Tree::of(&[other])).len(), 1);
    }
}
