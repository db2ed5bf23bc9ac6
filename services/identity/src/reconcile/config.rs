//! The configuration of `reconcile`: the same variables that the built-in provider reads.

use std::collections::BTreeSet;
use std::fmt;

use contract::settings::Kind;
use contract::{Reader, Variable};
use service::config::env_name;
use service::origins::{self, DOMAIN, EXTRA_ORIGINS, FrontendAccess};

use super::wanted::FRONTEND_CLIENT;

const RECONCILE: Variable = Variable::new(
    "PLATFORM_IDP_RECONCILE",
    Kind::Text,
    Some("on"),
    "on: at a start, make the realm and the clients of the Keycloak at PLATFORM_IDP_URL be as configured; off: do not",
);
const SERVICE_CLIENTS: Variable = Variable::new(
    "PLATFORM_SERVICE_CLIENTS",
    Kind::List,
    None,
    "Client ids that get a service account and tokens for the platform",
);
const SERVICE_CLIENT_SECRET: Variable = Variable::new(
    "PLATFORM_SERVICE_CLIENT_SECRET_<ID>",
    Kind::Secret,
    None,
    "Secret of one service client (crm-backend: CRM_BACKEND)",
);

/// The variables of `reconcile`.
pub(crate) const VARIABLES: [Variable; 5] =
    [RECONCILE, DOMAIN, EXTRA_ORIGINS, SERVICE_CLIENTS, SERVICE_CLIENT_SECRET];

/// The limits of the built-in provider.
const MAX_SERVICE_CLIENTS: usize = 200;
const SECRET_CHARACTERS: std::ops::RangeInclusive<usize> = 8..=512;

/// The target state of the provider.
#[derive(Clone, Debug)]
pub struct Reconcile {
    pub(super) realm: String,
    pub(super) audience: String,
    pub(super) frontend: FrontendAccess,
    pub(super) service_clients: Vec<ServiceClient>,
}

/// A client with a service account.
#[derive(Clone)]
pub(super) struct ServiceClient {
    pub(super) client_id: String,
    pub(super) secret: Option<String>,
}

impl fmt::Debug for ServiceClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceClient").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

/// Reads the variables; `None` if the provider is the built-in one or reconciling is off.
pub(crate) fn read(reader: &mut Reader<'_>, realm: &str, admin_client: &str) -> Option<Reconcile> {
    let switch = |text: &str| match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    };
    let wanted = reader.parsed(&RECONCILE, switch, "on or off").unwrap_or_default();
    if !wanted || !reader.settings().is_set("PLATFORM_IDP_URL") {
        return None;
    }
    let base_url = origins::base_url(reader);
    let extra = origins::extra_origins(reader);
    Some(Reconcile {
        realm: realm.to_owned(),
        audience: reader.text(&bearer::AUDIENCE),
        frontend: FrontendAccess::new(&base_url, &extra),
        service_clients: service_clients(reader, admin_client),
    })
}

fn service_clients(reader: &mut Reader<'_>, admin_client: &str) -> Vec<ServiceClient> {
    let ids: BTreeSet<String> = reader.list(&SERVICE_CLIENTS).into_iter().collect();
    if ids.len() > MAX_SERVICE_CLIENTS {
        reader.refuse(SERVICE_CLIENTS.name, format!("at most {MAX_SERVICE_CLIENTS} clients"));
    }
    let mut clients = Vec::new();
    for client_id in ids {
        if client_id == FRONTEND_CLIENT || client_id == admin_client || !is_service_client(&client_id) {
            let right =
                "a client id of 2 to 64 lower-case letters, digits, - and _, and none of the platform's own";
            reader.refuse(SERVICE_CLIENTS.name, format!("\"{client_id}\" is not {right}"));
            continue;
        }
        let secret = secret(reader, &client_id);
        clients.push(ServiceClient { client_id, secret });
    }
    clients
}

fn secret(reader: &mut Reader<'_>, client_id: &str) -> Option<String> {
    let variable = format!("PLATFORM_SERVICE_CLIENT_SECRET_{}", env_name(client_id));
    let secret = reader.settings().raw(&variable).map(ToOwned::to_owned)?;
    if !SECRET_CHARACTERS.contains(&secret.chars().count()) {
        let (min, max) = (SECRET_CHARACTERS.start(), SECRET_CHARACTERS.end());
        reader.refuse(&variable, format!("must be a secret of {min} to {max} characters"));
    }
    Some(secret)
}

/// The form of `serviceClientId` in an app's manifest (gateway document, "Limits").
fn is_service_client(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
    (2..=64).contains(&text.len())
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.bytes().all(plain)
}
