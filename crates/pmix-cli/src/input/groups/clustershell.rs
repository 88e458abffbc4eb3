// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of ClusterShell: `groups.conf`, the YAML files of `groups.d`, and the older file `groups`.
//!
//! Source: groups.conf(5) of ClusterShell 1.9, and the `groups.conf` that it installs.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use pmix_mca::Environment;

use super::ini::{self, Section};
use super::{Groups, malformed, read_permitted, yaml};
use crate::failure::Failure;

/// The maximum number of files of a directory.
const MOST_FILES: usize = 1000;

/// The source of the file `groups`.
const LOCAL: &str = "local";

/// The command by which the installed `groups.conf` reads a file of groups. Its last word is the file.
const READER: &str = r"sed -n 's/^$GROUP:\(.*\)/\1/p' ";

/// Adds the groups of the directories of ClusterShell. If the one with the highest precedence has only the older files,
/// these are read alone; otherwise all files `groups.conf` together are the configuration.
pub(super) fn read(environment: &Environment, groups: &mut Groups) -> Result<(), Failure> {
    let directories = directories(environment);
    let is_configured = |dir: &PathBuf| dir.join("groups.conf").exists();
    let has_older = |dir: &PathBuf| dir.join("groups").is_file() || dir.join("groups.d").is_dir();
    let mut found = directories.iter();
    let found = found.find(|dir| is_configured(dir) || has_older(dir));
    if let Some(dir) = found.filter(|dir| !is_configured(dir)) {
        of_directory(&dir.join("groups.d"), groups)?;
        return of_local(LOCAL, &local_file(dir), groups);
    }
    let (mut sections, mut highest) = (Vec::new(), None);
    for dir in directories.iter().rev() {
        let path = dir.join("groups.conf");
        if let Some(text) = read_permitted(&path)? {
            merge(&mut sections, parse(&path, &text)?, &path);
            highest = Some(dir);
        }
    }
    highest.map_or(Ok(()), |dir| of_configuration(dir, &sections, groups))
}

/// Returns the directories of ClusterShell, that with the highest precedence first.
fn directories(environment: &Environment) -> Vec<PathBuf> {
    let named = |name| environment.first_of(&[name]).map(PathBuf::from);
    let home = environment.home.as_deref();
    let user = named("XDG_CONFIG_HOME").or_else(|| home.map(|home| home.join(".config")));
    let dirs = [
        named("CLUSTERSHELL_CFGDIR"),
        user.map(|dir| dir.join("clustershell")),
        home.map(|home| home.join(".local/etc/clustershell")),
        Some(environment.system.join("clustershell")),
    ];
    dirs.into_iter().flatten().collect()
}

/// A section with the file of the highest precedence that has it.
type Placed = (Section, PathBuf);

/// Adds the sections of a file with a higher precedence. Its keys replace those of sections with the same name.
fn merge(sections: &mut Vec<Placed>, higher: Vec<Section>, path: &Path) {
    let mut places: HashMap<_, _> = (sections.iter().enumerate())
        .map(|(index, (section, _))| (section.name.clone(), index))
        .collect();
    for section in higher {
        let last = sections.len();
        match *places.entry(section.name.clone()).or_insert(last) {
            index if index < last => {
                let (known, file) = &mut sections[index];
                known.values.extend(section.values);
                path.clone_into(file);
            }
            _ => sections.push((section, path.to_owned())),
        }
    }
}

/// Adds the groups of merged sections. `dir` is the directory of the highest precedence that has some of them.
fn of_configuration(dir: &Path, sections: &[Placed], groups: &mut Groups) -> Result<(), Failure> {
    let main = (sections.iter())
        .map(|(section, _)| section)
        .find(|section| section.name.eq_ignore_ascii_case("main"));
    let value = |key| main.and_then(|main| main.value(key));
    groups.default = value("default")
        .filter(|name| !name.is_empty())
        .map(str::to_owned);
    let dirs = |text: &str| -> Vec<PathBuf> {
        let words = text
            .split_whitespace()
            .map(|word| word.trim_matches(['"', '\'']));
        words.map(|word| dir.join(expanded(word, dir))).collect()
    };
    for place in dirs(
        value("confdir")
            .or_else(|| value("groupsdir"))
            .unwrap_or_default(),
    ) {
        for path in files(&place, "conf")? {
            if let Some(text) = read_permitted(&path)? {
                let mut found = Vec::new();
                merge(&mut found, parse(&path, &text)?, &path);
                of_sections(dir, &found, groups)?;
            }
        }
    }
    for place in dirs(value("autodir").unwrap_or_default()) {
        of_directory(&place, groups)?;
    }
    // Last, as in ClusterShell: without a default, the first source is the default.
    of_sections(dir, sections, groups)
}

fn parse(path: &Path, text: &str) -> Result<Vec<Section>, Failure> {
    ini::parse(text).map_err(|line| {
        malformed(
            path,
            format!("line {line}: expected `KEY: VALUE` in a section `[SOURCE]`"),
        )
    })
}

/// Adds the sources of sections: those of files are read, and those of other commands are remembered by name.
fn of_sections(dir: &Path, sections: &[Placed], groups: &mut Groups) -> Result<(), Failure> {
    let sources = (sections.iter()).filter(|(one, _)| !one.name.eq_ignore_ascii_case("main"));
    for (section, path) in sources {
        let file = section
            .value("map")
            .and_then(|map| map.trim().rsplit_once(READER));
        let file = match file.map(|(_, file)| file.trim()) {
            Some("$f") => Some(local_file(dir)),
            Some(file) if !file.contains([' ', ';', '|', '&', '`', '(']) => {
                Some(dir.join(expanded(file, dir)))
            }
            _ => None,
        };
        for name in section
            .name
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            match &file {
                Some(file) => of_local(name, file, groups)?,
                None => groups.upcalls.push((name.to_owned(), path.to_owned())),
            }
        }
    }
    Ok(())
}

fn expanded(word: &str, dir: &Path) -> String {
    word.replace("$CFGDIR", &dir.to_string_lossy())
}

/// Returns the file of local groups, as the installed `groups.conf` selects it.
fn local_file(dir: &Path) -> PathBuf {
    let older = dir.join("groups");
    match older.is_file() {
        true => older,
        false => dir.join("groups.d/local.cfg"),
    }
}

/// Adds the groups of a file with lines `GROUP: NODES`.
fn of_local(name: &str, path: &Path, groups: &mut Groups) -> Result<(), Failure> {
    let Some(text) = read_permitted(path)? else {
        return Ok(());
    };
    let source = groups.add_source(name, path);
    for line in text.lines() {
        // A line that is no group is ignored, as `sed` does.
        let Some((group, nodes)) = line.split_once(':') else {
            continue;
        };
        let is_name =
            !group.is_empty() && !group.contains(char::is_whitespace) && !group.starts_with('#');
        if is_name {
            groups.add(source, group, nodes.trim())?;
        }
    }
    Ok(())
}

/// Adds the groups of the YAML files of a directory.
fn of_directory(dir: &Path, groups: &mut Groups) -> Result<(), Failure> {
    for path in files(dir, "yaml")? {
        let Some(text) = read_permitted(&path)? else {
            continue;
        };
        for (name, group, nodes) in yaml::parse(&text).map_err(|why| malformed(&path, why))? {
            let source = groups.add_source(&name, &path);
            groups.add(source, &group, &nodes)?;
        }
    }
    Ok(())
}

/// Returns the files of a directory with this extension, sorted by name.
fn files(dir: &Path, extension: &str) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let is_one = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
    let mut files: Vec<_> = entries.filter(is_one).take(MOST_FILES + 1).collect();
    if files.len() > MOST_FILES {
        let why = format!("the directory has more than {MOST_FILES} files *.{extension}");
        return Err(malformed(dir, why));
    }
    files.sort();
    Ok(files)
}
