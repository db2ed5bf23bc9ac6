//! Keeps what the enabled modules declare, compiled once per model.

use std::sync::{Arc, PoisonError, RwLock};

use super::rules::Catalog;
use crate::engine::Model;

/// The [`Catalog`] of the model in use. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Catalogs(Arc<RwLock<Option<Known>>>);

#[derive(Debug)]
struct Known {
    model: Arc<Model>,
    catalog: Arc<Catalog>,
}

impl Catalogs {
    /// The catalog of a model.
    pub(super) fn of(&self, model: &Arc<Model>) -> Arc<Catalog> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| Arc::ptr_eq(&known.model, model)) {
            return Arc::clone(&known.catalog);
        }
        drop(known);
        let catalog = Arc::new(Catalog::of(model.enabled()));
        let known = Known { model: Arc::clone(model), catalog: Arc::clone(&catalog) };
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(known);
        catalog
    }
}
