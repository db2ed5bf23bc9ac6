//! Every operation of the module with the decision that it asks.

use service::{Feature, Operation as Op, Operations};

use crate::documents::rules::View;
use crate::{App, KEY, documents};

/// Documents that the caller owns or that are shared with the caller.
const DOCUMENTS_LIST: Feature = Feature::of_module("docs.documents.list", "member");
/// Every document of the company, without its content.
const DOCUMENTS_LIST_ALL: Feature = Feature::of_module("docs.documents.list_all", "admin").or_operator();

/// The table.
pub fn operations() -> Operations<App> {
    let list = Op::get("/documents", "listDocuments", DOCUMENTS_LIST).with_view(
        "view",
        View::OF_MANAGERS,
        DOCUMENTS_LIST_ALL,
    );
    Operations::of(KEY).bind(list, documents::http::list)
}
