// SPDX-License-Identifier: MIT OR Apache-2.0
//! The texts of the pretty-print functions of the C interface.
//!
//! `name()` is the constant of the headers, and `Display` prints it. `pretty()` is the return value
//! of the C function for the same type in the newest release, byte for byte. Numbers that a C
//! function does not know share one text for unknown numbers, even if they have a name.
//! `testdata/types/pretty.tsv` has the return values of 4.2.2 and 5.0.11. Types without such a
//! function have no `pretty()`.
//!
//! Source: PMIx Standard, the functions `PMIx_*_string` of each chapter; the texts are those of
//! OpenPMIx.

use crate::{
    AllocDirective, AllocInheritance, DataRange, DataType, DeviceType, GroupOperation, InfoFlags,
    IofChannel, JobState, LinkState, Persistence, ProcState, ResourceBlockDirective, Scope, Status,
};

macro_rules! pretty {
    ($($function:literal $name:ident { $($constant:ident => $word:literal,)* _ => $other:literal })*) => {$(
        impl $name {
            #[doc = concat!("What `", $function, "` answers.")]
            #[must_use]
            pub const fn pretty(self) -> &'static str {
                match self { $(Self::$constant => $word,)* _ => $other }
            }
        }
    )*};
}

pretty! {
    "PMIx_Proc_state_string" ProcState {
        UNDEF => "UNDEFINED",
        PREPPED => "PREPPED FOR LAUNCH",
        LAUNCH_UNDERWAY => "LAUNCH UNDERWAY",
        RESTART => "PROC READY FOR RESTART",
        TERMINATE => "PROC MARKED FOR TERMINATION",
        RUNNING => "PROC EXECUTING",
        CONNECTED => "PROC HAS CONNECTED TO LOCAL PMIX SERVER",
        UNTERMINATED => "PROC HAS NOT TERMINATED",
        TERMINATED => "PROC HAS TERMINATED",
        ERROR => "PROC ERROR",
        KILLED_BY_CMD => "PROC KILLED BY CMD",
        ABORTED => "PROC ABNORMALLY ABORTED",
        FAILED_TO_START => "PROC FAILED TO START",
        ABORTED_BY_SIG => "PROC ABORTED BY SIGNAL",
        TERM_WO_SYNC => "PROC TERMINATED WITHOUT CALLING PMIx_Finalize",
        COMM_FAILED => "PROC LOST COMMUNICATION",
        SENSOR_BOUND_EXCEEDED => "PROC SENSOR BOUND EXCEEDED",
        CALLED_ABORT => "PROC CALLED PMIx_Abort",
        HEARTBEAT_FAILED => "PROC FAILED TO REPORT HEARTBEAT",
        MIGRATING => "PROC WAITING TO MIGRATE",
        CANNOT_RESTART => "PROC CANNOT BE RESTARTED",
        TERM_NON_ZERO => "PROC TERMINATED WITH NON-ZERO STATUS",
        FAILED_TO_LAUNCH => "PROC FAILED TO LAUNCH",
        _ => "UNKNOWN STATE"
    }
    "PMIx_Job_state_string" JobState {
        UNDEF => "UNDEFINED",
        AWAITING_ALLOC => "PREPPED FOR LAUNCH",
        LAUNCH_UNDERWAY => "LAUNCHING",
        RUNNING => "RUNNING",
        SUSPENDED => "SUSPENDED",
        CONNECTED => "CONNECTED",
        UNTERMINATED => "UNTERMINATED",
        TERMINATED => "TERMINATED",
        TERMINATED_WITH_ERROR => "TERMINATED WITH ERROR",
        _ => "UNKNOWN"
    }
    "PMIx_Link_state_string" LinkState {
        DOWN => "INACTIVE",
        UP => "ACTIVE",
        _ => "UNKNOWN"
    }
    "PMIx_Scope_string" Scope {
        UNDEF => "UNDEFINED",
        LOCAL => "SHARE ON LOCAL NODE ONLY",
        REMOTE => "SHARE ON REMOTE NODES ONLY",
        GLOBAL => "SHARE ACROSS ALL NODES",
        INTERNAL => "STORE INTERNALLY",
        _ => "UNKNOWN SCOPE"
    }
    "PMIx_Persistence_string" Persistence {
        INDEF => "INDEFINITE",
        FIRST_READ => "DELETE ON FIRST ACCESS",
        PROC => "RETAIN UNTIL PUBLISHING PROCESS TERMINATES",
        APP => "RETAIN UNTIL APPLICATION OF PUBLISHING PROCESS TERMINATES",
        SESSION => "RETAIN UNTIL ALLOCATION OF PUBLISHING PROCESS TERMINATES",
        INVALID => "INVALID",
        _ => "UNKNOWN PERSISTENCE"
    }
    "PMIx_Data_range_string" DataRange {
        UNDEF => "UNDEFINED",
        RM => "INTENDED FOR HOST RESOURCE MANAGER ONLY",
        LOCAL => "AVAIL ON LOCAL NODE ONLY",
        NAMESPACE => "AVAIL TO PROCESSES IN SAME JOB ONLY",
        SESSION => "AVAIL TO PROCESSES IN SAME ALLOCATION ONLY",
        GLOBAL => "AVAIL TO ANYONE WITH AUTHORIZATION",
        CUSTOM => "AVAIL AS SPECIFIED IN DIRECTIVES",
        PROC_LOCAL => "AVAIL ON LOCAL PROC ONLY",
        INVALID => "INVALID",
        _ => "UNKNOWN"
    }
    "PMIx_Alloc_directive_string" AllocDirective {
        NEW => "NEW",
        EXTEND => "EXTEND",
        RELEASE => "RELEASE",
        REAQUIRE => "REACQUIRE",
        _ => "UNSPECIFIED"
    }
    "PMIx_Alloc_inheritance_string" AllocInheritance {
        NONE => "NONE",
        CHILD => "CHILD",
        DEFAULT => "DEFAULT",
        CHILD_DEFAULT => "CHILD_DEFAULT",
        _ => "UNSPECIFIED"
    }
    "PMIx_Resource_block_directive_string" ResourceBlockDirective {
        DEFINE => "DEFINE",
        EXTEND => "EXTEND",
        REMOVE => "REMOVE",
        DELETE => "DELETE",
        _ => "UNSPECIFIED"
    }
    "PMIx_Group_operation_string" GroupOperation {
        CONSTRUCT => "CONSTRUCT",
        DESTRUCT => "DESTRUCT",
        NONE => "NONE",
        _ => "UNKNOWN VALUE"
    }
    "PMIx_Device_type_string" DeviceType {
        BLOCK => "BLOCK",
        GPU => "GPU",
        NETWORK => "NETWORK",
        OPENFABRICS => "OPENFABRICS",
        DMA => "DMA",
        COPROC => "COPROCESSOR",
        _ => "UNKNOWN"
    }
}

impl DataType {
    /// Returns the text of `PMIx_Data_type_string` after initialization of the library.
    #[must_use]
    pub const fn pretty(self) -> &'static str {
        match self {
            // These two are not types of data.
            Self::UNDEF | Self::DATA_TYPE_MAX => "UNKNOWN",
            _ => match self.constant() {
                Some(row) => row.full_name(),
                None => "UNKNOWN",
            },
        }
    }
}

impl Status {
    /// Returns the text of `PMIx_Error_string` in release 5 and later.
    ///
    /// DEVIATION: `PMIX_EXTERNAL_ERR_BASE` is in the headers but not in the list of OpenPMIx; here
    /// it has its name, like every other status; test
    /// `every_other_number_shares_the_word_for_unknown_ones`.
    #[must_use]
    pub const fn pretty(self) -> &'static str {
        match self.constant() {
            Some(row) => row.full_name(),
            None => "ERROR STRING NOT FOUND",
        }
    }
}

impl InfoFlags {
    /// Returns the text of `PMIx_Info_directives_string`, which has names for four of the flags.
    #[must_use]
    pub const fn pretty(self) -> &'static str {
        if self.contains(Self::QUALIFIER) {
            return "QUALIFIER";
        }
        let required = self.contains(Self::REQD);
        let processed = self.contains(Self::REQD_PROCESSED);
        match (required, processed, self.contains(Self::ARRAY_END)) {
            (false, false, false) => "OPTIONAL",
            (false, false, true) => "OPTIONAL:END",
            (false, true, false) => "OPTIONAL:PROCESSED",
            (false, true, true) => "OPTIONAL:PROCESSED:END",
            (true, false, false) => "REQUIRED",
            (true, false, true) => "REQUIRED:END",
            (true, true, false) => "REQUIRED:PROCESSED",
            (true, true, true) => "REQUIRED:PROCESSED:END",
        }
    }
}

impl IofChannel {
    /// Returns the text of `PMIx_IOF_channel_string`, with the space after every channel.
    #[must_use]
    pub const fn pretty(self) -> &'static str {
        match self.as_raw() & 0xf {
            0x0 => "NONE",
            0x1 => "STDIN ",
            0x2 => "STDOUT ",
            0x3 => "STDIN STDOUT ",
            0x4 => "STDERR ",
            0x5 => "STDIN STDERR ",
            0x6 => "STDOUT STDERR ",
            0x7 => "STDIN STDOUT STDERR ",
            0x8 => "STDDIAG ",
            0x9 => "STDIN STDDIAG ",
            0xa => "STDOUT STDDIAG ",
            0xb => "STDIN STDOUT STDDIAG ",
            0xc => "STDERR STDDIAG ",
            0xd => "STDIN STDERR STDDIAG ",
            0xe => "STDOUT STDERR STDDIAG ",
            _ => "STDIN STDOUT STDERR STDDIAG ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No installable release has these functions. The texts are those of the snapshot that the
    /// extension documents describe.
    #[test]
    fn newer_functions_have_the_texts_of_the_snapshot() {
        assert_eq!(AllocInheritance::CHILD_DEFAULT.pretty(), "CHILD_DEFAULT");
        assert_eq!(AllocInheritance::from_raw(0).pretty(), "UNSPECIFIED");
        assert_eq!(ResourceBlockDirective::REMOVE.pretty(), "REMOVE");
        assert_eq!(ResourceBlockDirective::EXTERNAL.pretty(), "UNSPECIFIED");
        assert_eq!(GroupOperation::NONE.pretty(), "NONE");
        assert_eq!(GroupOperation::CANCEL.pretty(), "UNKNOWN VALUE");
        assert_eq!(DataType::REGEX2.pretty(), "PMIX_REGEX2");
    }
}
