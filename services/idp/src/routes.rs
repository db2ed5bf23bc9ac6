//! The route table.

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post, put};

use crate::state::App;
use crate::{account, admin, letters, login, logout, pages, realm, tokens, userinfo};

/// Builds the routes of the provider; `service` adds the probes.
pub fn router(app: App) -> Router {
    let in_realm = Router::new()
        .route("/realms/{realm}", get(realm::http::description))
        .route("/realms/{realm}/.well-known/openid-configuration", get(realm::http::discovery))
        .route("/realms/{realm}/protocol/openid-connect/certs", get(realm::http::certs))
        .route(
            "/realms/{realm}/protocol/openid-connect/auth",
            get(login::http::authorize).post(login::http::authorize),
        )
        .route(
            "/realms/{realm}/login-actions/authenticate",
            get(login::http::reopen).post(login::http::authenticate),
        )
        .route("/realms/{realm}/login-actions/required-action", post(login::http::authenticate))
        .route(
            "/realms/{realm}/login-actions/reset-credentials",
            get(letters::http::form).post(letters::http::ask),
        )
        .route(
            "/realms/{realm}/login-actions/action-token",
            get(letters::link::open).post(letters::link::save),
        )
        .merge(account_pages())
        .route("/realms/{realm}/protocol/openid-connect/token", post(tokens::http::token))
        .route(
            "/realms/{realm}/protocol/openid-connect/logout",
            get(logout::http::by_link).post(logout::http::by_form),
        )
        .route(
            "/realms/{realm}/protocol/openid-connect/userinfo",
            get(userinfo::http::userinfo).post(userinfo::http::userinfo),
        )
        .route("/admin/realms/{realm}/users", get(admin::http::users).post(admin::accounts::add))
        .route(
            "/admin/realms/{realm}/users/{id}",
            get(admin::http::user).put(admin::http::put_user).delete(admin::http::delete_user),
        )
        .route("/admin/realms/{realm}/users/{id}/reset-password", put(admin::accounts::reset_password))
        .route(
            "/admin/realms/{realm}/users/{id}/disable-credential-types",
            put(admin::accounts::disable_credentials),
        )
        .route(
            "/admin/realms/{realm}/users/{id}/execute-actions-email",
            put(admin::accounts::execute_actions_email),
        )
        .route("/admin/realms/{realm}/clients", get(admin::clients::list))
        .route(
            "/admin/realms/{realm}/clients/{id}/service-account-user",
            get(admin::clients::service_account),
        )
        .route("/admin/realms/{realm}/keys", get(admin::http::keys))
        .route("/admin/realms/{realm}/keys/rotate", post(admin::http::rotate_keys))
        .route("/admin/realms/{realm}/admin-events", get(admin::http::admin_events))
        .route_layer(from_fn_with_state(app.clone(), realm::http::only_this_realm))
        .route_layer(from_fn(pages::errors::write))
        .with_state(app);
    in_realm
        .route(pages::STYLE_PATH, get(login::http::style))
        .route(pages::SCRIPT_PATH, get(login::http::script))
}

/// The signed-in user's own pages.
fn account_pages() -> Router<App> {
    Router::new()
        .route("/realms/{realm}/account", get(account::http::account))
        .route("/realms/{realm}/account/password", post(account::http::change_password))
        .route(
            "/realms/{realm}/account/totp",
            get(account::second_factor::set_up).post(account::second_factor::turn_on),
        )
        .route("/realms/{realm}/account/totp/remove", post(account::second_factor::remove))
        .route(
            "/realms/{realm}/account/passkeys",
            get(account::passkeys::set_up).post(account::passkeys::add),
        )
        .route("/realms/{realm}/account/passkeys/remove", post(account::passkeys::remove))
        .route("/realms/{realm}/account/recovery-codes", post(account::second_factor::renew_codes))
        .route("/realms/{realm}/account/sessions/end", post(account::sessions::end))
        .route("/realms/{realm}/account/sessions/end-all", post(account::sessions::end_all))
}
