//! Documents of the demo: a folder for the web team and a document by each of three people, one of them in the folder,
//! shared with a group, with one member and with the whole company.

use serde_json::{Value, json};

use super::api::{Api, having, text};
use super::bar::Bar;
use super::cast::{DOCUMENTS, Document, HANDBOOK, Sharing};
use super::org::Company;
use super::people::People;
use crate::stop::Stop;

/// Steps of [`fill`].
pub(super) const STEPS: usize = 2 + 2 * DOCUMENTS.len();

/// Creates what is missing.
pub(super) async fn fill(people: &People, company: &Company, bar: &mut Bar) -> Result<(), Stop> {
    let base = format!("/api/docs/v1/companies/{}", company.id);
    bar.stage("documents");
    let folder = folder(people, company, &base, bar).await?;
    for document in &DOCUMENTS {
        let api = &people.named(document.owner)?.api;
        let known = api.list(&format!("{base}/documents?view=mine")).await?;
        let found = having(&known, "title", document.title);
        bar.step(found.is_none());
        let id = if let Some(row) = found {
            text(row, "id")
        } else {
            let folder = document.in_handbook.then_some(&folder);
            let body = json!({"title": document.title, "body": document.body, "folderId": folder});
            text(&api.post(&format!("{base}/documents"), &body).await?, "id")
        };
        let made = share(api, &format!("{base}/documents/{id}"), document, company).await?;
        bar.step(made);
    }
    Ok(())
}

/// Creates the folder and its share, and returns the folder's id.
async fn folder(people: &People, company: &Company, base: &str, bar: &mut Bar) -> Result<String, Stop> {
    let (name, owner, group) = HANDBOOK;
    let api = &people.named(owner)?.api;
    let known = api.list(&format!("{base}/folders")).await?;
    let found = having(&known, "name", name).map(|row| text(row, "id"));
    bar.step(found.is_none());
    let id = if let Some(id) = found {
        id
    } else {
        text(&api.post(&format!("{base}/folders"), &json!({"name": name})).await?, "id")
    };
    let at = format!("{base}/folders/{id}/shares");
    let made = share_with(api, &at, json!({"groupId": company.groups.get(group), "role": "editor"})).await?;
    bar.step(made);
    Ok(id)
}

async fn share(api: &Api, at: &str, document: &Document, company: &Company) -> Result<bool, Stop> {
    match document.sharing {
        Sharing::Group(code, role) => {
            let body = json!({"groupId": company.groups.get(code), "role": role});
            share_with(api, &format!("{at}/shares"), body).await
        }
        Sharing::Member(code, role) => {
            let body = json!({"memberId": company.members.get(code), "role": role});
            share_with(api, &format!("{at}/shares"), body).await
        }
        Sharing::Company(access) => {
            let is_open = text(&api.get(at).await?, "generalAccess") == access;
            if !is_open {
                api.put(&format!("{at}/access"), &json!({"generalAccess": access})).await?;
            }
            Ok(!is_open)
        }
    }
}

/// Creates the share unless it exists; returns whether it was created.
async fn share_with(api: &Api, at: &str, body: Value) -> Result<bool, Stop> {
    let known = api.list(at).await?;
    let is_there = ["memberId", "groupId"].iter().any(|field| {
        let wanted = body.get(field).and_then(Value::as_str);
        wanted.is_some_and(|wanted| having(&known, field, wanted).is_some())
    });
    if !is_there {
        api.post(at, &body).await?;
    }
    Ok(!is_there)
}
