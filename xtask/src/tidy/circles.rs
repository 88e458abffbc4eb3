// SPDX-License-Identifier: MIT OR Apache-2.0
//! No cycles of files. If two files need code of each other, move this code to a third file.
//!
//! A file needs another if its product code names an item defined there, through any re-export.
//! Declaring a module does not count. The files of a module and of its submodules form one unit, so
//! names of enclosing modules do not count. A cycle therefore consists of sibling files or of whole
//! modules.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, Token};
use super::tree::{Fault, Tree};

/// Known cycles with their reasons. A file that is not listed here must not become part of a cycle.
const KNOWN: &[(&str, &[&str], &str)] = &[
    (
        "crates/bfrops/src/",
        &[
            "decode",
            "encode",
            "legacy/code",
            "legacy/value",
            "refusal",
            "wire_type",
            "wire_type/fabric",
            "wire_type/info",
            "wire_type/opaque",
            "wire_type/structure",
            "wire_type/text",
        ],
        "types say how they are packed, and packing a value asks its type: decision 18",
    ),
    (
        "crates/pmix-capi/src/",
        &["datum", "model", "record"],
        "a value holds arrays of records, which hold values",
    ),
];

/// Returns `true` if all files of a cycle belong to a known one.
fn is_known(files: &[&str]) -> bool {
    KNOWN.iter().any(|(folder, names, _)| {
        files.iter().all(|file| {
            let name = file
                .strip_prefix(folder)
                .and_then(|file| file.strip_suffix(".rs"));
            name.is_some_and(|name| names.contains(&name))
        })
    })
}

/// A module path: the names of the parents and its own, from the crate root.
type Path = Vec<String>;

/// The names in a module.
#[derive(Default)]
struct Module {
    /// The index of its file.
    file: usize,
    /// The names that it defines.
    defined: BTreeSet<String>,
    /// Its imports by their local names.
    imported: BTreeMap<String, Path>,
    /// The modules from which it imports all names.
    globs: Vec<Path>,
    /// Every path that its code names, imports included.
    named: Vec<Path>,
}

/// The modules of a crate.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<Path, Module>,
    /// The modules that only tests have.
    tests: Vec<Path>,
}

/// Checks every crate.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let mut crates: BTreeMap<&str, Crate> = BTreeMap::new();
    for (number, file) in tree.files.iter().enumerate() {
        if let (Some(source), Some((root, path))) = (&file.source, place(&file.path)) {
            crates.entry(root).or_default().add(number, &path, source);
        }
    }
    let mut faults = Vec::new();
    for one in crates.values() {
        let needs = one.needs();
        for circle in circles(&needs) {
            let names: Vec<_> = circle
                .iter()
                .map(|n| tree.files[*n].path.as_str())
                .collect();
            if is_known(&names) {
                continue;
            }
            let mut whys = Vec::new();
            for (from, to) in circle
                .iter()
                .flat_map(|from| circle.iter().map(move |to| (from, to)))
            {
                if let Some(what) = needs.get(from).and_then(|needs| needs.get(to)) {
                    whys.push(format!("{} needs {what}", tree.files[*from].path));
                }
            }
            let message = format!(
                "a circle with {}: {}",
                names[1..].join(", "),
                whys.join("; ")
            );
            faults.push(tree.files[circle[0]].fault(0, message));
        }
    }
    faults
}

/// Returns the source directory of a file's crate and the file's module, if it is product code of a library.
fn place(path: &str) -> Option<(&str, Path)> {
    let (root, inside) = path.split_once("/src/")?;
    let inside = inside.strip_suffix(".rs")?;
    let mut names: Path = inside.split('/').map(str::to_owned).collect();
    if matches!(names.last()?.as_str(), "mod" | "lib" | "main") {
        names.pop();
    }
    let tests = names.last().is_some_and(|name| name == "tests");
    // A program beside a library has its own root.
    (!tests && !inside.starts_with("bin/")).then_some((root, names))
}

impl Crate {
    fn add(&mut self, file: usize, path: &[String], source: &Source) {
        for name in &source.test_modules {
            self.tests.push([path, std::slice::from_ref(name)].concat());
        }
        self.read(file, path, &source.product);
    }

    /// Reads the tokens of a module; inline modules belong to the same file.
    fn read(&mut self, file: usize, path: &[String], tokens: &[Token]) {
        let mut module = Module {
            file,
            ..Module::default()
        };
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at..] {
                [
                    Token::Name(word),
                    Token::Name(name),
                    Token::Braces(inside),
                    ..,
                ] if word == "mod" => {
                    let inner = [path, std::slice::from_ref(name)].concat();
                    self.read(file, &inner, inside);
                    at += 3;
                }
                [Token::Name(word), rest @ ..] if word == "use" => {
                    let end = rest.iter().position(|token| *token == Token::Sign(';'));
                    let end = end.unwrap_or(rest.len());
                    module.import(path, &[], &rest[..end]);
                    at += 1 + end;
                }
                [token, rest @ ..] => {
                    module.read_token(path, token, rest);
                    at += 1;
                }
                [] => break,
            }
        }
        // A library and a program of one crate share a root here.
        let known = self.modules.entry(path.to_vec()).or_default();
        known.file = file;
        known.defined.append(&mut module.defined);
        known.imported.append(&mut module.imported);
        known.globs.append(&mut module.globs);
        known.named.append(&mut module.named);
    }

    /// Returns the needs of each file: the other files, with one name that is defined there.
    fn needs(&self) -> BTreeMap<usize, BTreeMap<usize, String>> {
        let mut needs: BTreeMap<usize, BTreeMap<usize, String>> = BTreeMap::new();
        for (path, module) in &self.modules {
            if self.tests.iter().any(|test| path.starts_with(test)) {
                continue;
            }
            for named in &module.named {
                let Some((home, name)) = self.home(named, &mut BTreeSet::new()) else {
                    continue;
                };
                if home != module.file && !self.holds(home, path) {
                    needs
                        .entry(module.file)
                        .or_default()
                        .entry(home)
                        .or_insert(name);
                }
            }
        }
        needs
    }

    /// Returns `true` if a file belongs to an enclosing module.
    fn holds(&self, file: usize, path: &[String]) -> bool {
        let above = (0..path.len()).filter_map(|len| self.modules.get(&path[..len]));
        above.into_iter().any(|module| module.file == file)
    }

    /// Returns the file in which the item of a path is defined, and the item's name.
    fn home(&self, path: &[String], seen: &mut BTreeSet<Path>) -> Option<(usize, String)> {
        // An import such as `use toml::toml` from another crate would never end.
        const LONGEST: usize = 12;
        if path.len() > LONGEST || !seen.insert(path.to_vec()) {
            return None;
        }
        let mut module = self.modules.get(&[] as &[String])?;
        for (index, name) in path.iter().enumerate() {
            if let Some(next) = self.modules.get(&path[..=index]) {
                module = next;
                continue;
            }
            if module.defined.contains(name) {
                return Some((module.file, name.clone()));
            }
            let rest = &path[index + 1..];
            if let Some(target) = module.imported.get(name) {
                return self.home(&[&target[..], rest].concat(), seen);
            }
            let tail = &path[index..];
            let ours = |glob: &&Path| self.modules.contains_key(*glob);
            let mut globs = module.globs.iter().filter(ours);
            return globs.find_map(|glob| self.home(&[&glob[..], tail].concat(), seen));
        }
        None
    }
}

impl Module {
    /// Reads a token with the following ones: definitions and paths.
    fn read_token(&mut self, path: &[String], token: &Token, rest: &[Token]) {
        const DEFINE: &[&str] = &[
            "fn",
            "struct",
            "enum",
            "union",
            "trait",
            "type",
            "const",
            "static",
            "macro_rules",
        ];
        match token {
            Token::Name(word) => {
                let next = rest.iter().find_map(|token| match token {
                    // The name of a `const fn` follows both words.
                    Token::Name(name) if !["mut", "unsafe", "fn"].contains(&name.as_str()) => {
                        Some(Some(name))
                    }
                    Token::Name(_) | Token::Sign('!') => None,
                    _ => Some(None),
                });
                if let (true, Some(Some(name))) = (DEFINE.contains(&word.as_str()), next) {
                    self.defined.insert(name.clone());
                }
                let segments = segments(word, rest);
                if segments.len() > 1 {
                    self.named.extend(absolute(path, &segments));
                }
            }
            Token::Braces(inside) | Token::Inside(inside) => {
                for (at, token) in inside.iter().enumerate() {
                    match (token, &inside[at + 1..]) {
                        (Token::Name(word), rest) if word == "use" => {
                            let end = rest.iter().position(|token| *token == Token::Sign(';'));
                            self.import(path, &[], &rest[..end.unwrap_or(rest.len())]);
                        }
                        (token, rest) => self.read_inner(path, token, rest),
                    }
                }
            }
            _ => {}
        }
    }

    /// Reads tokens like [`Module::read_token`] inside an item, whose definitions are local.
    fn read_inner(&mut self, path: &[String], token: &Token, rest: &[Token]) {
        let mut inner = Self::default();
        inner.read_token(path, token, rest);
        self.named.append(&mut inner.named);
    }

    /// Reads the tree of an import.
    fn import(&mut self, path: &[String], before: &[String], tree: &[Token]) {
        for branch in tree.split(|token| *token == Token::Sign(',')) {
            let mut segments = before.to_vec();
            let mut alias = None;
            let mut tokens = branch.iter();
            while let Some(token) = tokens.next() {
                match token {
                    Token::Name(word) if word == "as" => {
                        if let Some(Token::Name(name)) = tokens.next() {
                            alias = Some(name.clone());
                        }
                    }
                    Token::Name(name) => segments.push(name.clone()),
                    Token::Braces(inside) => {
                        self.import(path, &segments, inside);
                        segments.clear();
                    }
                    Token::Sign('*') => {
                        self.globs.extend(absolute(path, &segments));
                        segments.clear();
                    }
                    _ => {}
                }
            }
            if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
                segments.pop();
            }
            let Some(target) = absolute(path, &segments) else {
                continue;
            };
            if let Some(name) = alias.or_else(|| segments.last().cloned()) {
                self.imported.insert(name, target.clone());
            }
            self.named.push(target);
        }
    }
}

/// Returns the path that begins with this name.
fn segments(first: &str, rest: &[Token]) -> Path {
    let mut segments = vec![first.to_owned()];
    for pair in rest.chunks(2) {
        match pair {
            [Token::Path, Token::Name(name)] => segments.push(name.clone()),
            _ => break,
        }
    }
    segments
}

/// Resolves a path from the crate root. A path that begins with neither `crate`, `self` nor `super`
/// may lead to a child module or another crate. The lookup decides later.
fn absolute(module: &[String], segments: &[String]) -> Option<Path> {
    let (first, mut rest) = segments.split_first()?;
    let mut base = module.to_vec();
    match first.as_str() {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            base.pop()?;
            while rest.first().is_some_and(|name| name == "super") {
                base.pop()?;
                rest = &rest[1..];
            }
        }
        _ => return Some([module, segments].concat()),
    }
    Some([&base[..], rest].concat())
}

/// Returns the groups of files that need each other, directly or indirectly.
fn circles(needs: &BTreeMap<usize, BTreeMap<usize, String>>) -> Vec<Vec<usize>> {
    let reach: BTreeMap<usize, BTreeSet<usize>> = needs
        .keys()
        .map(|start| (*start, reached(needs, *start)))
        .collect();
    let mut found: Vec<Vec<usize>> = Vec::new();
    for (file, reached) in &reach {
        let back = |other: &&usize| reach.get(other).is_some_and(|from| from.contains(file));
        let circle: Vec<usize> = reached.iter().filter(back).copied().collect();
        if circle.len() > 1 && !found.contains(&circle) {
            found.push(circle);
        }
    }
    found
}

/// Returns every file that one needs, directly or indirectly.
fn reached(needs: &BTreeMap<usize, BTreeMap<usize, String>>, start: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next = vec![start];
    while let Some(file) = next.pop() {
        for other in needs.get(&file).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(*other) {
                next.push(*other);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(files: &[(&str, &str)]) -> Vec<String> {
        let faults = check(&Tree::of(files));
        faults.into_iter().map(|fault| fault.to_string()).collect()
    }

    const ROOT: (&str, &str) = (
        "crates/a/src/lib.rs",
        "mod one;\nmod two;\npub use one::First;\npub use two::Second;\n",
    );

    #[test]
    fn two_files_that_need_each_other_are_found_through_re_exports() {
        let one = "use crate::Second;\npub struct First(Second);\n";
        let two = "pub struct Second;\nfn f() -> super::one::First { todo() }\n";
        let found = faults(&[
            ROOT,
            ("crates/a/src/one.rs", one),
            ("crates/a/src/two.rs", two),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("crates/a/src/one.rs needs Second"),
            "{found:?}"
        );
        assert!(
            found[0].contains("crates/a/src/two.rs needs First"),
            "{found:?}"
        );
    }

    #[test]
    fn a_module_and_its_parts_are_one() {
        let parent = "mod inner;\npub(crate) struct Own;\nfn f() { inner::g() }\n";
        let inner = "use super::Own;\npub(super) fn g() { let _ = Own; }\n";
        let parent = ("crates/a/src/outer.rs", parent);
        let root = ("crates/a/src/lib.rs", "mod outer;\n");
        let child = ("crates/a/src/outer/inner.rs", inner);
        assert_eq!(faults(&[root, parent, child]).len(), 0);
        // A submodule and a sibling module that need each other are no cycle.
        let beside = (
            "crates/a/src/beside.rs",
            "pub struct B; fn f() { crate::outer::Own }\n",
        );
        let inner = "pub(super) fn g() { crate::beside::B }\n";
        let root = ("crates/a/src/lib.rs", "mod beside;\nmod outer;\n");
        let child = ("crates/a/src/outer/inner.rs", inner);
        assert_eq!(faults(&[root, parent, child, beside]).len(), 1);
    }

    #[test]
    fn only_the_known_circle_is_allowed() {
        let capi = |names: &[&str]| -> bool {
            let files: Vec<_> = names
                .iter()
                .map(|name| format!("crates/pmix-capi/src/{name}.rs"))
                .collect();
            is_known(&files.iter().map(String::as_str).collect::<Vec<_>>())
        };
        assert!(capi(&["datum", "record"]));
        assert!(!capi(&["datum", "record", "client"]));
        assert!(!capi(&["client", "server"]));
    }

    #[test]
    fn tests_and_comments_create_no_dependency() {
        let one =
            "pub struct First;\n// crate::Second\n#[cfg(test)]\nmod tests { use crate::Second; }\n";
        let two = "use crate::First;\npub struct Second(First);\n";
        let files = [
            ROOT,
            ("crates/a/src/one.rs", one),
            ("crates/a/src/two.rs", two),
        ];
        assert_eq!(faults(&files).len(), 0);
    }

    #[test]
    fn a_function_name_follows_its_keywords() {
        let text =
            "const A: u8 = 1;\npub const fn b() {}\nconst unsafe fn c() {}\nunsafe fn d() {}\n";
        let tree = Tree::of(&[("crates/a/src/lib.rs", text)]);
        let mut one = Crate::default();
        one.add(0, &[], tree.files[0].source.as_ref().unwrap());
        let defined = &one.modules[&[] as &[String]].defined;
        assert_eq!(defined.iter().collect::<Vec<_>>(), ["A", "b", "c", "d"]);
    }

    #[test]
    fn three_files_in_a_ring_are_one_circle() {
        let found = faults(&[
            ("crates/a/src/lib.rs", "mod a;\nmod b;\nmod c;\n"),
            (
                "crates/a/src/a.rs",
                "pub struct A; fn f(_: crate::b::B) {}\n",
            ),
            (
                "crates/a/src/b.rs",
                "pub struct B; use crate::c::*; fn f(_: C) {} fn g() { crate::c::h() }\n",
            ),
            (
                "crates/a/src/c.rs",
                "pub struct C; pub fn h() { super::a::A; }\n",
            ),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
