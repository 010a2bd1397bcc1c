//! Tables of an engine that runs on the host. They hold objects, locks and versions together.

use std::collections::BTreeMap;

use crate::key::{Key, Version};
use crate::message::{Difference, Mismatch, Put};
use crate::transaction::TransactionId;

#[derive(Clone, Debug, Default)]
struct Object {
    version: Version,
    value: Option<Vec<u8>>,
    lock: Option<TransactionId>,
}

/// All objects of the shards that a node replicates. Of a deleted object, the version of the deletion is
/// kept.
#[derive(Clone, Debug, Default)]
pub struct Plain {
    objects: BTreeMap<Key, Object>,
}

impl Plain {
    pub(crate) fn holder(&self, key: Key) -> Option<TransactionId> {
        self.objects.get(&key)?.lock
    }

    pub(crate) fn lock(&mut self, key: Key, id: TransactionId) {
        self.objects.entry(key).or_default().lock = Some(id);
    }

    pub(crate) fn unlock(&mut self, key: Key, id: TransactionId) {
        if let Some(object) = self.objects.get_mut(&key)
            && object.lock == Some(id)
        {
            object.lock = None;
        }
    }

    pub(crate) fn unlock_all(&mut self) {
        for object in self.objects.values_mut() {
            object.lock = None;
        }
    }

    pub(crate) fn get(&self, key: Key) -> (Version, Option<&[u8]>) {
        self.objects
            .get(&key)
            .map_or((Version::ZERO, None), |object| (object.version, object.value.as_deref()))
    }

    pub(crate) fn put(&mut self, put: &Put<'_>) {
        let object = self.objects.entry(put.key).or_default();
        if object.version < put.version {
            object.version = put.version;
            object.value = put.value.map(<[u8]>::to_vec);
        }
    }

    /// Applies a difference to an object. The object must have the version that the difference names, or have
    /// got this change already.
    pub(crate) fn change(
        &mut self,
        key: Key,
        version: Version,
        difference: &Difference<'_>,
    ) -> Result<(), Mismatch> {
        let object = self.objects.get_mut(&key).ok_or(Mismatch)?;
        if version <= object.version {
            return Ok(());
        }
        let former = object.value.is_some().then_some(object.version);
        difference.apply(former, object.value.as_deref_mut().unwrap_or_default())?;
        object.version = version;
        Ok(())
    }

    /// The objects of a shard in the order of their keys, from the key with the bits `from` on.
    pub(crate) fn of_shard(&self, shard: usize, from: u64) -> impl Iterator<Item = (Key, Version, &[u8])> {
        let first = Key::from_bits(from).unwrap_or(Key::new(shard, 0)).max(Key::new(shard, 0));
        self.objects
            .range(first..)
            .take_while(move |(key, _)| key.shard() == shard)
            .filter_map(|(key, object)| Some((*key, object.version, object.value.as_deref()?)))
    }

    /// All objects that exist.
    pub fn iter(&self) -> impl Iterator<Item = (Key, Version, &[u8])> {
        self.objects.iter().filter_map(|(key, object)| Some((*key, object.version, object.value.as_deref()?)))
    }
}
