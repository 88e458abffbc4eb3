// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests of the controller that a member answers: data of processes, pending operations, examinations and
//! measurements of its processes.

use std::sync::Arc;

use pmix_types::{Info, Nspace, Proc, Rank, Status, Value};

use super::Member;
use crate::Error;
use crate::agent::{Answers, Question, Recipient, Report, Subject};
use crate::nodes::message::{FromNode, ProcName, QuestionForm, QuestionKind, SubjectForm};
use crate::nodes::{pack_infos, pack_lines, unpack_infos};
use crate::pending::QUERY_PENDING;

/// The largest number of jobs in one request for pending operations.
const MOST_JOBS: usize = 64;

impl Member<'_> {
    /// Asks the server of this node for data of one of its processes.
    pub(super) fn answer_modex(
        &mut self,
        call: u64,
        proc: ProcName,
        infos: &[u8],
    ) -> Result<(), Error> {
        let infos = unpack_infos(infos)?;
        let (answers, wake) = (self.answers.clone(), Arc::clone(&self.wake));
        let done = move |result: Result<Vec<u8>, Status>| {
            let result = result.map_err(Status::as_raw);
            // The receiver lives as long as the member.
            let _ = answers.send(FromNode::Data { call, result });
            wake();
        };
        self.agent
            .modex_here(&proc.into_proc(), &infos, Box::new(done));
        Ok(())
    }

    /// Lists the operations in which processes of this node wait.
    pub(super) fn answer_waits(
        &mut self,
        call: u64,
        jobs: Vec<Option<Vec<u8>>>,
    ) -> Result<(), Error> {
        let pending = jobs.into_iter().take(MOST_JOBS).map(|job| {
            let job = job.map(Nspace::new);
            let pending = self.agent.pending(job.as_ref());
            Info::new(QUERY_PENDING, pending.to_value())
        });
        let pending: Vec<_> = pending.collect();
        self.answer(call, pack_infos(&pending))
    }

    /// Begins the examination of processes of this node.
    pub(super) fn examine(
        &mut self,
        call: u64,
        subjects: Vec<SubjectForm>,
        has_stacks: bool,
    ) -> Result<(), Error> {
        let subjects = subjects.into_iter().map(|subject| {
            let process = self.agent.jobs().process(&subject.proc.into_proc());
            let process = process.filter(|process| process.ended.is_none());
            Subject {
                name: subject.name,
                state: subject.state,
                pid: process.map(|process| process.pid.as_raw_nonzero().get()),
            }
        });
        let report = Report {
            recipient: Recipient::Controller(call),
            subjects: subjects.collect(),
            has_stacks,
        };
        match self.agent.examinations().begin(report) {
            true => Ok(()),
            false => self.answer(call, Err(Error::no_room("too many examinations"))),
        }
    }

    /// Sends the lines of the examinations that are complete.
    pub(super) fn finish_examinations(&mut self) -> Result<(), Error> {
        while let Some((recipient, lines)) = self.agent.examinations().next() {
            // All examinations of a member are for the controller.
            if let Recipient::Controller(call) = recipient {
                self.answer(call, pack_lines(&lines))?;
            }
        }
        Ok(())
    }

    /// Begins measurements on this node.
    pub(super) fn measure(&mut self, call: u64, forms: Vec<QuestionForm>) -> Result<(), Error> {
        let mut questions = Vec::with_capacity(forms.len());
        for form in forms {
            questions.push(self.question(form)?);
        }
        let node = self.agent.node_alone();
        match self.agent.monitors().measure_for(call, questions, node) {
            Ok(()) => Ok(()),
            Err(error) => {
                let result = Err(error.status().as_raw());
                self.send(&FromNode::Data { call, result })
            }
        }
    }

    /// Sends the results of measurements. A result that the system does not report is an empty value.
    pub(super) fn send_measured(&mut self, call: u64, answers: Answers) -> Result<(), Error> {
        let none = || Info::new("", Value::Undef);
        let answers = answers.into_iter();
        let answers: Vec<_> = answers.map(|answer| answer.unwrap_or_else(none)).collect();
        self.answer(call, pack_infos(&answers))
    }

    /// Returns the measurement of a form. Processes that are not on this node are left out.
    fn question(&self, form: QuestionForm) -> Result<Question, Error> {
        let infos = unpack_infos(&form.infos)?;
        let nspace = Nspace::new(form.nspace).to_shared();
        let ranks = form.ranks.into_iter().map(Rank::new);
        let job = self.agent.job(&nspace);
        let procs = ranks.filter_map(|rank| {
            let process = job?
                .process(rank)
                .filter(|process| process.ended.is_none())?;
            let pid = process.pid.as_raw_nonzero().get();
            Some((Proc::new(nspace.clone(), rank), pid))
        });
        let procs = procs.collect();
        Ok(match form.kind {
            QuestionKind::Node => Question::Node(infos),
            QuestionKind::Processes(detail) => Question::Processes(procs, detail.into(), infos),
            QuestionKind::Memory => Question::Memory(procs, infos),
        })
    }

    /// Sends the answer to a request.
    fn answer(&mut self, call: u64, result: Result<Vec<u8>, Error>) -> Result<(), Error> {
        let result = result.map_err(|error| error.status().as_raw());
        self.send(&FromNode::Data { call, result })
    }
}
