//! Every operation of the module with the decision that it asks.

use service::{Feature, Operation as Op, Operations};

use crate::documents::rules::{BODY_LIMIT, View};
use crate::{
    App, KEY, access_requests, comments, documents, folders, history, ownership, placements, shares, versions,
};

/// The type of documents.
pub const DOCUMENT: &str = "docs_document";
/// The type of folders.
pub const FOLDER: &str = "docs_folder";
/// The relation of owners and of the module's administrators.
pub const MANAGER: &str = "manager";

/// Documents that the caller owns or that are shared with the caller.
const DOCUMENTS_LIST: Feature = Feature::of_module("docs.documents.list", "member");
/// Every document of the company, without its content.
const DOCUMENTS_LIST_ALL: Feature = Feature::of_module("docs.documents.list_all", "admin").or_operator();
const DOCUMENTS_CREATE: Feature = Feature::of_module("docs.documents.create", "member");
const DOCUMENTS_READ: Feature = document("docs.documents.read", "viewer");
const DOCUMENTS_EDIT: Feature = document("docs.documents.edit", "editor");
const DOCUMENTS_DELETE: Feature = document("docs.documents.delete", MANAGER).or_operator();
const DOCUMENTS_DUPLICATE: Feature = document("docs.documents.duplicate", "viewer");
const DOCUMENTS_MOVE: Feature = document("docs.documents.move", MANAGER).or_operator();
const VERSIONS_READ: Feature = document("docs.versions.read", "viewer");
const SHARES_READ: Feature = document("docs.shares.read", "viewer");
const SHARES_MANAGE: Feature = document("docs.shares.manage", "editor");
const ACCESS_MANAGE: Feature = document("docs.access.manage", MANAGER).or_operator();
const OWNERSHIP_TRANSFER: Feature = document("docs.ownership.transfer", MANAGER).or_operator();
const HISTORY_READ: Feature = document("docs.history.read", "viewer");
const COMMENTS_READ: Feature = document("docs.comments.read", "viewer");
const COMMENTS_WRITE: Feature = document("docs.comments.write", "commenter");
/// A member whom a document is closed to asks for access.
const ACCESS_REQUESTS_CREATE: Feature = Feature::of_module("docs.access_requests.create", "member");
const ACCESS_REQUESTS_MANAGE: Feature = document("docs.access_requests.manage", "editor");
/// Folders that the caller owns or that are shared with the caller.
const FOLDERS_LIST: Feature = Feature::of_module("docs.folders.list", "member");
/// Every folder of the company.
const FOLDERS_LIST_ALL: Feature = Feature::of_module("docs.folders.list_all", "admin").or_operator();
const FOLDERS_CREATE: Feature = Feature::of_module("docs.folders.create", "member");
const FOLDERS_READ: Feature = Feature::of_object("docs.folders.read", FOLDER, "viewer");
/// Renames a folder, and puts something into it.
pub(crate) const FOLDERS_EDIT: Feature = Feature::of_object("docs.folders.edit", FOLDER, "editor");
pub(crate) const FOLDERS_MANAGE: Feature =
    Feature::of_object("docs.folders.manage", FOLDER, MANAGER).or_operator();
const FOLDER_SHARES_READ: Feature = Feature::of_object("docs.folder_shares.read", FOLDER, "viewer");
const FOLDER_SHARES_MANAGE: Feature =
    Feature::of_object("docs.folder_shares.manage", FOLDER, MANAGER).or_operator();

const fn document(key: &'static str, relation: &'static str) -> Feature {
    Feature::of_object(key, DOCUMENT, relation)
}

/// The same decision for whom administers the object.
const fn managing(feature: Feature) -> Feature {
    Feature { relation: MANAGER, operator: true, ..feature }
}

/// The table.
#[must_use]
pub fn operations() -> Operations<App> {
    let table = of_documents(Operations::of(KEY));
    let table = of_access(table);
    of_folders(of_conversations(table))
}

fn of_documents(table: Operations<App>) -> Operations<App> {
    let list = Op::get("/documents", "listDocuments", DOCUMENTS_LIST).with_view(
        "view",
        View::OF_MANAGERS,
        DOCUMENTS_LIST_ALL,
    );
    let create = Op::post("/documents", "createDocument", DOCUMENTS_CREATE);
    let one = "/documents/{documentId}";
    let update = Op::put(one, "updateDocument", DOCUMENTS_EDIT).of_existing();
    let duplicate = Op::post("/documents/{documentId}/duplicate", "duplicateDocument", DOCUMENTS_DUPLICATE);
    let moved = Op::post("/documents/{documentId}/move", "moveDocument", DOCUMENTS_MOVE);
    let restore = Op::post("/documents/{documentId}/restore", "restoreDocument", DOCUMENTS_DELETE);
    let versions = "/documents/{documentId}/versions";
    let version = "/documents/{documentId}/versions/{version}";
    let again =
        Op::post("/documents/{documentId}/versions/{version}/restore", "restoreVersion", DOCUMENTS_EDIT);
    table
        .bind(list, documents::http::list)
        .bind(create.with_body_limit(BODY_LIMIT).idempotent(), documents::http::create)
        .bind(Op::get(one, "getDocument", DOCUMENTS_READ).of_existing(), documents::http::read)
        .bind(update.with_body_limit(BODY_LIMIT), documents::http::update)
        .bind(Op::delete(one, "trashDocument", DOCUMENTS_DELETE).of_existing(), documents::http::trash)
        .bind(restore.of_existing(), documents::http::restore)
        .bind(duplicate.of_existing().idempotent(), documents::http::duplicate)
        .bind(moved.of_existing(), placements::http::move_document)
        .bind(Op::get(versions, "listVersions", VERSIONS_READ).of_existing(), versions::http::list)
        .bind(Op::get(version, "getVersion", VERSIONS_READ).of_existing(), versions::http::read)
        .bind(again.of_existing(), versions::http::restore)
}

fn of_access(table: Operations<App>) -> Operations<App> {
    let (all, one) = ("/documents/{documentId}/shares", "/documents/{documentId}/shares/{shareId}");
    let sharing = |operation: Op| operation.of_existing().or_else(managing(SHARES_MANAGE));
    let list = Op::get(all, "listShares", SHARES_READ).of_existing().or_else(managing(SHARES_READ));
    let access = Op::put("/documents/{documentId}/access", "setAccess", ACCESS_MANAGE);
    let transfer = Op::post("/documents/{documentId}/transfer", "transferOwnership", OWNERSHIP_TRANSFER);
    let history = Op::get("/documents/{documentId}/history", "listDocumentHistory", HISTORY_READ);
    table
        .bind(list, shares::http::list)
        .bind(sharing(Op::post(all, "createShare", SHARES_MANAGE)), shares::http::create)
        .bind(sharing(Op::put(one, "updateShare", SHARES_MANAGE)), shares::http::update)
        .bind(sharing(Op::delete(one, "deleteShare", SHARES_MANAGE)), shares::http::delete)
        .bind(access.of_existing(), documents::http::set_access)
        .bind(transfer.of_existing(), ownership::http::transfer)
        .bind(history.of_existing().or_else(managing(HISTORY_READ)), history::http::list)
}

fn of_conversations(table: Operations<App>) -> Operations<App> {
    let comments = "/documents/{documentId}/comments";
    let resolve =
        Op::post("/documents/{documentId}/comments/{commentId}/resolve", "resolveComment", COMMENTS_WRITE);
    let requests = "/documents/{documentId}/access-requests";
    let deciding = |path, id| {
        let operation = Op::post(path, id, ACCESS_REQUESTS_MANAGE);
        operation.of_existing().or_else(managing(ACCESS_REQUESTS_MANAGE))
    };
    let accept = "/documents/{documentId}/access-requests/{accessRequestId}/accept";
    let decline = "/documents/{documentId}/access-requests/{accessRequestId}/decline";
    let listed = Op::get(requests, "listAccessRequests", ACCESS_REQUESTS_MANAGE);
    let request = Op::post(requests, "requestAccess", ACCESS_REQUESTS_CREATE);
    table
        .bind(Op::get(comments, "listComments", COMMENTS_READ).of_existing(), comments::http::list)
        .bind(
            Op::post(comments, "createComment", COMMENTS_WRITE).of_existing().idempotent(),
            comments::http::create,
        )
        .bind(resolve.of_existing(), comments::http::resolve)
        .bind(request.of_existing(), access_requests::http::create)
        .bind(listed.of_existing().or_else(managing(ACCESS_REQUESTS_MANAGE)), access_requests::http::list)
        .bind(deciding(accept, "acceptAccessRequest"), access_requests::http::accept)
        .bind(deciding(decline, "declineAccessRequest"), access_requests::http::decline)
}

fn of_folders(table: Operations<App>) -> Operations<App> {
    let list = Op::get("/folders", "listFolders", FOLDERS_LIST).with_view(
        "view",
        folders::rules::View::OF_MANAGERS,
        FOLDERS_LIST_ALL,
    );
    let one = "/folders/{folderId}";
    let moved = Op::post("/folders/{folderId}/move", "moveFolder", FOLDERS_MANAGE);
    let shares = "/folders/{folderId}/shares";
    let share = "/folders/{folderId}/shares/{shareId}";
    let listed = Op::get(shares, "listFolderShares", FOLDER_SHARES_READ);
    let manage = |operation: Op| operation.of_existing();
    table
        .bind(list, folders::http::list)
        .bind(Op::post("/folders", "createFolder", FOLDERS_CREATE).idempotent(), folders::http::create)
        .bind(Op::get(one, "getFolder", FOLDERS_READ).of_existing(), folders::http::read)
        .bind(Op::put(one, "renameFolder", FOLDERS_EDIT).of_existing(), folders::http::rename)
        .bind(Op::delete(one, "deleteFolder", FOLDERS_MANAGE).of_existing(), folders::http::delete)
        .bind(moved.of_existing(), placements::http::move_folder)
        .bind(listed.of_existing().or_else(managing(FOLDER_SHARES_READ)), folders::shares::list)
        .bind(manage(Op::post(shares, "createFolderShare", FOLDER_SHARES_MANAGE)), folders::shares::create)
        .bind(manage(Op::put(share, "updateFolderShare", FOLDER_SHARES_MANAGE)), folders::shares::update)
        .bind(manage(Op::delete(share, "deleteFolderShare", FOLDER_SHARES_MANAGE)), folders::shares::delete)
}
