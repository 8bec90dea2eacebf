//! UF2, the files that the boot ROM of a Pico takes over USB
//! (<https://github.com/microsoft/uf2>, version of 2021).

/// Bytes of flash in a block.
const PAYLOAD: usize = 256;
const BLOCK: usize = 512;
const MAGIC: [u32; 2] = [0x0A32_4655, 0x9E5D_5157];
const MAGIC_END: u32 = 0x0AB1_6F30;
const HAS_FAMILY: u32 = 0x2000;
/// The kind of an ELF segment that is loaded.
const LOAD: u32 = 1;

/// Writes the UF2 file that puts each of `parts`, an address and bytes, into flash.
///
/// Addresses are multiples of 256; the rest of a part's last block is filled up with zeros.
#[must_use]
pub fn encode(family: u32, parts: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let blocks: Vec<(u32, &[u8])> = parts
        .iter()
        .flat_map(|(address, bytes)| {
            let addresses = (*address..).step_by(PAYLOAD);
            addresses.zip(bytes.chunks(PAYLOAD))
        })
        .collect();
    let mut file = Vec::with_capacity(BLOCK * blocks.len());
    for (number, (address, payload)) in blocks.iter().enumerate() {
        let head = [
            MAGIC[0],
            MAGIC[1],
            HAS_FAMILY,
            *address,
            PAYLOAD as u32,
            number as u32,
            blocks.len() as u32,
            family,
        ];
        let start = file.len();
        file.extend(head.iter().flat_map(|word| word.to_le_bytes()));
        file.extend_from_slice(payload);
        file.resize(start + BLOCK - 4, 0);
        file.extend(MAGIC_END.to_le_bytes());
    }
    file
}

/// Returns what an ELF file puts into flash, as blocks that begin at multiples of 256; `None` if it
/// is no 32-bit little-endian ELF file.
#[must_use]
pub fn flash_parts(elf: &[u8], flash: std::ops::Range<u32>) -> Option<Vec<(u32, Vec<u8>)>> {
    let word = |at: usize| Some(u32::from_le_bytes(elf.get(at..at + 4)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_le_bytes(elf.get(at..at + 2)?.try_into().ok()?));
    if !elf.starts_with(&[0x7f, b'E', b'L', b'F', 1, 1]) {
        return None;
    }
    let (table, entry_len, count) = (word(28)? as usize, usize::from(half(42)?), half(44)?);
    let mut pages = std::collections::BTreeMap::<u32, Vec<u8>>::new();
    for entry in 0..usize::from(count) {
        let header = table + entry * entry_len;
        let [kind, offset, address, len] = [0, 4, 12, 16].map(|at| word(header + at).unwrap_or(0));
        if kind != LOAD || !flash.contains(&address) {
            continue;
        }
        let bytes = elf.get(offset as usize..offset as usize + len as usize)?;
        for (place, &byte) in (address..).zip(bytes) {
            let page = place - place % PAYLOAD as u32;
            let page = pages.entry(page).or_insert_with(|| vec![0; PAYLOAD]);
            page[place as usize % PAYLOAD] = byte;
        }
    }
    Some(pages.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_numbered_and_addressed() {
        let parts = [(0x1000_0000, vec![7; 257]), (0x1000_1000, vec![9; 256])];
        let file = encode(0xE48B_FF56, &parts);
        assert_eq!(file.len(), 3 * BLOCK);
        let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        for (block, address) in [0x1000_0000, 0x1000_0100, 0x1000_1000]
            .into_iter()
            .enumerate()
        {
            let at = block * BLOCK;
            assert_eq!([word(at), word(at + 4)], MAGIC);
            assert_eq!(word(at + 12), address);
            assert_eq!([word(at + 20), word(at + 24)], [block as u32, 3]);
            assert_eq!(word(at + BLOCK - 4), MAGIC_END);
        }
        assert_eq!(file[BLOCK + 32..BLOCK + 34], [7, 0]);
    }

    #[test]
    fn an_elf_file_gives_the_bytes_of_its_segments() {
        let mut elf = vec![0x7f, b'E', b'L', b'F', 1, 1];
        elf.resize(52 + 2 * 32, 0);
        elf[28] = 52;
        elf[42] = 32;
        elf[44] = 2;
        let mut segment = |n: usize, address: u32, bytes: &[u8]| {
            let offset = elf.len() as u32;
            elf.extend_from_slice(bytes);
            for (field, value) in [(0, 1), (4, offset), (12, address), (16, bytes.len() as u32)] {
                let at = 52 + n * 32 + field;
                elf[at..at + 4].copy_from_slice(&value.to_le_bytes());
            }
        };
        segment(0, 0x1000_00fe, &[1, 2, 3]);
        segment(1, 0x2000_0000, &[4]);
        let parts = flash_parts(&elf, 0x1000_0000..0x1100_0000).unwrap();
        let found: Vec<(u32, usize)> = parts.iter().map(|part| (part.0, part.1.len())).collect();
        assert_eq!(found, [(0x1000_0000, 256), (0x1000_0100, 256)]);
        assert_eq!((parts[0].1[254..].to_vec(), parts[1].1[0]), (vec![1, 2], 3));
        assert_eq!(flash_parts(b"no ELF", 0..1), None);
    }
}
