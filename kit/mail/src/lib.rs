//! The mail server of an installation: its variables (`settings.rs`), the addresses that mail goes to (`address.rs`), and
//! connections by lettre (`transport.rs`). What is sent, and when it is tried again, is decided by whoever sends.

pub mod address;
pub mod server;
pub mod settings;
pub mod transport;

pub use address::{MAX_ADDRESS, is_address};
pub use server::{Security, SmtpUrl};
pub use settings::{MailSettings, VARIABLES};
pub use transport::{transport, with_crlf};
