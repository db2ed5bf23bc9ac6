//! The mail server of an installation: its variables (`settings.rs`), valid addresses (`address.rs`), subject
//! lines (`subject.rs`), and connections through lettre (`transport.rs`, `lines.rs`). The caller decides what to send and when to retry.

pub mod address;
mod lines;
pub mod server;
pub mod settings;
pub mod subject;
pub mod transport;

pub use address::{MAX_ADDRESS, is_address};
pub use server::{Security, SmtpUrl};
pub use settings::{MailSettings, VARIABLES};
pub use subject::subject;
pub use transport::{Connection, Reply, Transport, with_crlf};
