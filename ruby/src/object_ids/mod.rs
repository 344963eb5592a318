//! Object ids: numbers that are never reused.

mod entries;

use ashlar_wordmap::OutOfMemory;

use crate::ruby_calls::Value;
use crate::table_memory::Table;

/// Ids are multiples of this, so that none looks like an immediate.
const STEP: u64 = 8;

/// The table, in both directions.
///
/// * **I1** When `by_number` exists, it holds the reverse of `by_object`.
pub(crate) struct ObjectIds {
    by_object: Table,
    /// Object by id divided by [`STEP`]. Made when the program first asks for an object
    /// by its id, which few programs do.
    by_number: Option<Table>,
    next: u64,
}

impl Default for ObjectIds {
    fn default() -> Self {
        Self {
            by_object: Table::default(),
            by_number: None,
            next: STEP,
        }
    }
}

impl ObjectIds {
    /// Returns the id of an object, and whether the object has got it just now.
    pub(crate) fn id_of(&mut self, object: Value) -> Result<(u64, bool), OutOfMemory> {
        let known = self.by_object.try_place(object as u64)?;
        if *known != 0 {
            return Ok((*known, false));
        }
        let id = self.next;
        *known = id;
        if let Some(by_number) = &mut self.by_number {
            if by_number.try_insert(id / STEP, object as u64).is_err() {
                // The table can be made again.
                self.by_number = None;
            }
        }
        self.next += STEP;
        Ok((id, true))
    }

    /// Returns the id that a dying object is remembered by: its own, or a fresh one.
    pub(crate) fn last_id_of(&mut self, object: Value) -> u64 {
        if let Some(&id) = self.by_object.get(object as u64) {
            return id;
        }
        self.next += STEP;
        self.next - STEP
    }

    /// Prepares to move the object: its id is known at both addresses until
    /// [`ObjectIds::finish_move`] or [`ObjectIds::undo_move`]. When there is no memory,
    /// nothing changes.
    pub(crate) fn begin_move(&mut self, from: Value, to: Value) -> Result<(), OutOfMemory> {
        if let Some(&id) = self.by_object.get(from as u64) {
            self.by_object.try_insert(to as u64, id)?;
        }
        Ok(())
    }

    /// Notes that the object has moved. Needs no memory.
    pub(crate) fn finish_move(&mut self, from: Value, to: Value) {
        let Some(id) = self.by_object.remove(from as u64) else {
            return;
        };
        let by_number = self.by_number.as_mut();
        if let Some(object) = by_number.and_then(|known| known.get_mut(id / STEP)) {
            *object = to as u64;
        }
    }

    /// Notes that the object stays where it was. Needs no memory.
    pub(crate) fn undo_move(&mut self, to: Value) {
        self.by_object.remove(to as u64);
    }

    /// Forgets an object, which is dead.
    pub(crate) fn forget(&mut self, object: Value) {
        let Some(id) = self.by_object.remove(object as u64) else {
            return;
        };
        if let Some(by_number) = &mut self.by_number {
            by_number.remove(id / STEP);
        }
    }

    /// The object with this id.
    fn object(&mut self, id: u64) -> Option<Value> {
        if id % STEP != 0 {
            return None;
        }
        if self.by_number.is_none() {
            self.by_number = self.reversed().ok();
        }
        let object = match &self.by_number {
            Some(by_number) => by_number.get(id / STEP).copied(),
            // Without memory for the table: a slow answer is better than a wrong one.
            None => self.by_object.iter().find(|(_, &i)| i == id).map(|e| e.0),
        };
        object.map(|object| object as Value)
    }

    fn reversed(&self) -> Result<Table, OutOfMemory> {
        let mut by_number = Table::default();
        for (object, &id) in self.by_object.iter() {
            by_number.try_insert(id / STEP, object)?;
        }
        Ok(by_number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stays_and_is_never_given_again() {
        let mut ids = ObjectIds::default();
        let (first, fresh) = ids.id_of(40).unwrap();
        assert!(fresh);
        assert_eq!(ids.id_of(40), Ok((first, false)));
        ids.begin_move(40, 120).unwrap();
        ids.undo_move(120);
        assert_eq!((ids.object(first), ids.by_object.len()), (Some(40), 1));
        ids.begin_move(40, 80).unwrap();
        ids.finish_move(40, 80);
        assert_eq!(ids.id_of(80), Ok((first, false)));
        assert_eq!(ids.object(first), Some(80));
        ids.forget(80);
        let (second, fresh) = ids.id_of(40).unwrap();
        assert!(fresh && second != first);
    }

    #[test]
    fn objects_are_found_by_ids_given_before_and_after_the_first_search() {
        let mut ids = ObjectIds::default();
        let early: Vec<u64> = (1..=1000).map(|n| ids.id_of(40 * n).unwrap().0).collect();
        ids.forget(80);
        assert_eq!(ids.object(early[2]), Some(120));
        let (late, _) = ids.id_of(80).unwrap();
        assert_eq!(ids.object(late), Some(80));
        ids.forget(120);
        for absent in [early[1], early[2], early[3] + 1, late + STEP, 0] {
            assert_eq!(ids.object(absent), None, "id {absent}");
        }
    }
}
