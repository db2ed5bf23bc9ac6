//! What the handlers are made of, and the start of the work that no request asks for.

use std::ops::Deref;

use service::ServeError;
use service::module::Parts;
use service::workers::Wake;

use crate::bindings::relinked;
use crate::bindings::row::BindingRow;
use crate::config::Own;
use crate::former_members::Names;
use crate::{auto_close, notices};

/// State of the routes. Cheap to clone.
#[derive(Clone)]
pub struct App {
    parts: Parts,
    notices: Wake,
}

impl App {
    /// Tells the worker of this process that there are notices; to be called after the commit.
    pub(crate) fn wake_notices(&self) {
        self.notices.wake();
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

/// Starts the workers: the sweep of bindings and the one of relinked members, the closer of resolved tickets, the one that
/// forgets former members, and the queue of notices.
///
/// # Errors
/// None.
#[expect(clippy::unnecessary_wraps, reason = "a start that `declare_module!` calls may fail")]
pub(crate) fn start(parts: Parts, own: &Own) -> Result<App, ServeError> {
    parts.sweep_rows::<BindingRow>("bindings_sweep");
    let parts = Parts { permits: parts.permits.clone().without(relinked::start(&parts)), ..parts };
    let notices = notices::start(&parts.core, &own.notification);
    parts.forget_members::<Names>();
    auto_close::start(&parts, &notices);
    Ok(App { parts, notices })
}
