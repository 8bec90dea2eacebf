//! Settings in flash that is erased with other things only: each record goes behind the last one.

use crate::board::RECORD_LEN;

/// Counts the slots that are taken: those up to the last one with a byte that is not erased.
///
/// The last record is in the slot before; the next one goes to the slot of this number, if there are so
/// many. `read` reads the record of a slot.
///
/// # Errors
///
/// The first one of `read`.
pub fn taken<E>(
    slots: usize,
    mut read: impl FnMut(usize) -> Result<[u8; RECORD_LEN], E>,
) -> Result<usize, E> {
    let mut taken = 0;
    for slot in 0..slots {
        if read(slot)?.iter().any(|&byte| byte != 0xff) {
            taken = slot + 1;
        }
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERASED: [u8; RECORD_LEN] = [0xff; RECORD_LEN];

    fn count(records: &[[u8; RECORD_LEN]]) -> usize {
        taken(records.len(), |slot| Ok::<_, ()>(records[slot])).expect("reading works")
    }

    #[test]
    fn records_follow_each_other_until_the_place_is_full() {
        let mut records = [ERASED; 4];
        for next in 0..4 {
            assert_eq!(count(&records), next);
            records[next][RECORD_LEN - 1] = 0xfe;
        }
        assert_eq!(count(&records), 4);
    }

    #[test]
    fn a_torn_record_is_taken() {
        let mut records = [ERASED; 3];
        records[1][0] = 0;
        assert_eq!(count(&records), 2);
        assert_eq!(taken(3, |_| Err(7)), Err(7));
    }
}
