//! The common part of every module's API tests: starting the module, and testing everything that precedes its
//! operations.

pub use contract::Settings;
pub use tokio::net::TcpListener;
pub use tokio_util::sync::CancellationToken;

/// Defines `start` and `start_without_database` for a module's API tests, at the root of the test binary.
#[macro_export]
macro_rules! module_api {
    ($module:ident) => {
        /// The module on a new database.
        async fn start() -> $crate::ModuleApi {
            $crate::ModuleApi::start($module::KEY, $module::OPENAPI, serve).await
        }

        /// The module with an unreachable database.
        async fn start_without_database() -> $crate::ModuleApi {
            $crate::ModuleApi::start_without_database($module::KEY, $module::OPENAPI, serve).await
        }

        async fn serve(
            settings: $crate::module::suite::Settings,
            listener: $crate::module::suite::TcpListener,
            stop: $crate::module::suite::CancellationToken,
        ) {
            let config = $module::Config::read(&settings).expect("the settings of a test are right");
            $module::serve(config, listener, stop).await.expect("the listener works");
        }
    };
}

/// The tests of everything that precedes an operation, of the limits of request bodies, and of the probes. `samples`
/// returns a [`Sample`](crate::module::gates::Sample) of each operation, `prepare` scripts the calls that an allowed
/// operation makes to other services, `list` is the path of a list operation.
#[macro_export]
macro_rules! module_gates {
    ($module:ident, samples: $samples:expr, prepare: $prepare:expr, list: $list:literal) => {
        fn operations() -> Vec<$crate::Operation> {
            $crate::module::gates::operations($module::operations().table(), &$samples)
        }

        #[tokio::test]
        async fn no_operation_does_anything_without_bearer_company_and_decision() {
            let module = $crate::module::suite::prepared(super::start().await, $prepare);
            $crate::module::gates::check(&module, &operations()).await;
            // A worker, independent of any request, polls org for former members.
            let is_of_worker = |path: &str| path == "/internal/org/former-members";
            let asked = module.org.requests();
            assert!(
                asked.iter().all(|request| is_of_worker(&request.path)),
                "the decision comes before the caller's place"
            );
        }

        #[tokio::test]
        async fn a_denied_call_never_reaches_the_database_and_an_allowed_one_fails_closed() {
            let module = $crate::module::suite::prepared(super::start_without_database().await, $prepare);
            $crate::module::gates::check_without_database(&module, &operations()).await;
            $crate::module::probes::check_without_database(&module).await;
        }

        #[tokio::test]
        async fn request_bodies_hold_the_documents_limits_at_and_one_past() {
            let module = $crate::module::suite::prepared(super::start().await, $prepare);
            $crate::module::limits::check(&module, &operations()).await;
        }

        #[tokio::test]
        async fn probes_and_metrics() {
            let module = $crate::module::suite::prepared(super::start().await, $prepare);
            $crate::module::probes::check(&module, $list, $list).await;
        }
    };
}

/// The module after `prepare`.
pub fn prepared(module: crate::ModuleApi, prepare: impl FnOnce(&crate::ModuleApi)) -> crate::ModuleApi {
    prepare(&module);
    module
}

/// How often a test provokes a race by default.
const RACES: usize = 20;

/// How often a test provokes each of its races: the variable `RACES`, else 20.
///
/// # Panics
/// The variable is not a number.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the user sets the number of repetitions")]
#[expect(clippy::expect_used, reason = "a test with an invalid setting must not pass")]
pub fn races() -> usize {
    std::env::var("RACES").map_or(RACES, |races| races.parse().expect("RACES is a number"))
}
