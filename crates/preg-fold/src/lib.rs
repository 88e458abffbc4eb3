// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fold scheme: lists as products of columns.
//!
//! Names of machines are rarely listed, they are counted: racks by nodes, cabinets by chassis by
//! slots by boards, ranks by nodes. This scheme sees a list as columns of text and numbers and
//! writes the loops that count them, so that a million names or a process map of 104 MB take a few
//! dozen bytes. What has no rule is kept as it is: a value is never longer than the list and one
//! byte (the tag aside).
//!
//! It is off by default, since no other implementation reads it. The string form is the tag
//! `fold:` and the value, the [`Regex2`](preg_core::Regex2) form is the value with type `fold`;
//! node lists and process maps are written alike. A value has no NUL and is as printable as the
//! names in it. A list with a NUL is declined.
//!
//! What a value *means* is the text of the list, byte for byte: duplicates, empty names, leading
//! zeros, blanks and ranges included. Reading it as a node list or process map gives what reading
//! that text gives, but most of it without the text.
//!
//! # Format
//!
//! Frozen: append only. The first byte is the version; a reader refuses those it does not know.
//!
//! ```text
//! value    := "0" text                       the list as it is
//!           | "1" item (separator item)*
//! separator:= "," | ";"                      as in the list
//! item     := plain                          a name without loops
//!           | template piece (joint piece)*
//! template := part*                          one name
//!           | "(" (part | separator)* ")"    several names: a group
//! part     := byte                           any but NUL and * / ^ ~ % ( ) \ , ;
//!           | "\" byte                       any byte but a digit, "," and ";", literally
//!           | "\" digit+                     digits that are no column
//!           | column
//! column   := digit+ | "%" digit+
//! piece    := loop* window
//! loop     := ("*" | "/") count moves?       rounds separated by "," or ";"; innermost first
//! window   := ("<" number)? (">" number)?    only behind loops
//! joint    := ("^" | "~") (number | moves)?  joined by "," or ";"
//! moves    := sign number                    of the next column
//!           | (letter (sign? number)?)+      of the named columns, each once; +1 if not said
//! ```
//!
//! In `plain`, digits are text. A template and its first piece without loops are the same as the
//! plain item.
//!
//! - *Columns.* A column is a run of digits. It is written in at least the width it shows if it
//!   starts with a zero (and is not just `0`) or with `%`, otherwise in as many digits as it needs:
//!   `n8` counts 8, 9, 10, `n08` counts 08, 09, 10. Of a run of more than 18 digits the last 18 are
//!   the column, in 18 digits, the others are text. Columns have letters from the right end of the
//!   template: `a` to `z`, then `A` to `Z`; there are at most 52. Values stay within 0 to 10^18 - 1
//!   for all records of the product, inside the window or not.
//! - *Records.* A record is the template with values for its columns: one name, or the names of a
//!   group. The template shows the first record of the item.
//! - *Loops.* Each round of a loop adds its moves to the columns; an outer round starts the inner
//!   loops again. At most 32 loops make a piece.
//! - *The next column.* A loop or joint that gives only a step moves the next column of each name of
//!   the template: the rightmost that no loop of the piece has moved, or the leftmost once all have.
//!   A loop that gives nothing moves the same column: by 1, or, if it moved before, by its last step
//!   times its last count, so that the loop goes on where the inner one ended. A step of 0 moves
//!   nothing, and the column stays next.
//! - *Windows.* `<` says that the first record is not the first of the product: so many names come
//!   before it, a whole number of records. `>` says how many names the list has, counted from the
//!   first record; the last record of a group may be cut. Without `>` the product goes to its end.
//! - *Joints.* The first record of the next piece is the last record of the piece before, moved: a
//!   number alone is a step upwards; nothing at all repeats the record. The next column is always
//!   the rightmost of each name.
//!
//! # Example
//!
//! 1,000,000 Cray x-names from the second node of a cabinet on,
//! `x1000c0s0b0n1,x1000c0s0b1n0,x1000c0s0b1n1,x1000c0s1b0n0,...`:
//!
//! ```text
//! 1x1000c0s0b0n1*2*2*8*8*3907<1>1000000
//! |\_____________/| | | | |   | |
//! |       |       | | | | |   | 1,000,000 names
//! |       |       | | | | |   one name of the product comes before the first
//! |       |       | | | | 3907 cabinets: column e, the number behind x
//! |       |       | | | 8 chassis: column d
//! |       |       | | 8 slots: column c
//! |       |       | 2 boards: column b, the rightmost not moved yet
//! |       |       2 nodes: column a, by one
//! |       template with five columns: the first name
//! version
//! ```
//!
//! A process map of 100,000 nodes with 128 ranks each, in blocks: `10*128/100000`; the same cyclic:
//! `10*128+100000/100000+1`; in planes of four: `10*4*32+400000/100000+4`. A list with holes,
//! `n1,n2,n5,n6,n7,n10`: `1n1*2^3*3^3`. Names that take turns, `a1,b1,a2,b2,a3`: `1(a1,b1)*3>5`.
//!
//! ```
//! use preg_core::{Limits, Params};
//! let fold = (preg_fold::COMPONENT.query)(&Params::default())?.expect("works everywhere");
//! let value = fold.generate_node_regex(b"r01n01,r01n02,r02n01,r02n02,login")?.unwrap();
//! assert_eq!(value, b"fold:1r01n01*2*2,login");
//! let nodes = fold.parse_nodes(&value, &Limits::default())?.unwrap();
//! assert_eq!(nodes.len(), 5);
//! # Ok::<(), preg_core::Error>(())
//! ```
//!
//! # How it is made and read
//!
//! The encoder looks a bounded number of names ahead and makes a bounded number of passes: its
//! time is proportional to the list, whatever is in it. The reader checks counts and value ranges
//! of a product before it walks it, and walks it one innermost run at a time.
#![forbid(unsafe_code)]

mod encode;
mod expand;
mod format;
mod nodes;
mod parse;
mod procs;
mod scheme;
mod text;
mod value;

pub use scheme::COMPONENT;
