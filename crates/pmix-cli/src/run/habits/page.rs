// SPDX-License-Identifier: MIT OR Apache-2.0
//! docs/launchers.md and pmix-launchers(7), generated from the tables of the parser. The test writes docs/launchers.md
//! with `PMIX_DOCS=write`.

use super::row::Handling;
use super::table::SECTIONS;
use crate::args::{MODIFIERS, POLICIES};
use crate::run::launcher_mca::{self, Meaning};

const HEAD: &str = "\
# From mpirun, srun and mpiexec

This page lists the options of other launchers: `mpirun` of Open MPI 4 and 5 (and `prterun`), `srun` of Slurm, `mpiexec` of
MPICH (Hydra) and of PALS, `aprun`, `jsrun` and `flux run`. `pmix run` accepts each of them, or refuses it by its name with the
option to use instead. Long options may have one dash (`-np`).
";

/// Returns the page, in Markdown.
pub(crate) fn page() -> String {
    let mut text = HEAD.to_owned();
    for (title, rows) in SECTIONS {
        text +=
            &format!("\n## {title}\n\n| options | launchers | `pmix run` |\n| --- | --- | --- |\n");
        for row in *rows {
            let names: Vec<_> = row.names.iter().map(|name| format!("`{name}`")).collect();
            let handling = match row.handling {
                Handling::Accepted(effect) => format!("accepted: {effect}"),
                Handling::Refused(cure) => format!("refused: {cure}"),
            };
            let from = row.from.join(", ");
            text += &format!(
                "| {} | {from} | {} |\n",
                names.join(", "),
                escaped(&handling)
            );
        }
    }
    text += "\n## Policies and modifiers of `--map-by` and `--bind-to`\n\n\
        The modifiers follow the part after a colon: `core:pe=2:oversubscribe`. Names may be abbreviated, and may be in upper \
        case.\n`--bind-to` accepts the modifiers `overload-allowed` and `if-supported`, and refuses `no-overload`, `report` \
        and `limit=N`.\n\n| `--map-by` | `pmix run` |\n| --- | --- |\n";
    for (name, cure) in POLICIES {
        text += &format!("| `{name}` | refused: {} |\n", escaped(cure));
    }
    for (name, cure) in MODIFIERS {
        let accepted = match *name {
            "hwtcpus" => "accepted; acts only with `pe=N` or `--cpus-per-rank N`",
            _ => "accepted",
        };
        let handling = cure.map_or_else(|| accepted.to_owned(), |cure| format!("refused: {cure}"));
        text += &format!("| `:{name}` | {} |\n", escaped(&handling));
    }
    text += "\n## MCA parameters of launchers\n\n\
        These parameters of the launcher of Open MPI 4 and 5 have the effect of an option if the option is not given. They \
        count in\n`--mca NAME VALUE` and in the variables `OMPI_MCA_NAME` and `PRTE_MCA_NAME`. A warning names other \
        parameters\nof the launcher in `--mca`, and other variables with `rmaps_`. A hostfile in a variable is used only \
        without an allocation and\nif it has an entry for this node.\n\n| parameters | `pmix run` |\n| --- | --- |\n";
    for (names, meaning) in launcher_mca::PARAMETERS {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        let effect = match meaning {
            Meaning::Unused(cure) => format!("warning: {cure}"),
            _ => format!("`{}`", meaning.option()),
        };
        text += &format!("| {} | {} |\n", names.join(", "), escaped(&effect));
    }
    text
}

/// Returns a text for a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
#[test]
fn the_page_is_that_of_the_tables() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/launchers.md");
    let environment = pmix_mca::Environment::of_process();
    if environment
        .first_of(&["PMIX_DOCS"])
        .is_some_and(|mode| mode == "write")
    {
        std::fs::write(path, page()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap();
    assert!(
        written == page(),
        "docs/launchers.md differs: write it with `PMIX_DOCS=write cargo test -p pmix-cli page`"
    );
}
