//! What stands for the store where girih is built without the tuner: there is none, and nobody can make one.

use super::{Candidate, Elsewhere, StoreError};
use girih_core::facts_distance::Occasion;

/// No store.
pub enum Store {}

impl Store {
    /// Refuses.
    pub fn open_default() -> Result<Store, StoreError> {
        Err(StoreError::Absent)
    }

    /// What nobody stored.
    pub fn candidates_elsewhere(&self, _identity: u64, _asked: Occasion, _device: &str) -> Result<Vec<Elsewhere>, StoreError> {
        match *self {}
    }

    /// What nobody stored.
    pub fn candidates(&self, _identity: u64, _asked: Occasion, _device: &str) -> Result<Vec<Candidate>, StoreError> {
        match *self {}
    }
}
