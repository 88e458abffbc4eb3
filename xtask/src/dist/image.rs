// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the recipes of docs/install.md that bind the library into an image.

use std::fs;
use std::path::Path;
use std::process::Command;

use xtask::Outcome;
use xtask::install;
use xtask::process::{output, root};

use super::{PROGRAM, four_say};
use crate::files::write;

/// The page with the recipes, and the heading above them.
const PAGE: (&str, &str) = ("docs/install.md", "## In an image\n");

/// The system file over which the second recipe mounts the library.
const LIBRARY: &str = "LIBRARY=/usr/lib/x86_64-linux-gnu/libpmix.so.2";

/// Runs each recipe with the system as the image.
pub(super) fn check(outcome: &mut Outcome, folder: &Path) {
    install::packages(&["bubblewrap", "libpmix2"]);
    // Inside a container, namespaces may not be allowed.
    let allowed = output(Command::new("bwrap").args(["--ro-bind", "/", "/", "true"]));
    match allowed {
        Ok(_) => outcome.check("image", recipes(folder)),
        Err(why) => outcome.skip("image", &format!("no image can be run: {why}")),
    }
}

fn recipes(folder: &Path) -> Result<(), String> {
    let scratch = install::scratch("dist")?;
    let (source, program) = (scratch.join("in_image.c"), scratch.join("in_image"));
    write(&source, PROGRAM.as_bytes())?;
    let mut compiler = Command::new("cc");
    compiler.arg("-o").arg(&program).arg(&source);
    compiler.arg("-I").arg(folder.join("include"));
    output(compiler.arg(folder.join("lib/libpmix.so.2")))?;
    let path = root().join(PAGE.0);
    let page = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let recipes = blocks(&page);
    if recipes.len() != 2 {
        return Err(format!("{} has {} recipes", path.display(), recipes.len()));
    }
    for recipe in recipes {
        let is_there = Path::new(LIBRARY.trim_start_matches("LIBRARY=")).exists();
        if recipe.contains("$LIBRARY") && !(recipe.contains(LIBRARY) && is_there) {
            return Err(format!(
                "{LIBRARY} is not what the recipe and this system have"
            ));
        }
        let (_, commands) = recipe.split_once('\n').unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-ec", commands]);
        shell.env("DIST", folder).env("IMAGE", "/");
        // Without the recipe, the program would load the library of the system.
        four_say(shell.env("PROGRAM", &program), "pmix-rs")?;
    }
    Ok(())
}

/// Returns the shell blocks below the heading.
fn blocks(page: &str) -> Vec<&str> {
    let (_, section) = page.split_once(PAGE.1).unwrap_or_default();
    let blocks = section.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    blocks.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipes_are_those_of_the_section() {
        let page = "```sh\nother\n```\n## In an image\n```sh\na\nb\n```\ntext\n```sh\nc\n```\n";
        assert_eq!(blocks(page), ["a\nb\n", "c\n"]);
        assert!(blocks("no such section").is_empty());
    }
}
