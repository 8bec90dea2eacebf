//! The little of an ELF file that a measurement needs: sections and functions.

use anyhow::{Context, ensure};

/// A 32-bit little-endian ELF file.
#[derive(Debug)]
pub struct Elf<'a> {
    bytes: &'a [u8],
    sections: Vec<Section>,
}

/// A part of the file.
#[derive(Clone, Debug)]
struct Section {
    name: String,
    kind: u32,
    flags: u32,
    address: u32,
    start: usize,
    len: usize,
    link: usize,
}

/// A section that takes room on the chip.
#[derive(Clone, Copy, Debug)]
pub struct Part<'e> {
    /// Name.
    pub name: &'e str,
    /// First address.
    pub address: u32,
    /// Bytes.
    pub len: usize,
    /// Its bytes are in the file, and so in flash.
    pub stored: bool,
}

/// A function or static.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// Mangled name.
    pub name: String,
    /// First address.
    pub start: u32,
    /// Bytes.
    pub len: u32,
    /// It is code.
    pub is_function: bool,
}

const KIND_NO_BITS: u32 = 8;
const KIND_SYMBOLS: u32 = 2;
const FLAG_ALLOCATED: u32 = 2;
const SYMBOL_LEN: usize = 16;

impl<'a> Elf<'a> {
    /// Reads the table of sections.
    ///
    /// # Errors
    ///
    /// If the bytes are no such file, or end before its tables do.
    pub fn new(bytes: &'a [u8]) -> anyhow::Result<Self> {
        ensure!(
            bytes.starts_with(b"\x7fELF\x01\x01"),
            "this is no 32-bit little-endian ELF file"
        );
        let table = word(bytes, 32)? as usize;
        let (entry, count) = (half(bytes, 46)? as usize, half(bytes, 48)? as usize);
        let names = half(bytes, 50)? as usize;
        let mut sections = Vec::new();
        let mut name_places = Vec::new();
        for at in (0..count).map(|index| table + index * entry) {
            name_places.push(word(bytes, at)? as usize);
            sections.push(Section {
                name: String::new(),
                kind: word(bytes, at + 4)?,
                flags: word(bytes, at + 8)?,
                address: word(bytes, at + 12)?,
                start: word(bytes, at + 16)? as usize,
                len: word(bytes, at + 20)? as usize,
                link: word(bytes, at + 24)? as usize,
            });
        }
        let start = sections.get(names).context("no section names")?.start;
        for (section, place) in sections.iter_mut().zip(name_places) {
            section.name = text(bytes, start + place)?;
        }
        Ok(Self { bytes, sections })
    }

    /// Returns the sections that take room on the chip.
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let allocated = |section: &&Section| section.flags & FLAG_ALLOCATED != 0 && section.len > 0;
        self.sections.iter().filter(allocated).map(|section| Part {
            name: &section.name,
            address: section.address,
            len: section.len,
            stored: section.kind != KIND_NO_BITS,
        })
    }

    /// Returns the bytes of flash without the section `.model`.
    #[must_use]
    pub fn code_len(&self) -> usize {
        let code = |part: &Part<'_>| part.stored && part.name != ".model";
        self.parts().filter(code).map(|part| part.len).sum()
    }

    /// Returns the bytes of statics in RAM.
    #[must_use]
    pub fn ram_len(&self) -> usize {
        let in_ram = |part: &Part<'_>| !part.stored || part.name == ".data";
        self.parts().filter(in_ram).map(|part| part.len).sum()
    }

    /// Returns all named functions and statics.
    ///
    /// # Errors
    ///
    /// If the file ends before its symbols do.
    pub fn symbols(&self) -> anyhow::Result<Vec<Symbol>> {
        let mut symbols = Vec::new();
        for table in self.sections.iter().filter(|s| s.kind == KIND_SYMBOLS) {
            let names = self.sections.get(table.link).context("no symbol names")?;
            for at in (table.start..table.start + table.len).step_by(SYMBOL_LEN) {
                symbols.push(Symbol {
                    name: text(self.bytes, names.start + word(self.bytes, at)? as usize)?,
                    // The lowest bit of a Thumb function's address is a flag.
                    start: word(self.bytes, at + 4)? & !1,
                    len: word(self.bytes, at + 8)?,
                    is_function: self.bytes.get(at + 12).is_some_and(|info| info & 15 == 2),
                });
            }
        }
        Ok(symbols)
    }
}

fn word(bytes: &[u8], at: usize) -> anyhow::Result<u32> {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk());
    Ok(u32::from_le_bytes(
        *bytes.context("the ELF file is cut off")?,
    ))
}

fn half(bytes: &[u8], at: usize) -> anyhow::Result<u16> {
    let bytes = bytes.get(at..).and_then(|rest| rest.first_chunk());
    Ok(u16::from_le_bytes(
        *bytes.context("the ELF file is cut off")?,
    ))
}

fn text(bytes: &[u8], at: usize) -> anyhow::Result<String> {
    let rest = bytes.get(at..).context("the ELF file is cut off")?;
    let end = rest.iter().position(|&byte| byte == 0);
    let end = end.context("the ELF file is cut off")?;
    Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
}
