// SPDX-License-Identifier: MIT OR Apache-2.0
//! No scheme names outside of their crates, as the framework must not depend on single schemes.

use super::tree::{Fault, File, Tree};

/// A scheme's crate, fragments that identify it in a literal, and its names as literals.
struct Scheme {
    package: &'static str,
    marks: &'static [&'static str],
    names: &'static [&'static str],
}

const SCHEMES: &[Scheme] = &[
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
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
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
    SCHEMES.iter().find(|scheme| {
        scheme.package != file.package()
            && (scheme.names.contains(&literal)
                || scheme.marks.iter().any(|mark| literal.contains(mark)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_or_name_of_another_crate_is_found() {
        let text = concat!(
            "const A: &str = \"raw:\";\n",
            "const B: &[u8] = b\"fold\";\n",
            "// a comment may say raw:\n",
            "#[cfg(feature = \"compress\")]\n",
            "#[cfg(test)]\nmod tests { const C: &str = \"blob:\"; }\n",
        );
        let faults = check(&Tree::of(&[("crates/preg-core/src/preg.rs", text)]));
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
        assert_eq!(check(&Tree::of(&[own, list, test])).len(), 0);
        let other = ("crates/preg-fold/src/lib.rs", "const A: &str = \"raw:\";\n");
        assert_eq!(check(&Tree::of(&[other])).len(), 1);
    }
}
