// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row of the table of options of other launchers.

/// The launchers, as the page names them.
pub(super) const MPIRUN4: &str = "mpirun 4";
pub(super) const MPIRUN5: &str = "mpirun 5";
pub(super) const SRUN: &str = "srun";
pub(super) const HYDRA: &str = "Hydra";
pub(super) const APRUN: &str = "aprun";
pub(super) const PALS: &str = "PALS";
pub(super) const JSRUN: &str = "jsrun";
pub(super) const FLUX: &str = "flux run";

/// The handling of an option of another launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handling {
    /// The option is accepted. The text is its effect.
    Accepted(&'static str),
    /// The option is refused. The text is the option to use instead.
    Refused(&'static str),
}

/// Options of other launchers with the same handling.
pub(super) struct Row {
    /// The names, as they are typed.
    pub(super) names: &'static [&'static str],
    /// The launchers that have one of them.
    pub(super) from: &'static [&'static str],
    pub(super) handling: Handling,
}

/// Returns a row of the table.
pub(super) const fn row(
    names: &'static [&'static str],
    from: &'static [&'static str],
    handling: Handling,
) -> Row {
    Row {
        names,
        from,
        handling,
    }
}
