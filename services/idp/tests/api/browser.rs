//! A browser that keeps cookies and fills in the forms of pages.

use std::collections::BTreeMap;

use testkit::{Call, Reply};

use crate::provider::{BASE, OIDC, Provider, auth_query, with_form};

pub(crate) const ACCOUNT: &str = "/realms/platform/account";

/// One browser of one person.
#[derive(Clone)]
pub(crate) struct Browser<'a> {
    provider: &'a Provider,
    cookies: BTreeMap<String, String>,
    /// Headers of every request.
    headers: Vec<(&'static str, String)>,
}

impl<'a> Browser<'a> {
    pub(crate) fn new(provider: &'a Provider) -> Self {
        Self { provider, cookies: BTreeMap::new(), headers: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    fn request(&self, call: Call) -> Call {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let call = if cookies.is_empty() { call } else { call.header("cookie", cookies.join("; ")) };
        self.headers.iter().fold(call, |call, (name, value)| call.header(name, value.clone()))
    }

    fn keep(&mut self, reply: &Reply) {
        for line in reply.headers.get_all("set-cookie") {
            let line = line.to_str().expect("text");
            let (pair, attributes) = line.split_once(';').expect("attributes");
            let (name, value) = pair.split_once('=').expect("a pair");
            if attributes.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Reply {
        let path = path.strip_prefix(BASE).unwrap_or(path);
        let reply = self.provider.send("GET", path, |call| self.request(call)).await;
        self.keep(&reply);
        reply
    }

    pub(crate) async fn post(&mut self, path: &str, pairs: &[(&str, &str)]) -> Reply {
        let path = path.strip_prefix(BASE).unwrap_or(path);
        let reply = self.provider.send("POST", path, |call| with_form(self.request(call), pairs)).await;
        self.keep(&reply);
        reply
    }

    /// Opens the login form of a client.
    pub(crate) async fn open(&mut self) -> Reply {
        self.get(&format!("{OIDC}/auth?{}", auth_query(&[("prompt", "login")]))).await
    }

    /// Submits name and password in a client's login form.
    pub(crate) async fn sign_in(&mut self, name: &str, password: &str) -> Reply {
        let page = self.open().await;
        self.post(&action(&page, "kc-form-login"), &[("username", name), ("password", password)]).await
    }

    /// Signs in at the account page and shows it.
    pub(crate) async fn enter(&mut self, name: &str, password: &str) -> Reply {
        let page = self.get(ACCOUNT).await;
        let form = [("username", name), ("password", password)];
        let reply = self.post(&action(&page, "kc-form-login"), &form).await;
        assert_eq!(
            (reply.status, reply.header("location")),
            (302, &*format!("{BASE}{ACCOUNT}")),
            "{}",
            reply.text
        );
        self.get(ACCOUNT).await
    }

    /// Posts a form of the account page `page`.
    pub(crate) async fn change(&mut self, page: &Reply, path: &str, pairs: &[(&str, &str)]) -> Reply {
        let proof = field(page, "stateChecker");
        let pairs: Vec<_> =
            [("stateChecker", proof.as_str())].into_iter().chain(pairs.iter().copied()).collect();
        self.post(&format!("{ACCOUNT}/{path}"), &pairs).await
    }
}

/// `action` of the form with this id.
pub(crate) fn action(page: &Reply, id: &str) -> String {
    let form = page.text.split(&format!("<form id=\"{id}\" action=\"")).nth(1);
    let form = form.unwrap_or_else(|| panic!("no form {id}: {} {}", page.status, page.text));
    form.split('"').next().expect("its action").replace("&amp;", "&")
}

/// Value of the first hidden field with this name.
pub(crate) fn field(page: &Reply, name: &str) -> String {
    let rest = page.text.split(&format!("name=\"{name}\" type=\"hidden\" value=\"")).nth(1);
    let rest = rest.unwrap_or_else(|| panic!("no field {name}: {} {}", page.status, page.text));
    rest.split('"').next().expect("a value").to_owned()
}

/// Why a form is shown again.
pub(crate) fn problem(page: &Reply) -> &str {
    assert_eq!(page.status, 200, "{}", page.text);
    let shown = page.text.split("id=\"input-error\" class=\"alert\" role=\"alert\">").nth(1);
    shown.and_then(|text| text.split("</p>").next()).unwrap_or_else(|| panic!("no reason: {}", page.text))
}
