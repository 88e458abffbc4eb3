// SPDX-License-Identifier: MIT OR Apache-2.0
//! The address of a memory object.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// The address of a memory object on this node: the process that created the object, the descriptor
/// in that process, and the unique token in the object.
///
/// The text form is `<pid>.<descriptor>.<token>`, with the token in 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub(crate) pid: u32,
    pub(crate) fd: u32,
    pub(crate) token: u128,
}

impl Address {
    /// Returns the path through which the kernel opens the object.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", self.pid, self.fd)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, fd, token } = self;
        write!(f, "{pid}.{fd}.{token:032x}")
    }
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut parts = text.split('.');
        let (Some(pid), Some(fd), Some(token), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Error::Address);
        };
        let is_token = token.len() == 32 && token.bytes().all(|digit| digit.is_ascii_hexdigit());
        let token = is_token.then(|| u128::from_str_radix(token, 16).ok());
        Ok(Self {
            pid: number(pid)?,
            fd: number(fd)?,
            token: token.flatten().ok_or(Error::Address)?,
        })
    }
}

/// Parses decimal digits. Rejects a sign, which `parse` would accept.
fn number(text: &str) -> Result<u32, Error> {
    let is_plain = text.bytes().all(|digit| digit.is_ascii_digit());
    let number = is_plain.then(|| text.parse().ok()).flatten();
    number.ok_or(Error::Address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_as_text_and_other_text_is_rejected() {
        let address = Address {
            pid: 17,
            fd: 4,
            token: 0xab,
        };
        let text = address.to_string();
        assert_eq!(text, "17.4.000000000000000000000000000000ab");
        assert_eq!(text.parse(), Ok(address));
        let others = [
            "",
            "17.4",
            "17.4.ab",
            "+7.4.000000000000000000000000000000ab",
            "17.-4.000000000000000000000000000000ab",
            "17.4.+00000000000000000000000000000ab",
            "17.4.000000000000000000000000000000ab.",
            "99999999999.4.000000000000000000000000000000ab",
        ];
        for other in others {
            assert_eq!(other.parse::<Address>(), Err(Error::Address), "{other}");
        }
    }
}
