// SPDX-License-Identifier: MIT OR Apache-2.0
//! The purposes of requests to the agents of several nodes, with the state that waits for the answers.

use std::collections::BTreeMap;
use std::time::Duration;

use pmix_server::Completion;
use pmix_types::{Info, Nspace};

use crate::agent::{MeasuredQuery, Question, Report};
use crate::nodes::{QuestionForm, SubjectForm};

/// The time for the lists of pending operations, and for measurements.
pub(super) const LISTING: Duration = Duration::from_secs(2);

/// The processes to examine by the number of their node.
pub(super) type SubjectsOfNodes = BTreeMap<usize, Vec<SubjectForm>>;

/// The measurements for a query by the number of their node, each with the place of its question.
pub(super) type QuestionsOfNodes = BTreeMap<usize, Vec<(usize, QuestionForm)>>;

/// The purpose of an inquiry.
pub(crate) enum Purpose {
    /// Notices of collectives that have waited for this time.
    Notice(Duration),
    /// The report of a job; `true` if its time limit has passed.
    Report(Nspace<'static>, bool),
    /// The examination of processes of a report. Those of this node follow.
    Examination(Report),
    /// The examination of processes for a query.
    QueryStacks(Completion<Vec<Info<'static>>>),
    /// The pending operations of jobs, or of all jobs, for a query.
    QueryWaits {
        query: Box<MeasuredQuery>,
        jobs: Vec<Option<Nspace<'static>>>,
        questions: Vec<Question>,
        others: QuestionsOfNodes,
    },
    /// The measurements for a query. Those of this node follow.
    QueryUsage {
        query: Box<MeasuredQuery>,
        questions: Vec<Question>,
        /// The places of the questions of each node.
        places: BTreeMap<usize, Vec<usize>>,
    },
}
