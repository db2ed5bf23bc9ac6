//! A test's own PostgreSQL with custom settings; stopped and removed when dropped.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use contract::Settings;
use postgres::{Account, Launch, SUPERUSER, Server, obtain};
use sqlx::postgres::PgConnectOptions;
use uuid::Uuid;

/// The superuser's password.
pub(crate) const PASSWORD: &str = "the-superusers-own";

pub(crate) struct OwnServer {
    pub(crate) port: u16,
    folder: PathBuf,
    server: Option<Server>,
}

impl OwnServer {
    /// Starts a server. `files` are written next to its cluster, readable only by the server; `{dir}` in a setting is
    /// their folder.
    pub(crate) async fn start(files: &[(&str, String)], settings: &[(&'static str, &str)]) -> Self {
        let folder = std::env::temp_dir().join(format!("platform-own-{}", Uuid::now_v7().simple()));
        std::fs::create_dir_all(folder.join("pg")).expect("a folder");
        let account = Account::for_database().expect("an account");
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("a file");
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("a mode");
            account.give(&path).expect("an owner");
        }
        account.give(&folder.join("pg")).expect("an owner");
        let environment = Settings::from_pairs(std::env::vars().filter(|(name, _)| name == "PATH"));
        let fill = |(name, value): &(&'static str, &str)| {
            (*name, value.replace("{dir}", &folder.display().to_string()))
        };
        let launch = Launch {
            binaries: obtain(&environment, None, account, &|_| {}).await.expect("PostgreSQL"),
            account,
            log: folder.join("log"),
            port: 0,
            settings: [("fsync", "off"), ("shared_buffers", "16MB")]
                .iter()
                .chain(settings)
                .map(fill)
                .collect(),
        };
        launch.initialise(&folder.join("pg"), PASSWORD, false).await.expect("a cluster");
        let server = launch.start(&folder.join("pg")).await.expect("a server");
        Self { port: server.port, folder, server: Some(server) }
    }

    /// The superuser's options for this host, with sqlx's default TLS mode.
    pub(crate) fn superuser(&self, host: &str) -> PgConnectOptions {
        let options = PgConnectOptions::new_without_pgpass().host(host).port(self.port);
        options.username(SUPERUSER).password(PASSWORD).database("postgres")
    }

    /// The server's whole log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).expect("a log")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop_at_once();
        }
        // The server may still be writing; what remains in the temporary folder does not matter.
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
