// SPDX-License-Identifier: MIT OR Apache-2.0
//! Other nodes: their agents, the links to them, and the messages on the links.
//!
//! ```text
//! controller ── Agent of its node ── Nodes ── Link ──> `pmix node` ── Agent of that node
//! ```
//!
//! | module | content |
//! | --- | --- |
//! | `message`, `form` | the messages, and the forms of jobs in them |
//! | `frames`, `link` | messages as frames of bytes; the descriptors of one end of a link |
//! | `remote` | the nodes of a session, as its controller knows them |
//! | `joining`, `member` | the settings and the session of `pmix node` |

mod form;
mod frames;
mod joining;
mod link;

mod member;
mod message;
mod remote;

pub(crate) use form::{pack_infos, pack_lines, unpack_infos, unpack_lines};
pub use joining::{MemberSettings, OpenEncoders};
pub use member::serve_as_member;
pub(crate) use message::{
    EndedForm, FromNode, JobForm, ProcName, QuestionForm, QuestionKind, ServerForm, SubjectForm,
    ToNode, stream,
};
pub(crate) use remote::{ALL_TOKENS, Found, MOST_NODES, Nodes, OnData};
