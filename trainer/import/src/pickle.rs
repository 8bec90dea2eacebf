//! The values of a Python pickle; nothing is called, whatever the file names.
//!
//! Values that hold others live in one list and refer to each other by number, so that no nesting
//! of a file is too deep.

use crate::error::ImportError;

/// A value, or a number that says where a larger one is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A place in [`Pickle::nodes`].
    Node(usize),
}

/// A value that holds text or other values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Text(String),
    /// A function or class, `module.name`.
    Global(String),
    Tuple(Vec<Value>),
    List(Vec<Value>),
    Dict(Vec<(Value, Value)>),
    /// What the first value would have made of the second one.
    Made(Value, Value),
    /// A reference to something outside the pickle.
    Outside(Value),
}

/// A whole pickle.
#[derive(Debug)]
pub(crate) struct Pickle {
    nodes: Vec<Node>,
    root: Value,
}

impl Pickle {
    /// Returns the outermost value.
    pub(crate) const fn root(&self) -> Value {
        self.root
    }

    /// Returns what a value holds.
    pub(crate) fn node(&self, value: Value) -> Option<&Node> {
        match value {
            Value::Node(place) => self.nodes.get(place),
            _ => None,
        }
    }

    /// Returns a text.
    pub(crate) fn text(&self, value: Value) -> Option<&str> {
        match self.node(value)? {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the elements of a tuple or list.
    pub(crate) fn items(&self, value: Value) -> Option<&[Value]> {
        match self.node(value)? {
            Node::Tuple(items) | Node::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the pairs of a dictionary, an ordered one too.
    pub(crate) fn pairs(&self, value: Value) -> Option<&[(Value, Value)]> {
        match self.node(value)? {
            Node::Dict(pairs) => Some(pairs),
            _ => None,
        }
    }

    /// Returns the last value of a dictionary under a name.
    pub(crate) fn get(&self, dict: Value, name: &str) -> Option<Value> {
        let pairs = self.pairs(dict)?.iter().rev();
        let mut named = pairs.filter(|pair| self.text(pair.0) == Some(name));
        named.next().map(|pair| pair.1)
    }

    /// Reads the bytes of a pickle of protocol 2 to 5.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, ImportError> {
        let mut machine = Machine {
            bytes,
            at: 0,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            nodes: Vec::new(),
        };
        loop {
            let offset = machine.at;
            match machine.step() {
                Some(None) => {}
                Some(Some(root)) => {
                    return Ok(Self {
                        nodes: machine.nodes,
                        root,
                    });
                }
                None => {
                    return Err(ImportError::Damaged {
                        what: "an instruction of a pickle that holds plain values",
                        offset,
                    });
                }
            }
        }
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Value>,
    marks: Vec<usize>,
    memo: Vec<(u64, Value)>,
    nodes: Vec<Node>,
}

impl<'a> Machine<'a> {
    fn bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let end = self.at.checked_add(usize::try_from(len).ok()?)?;
        let bytes = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn number(&mut self, len: u64) -> Option<u64> {
        let bytes = self.bytes(len)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0, |n, &byte| n << 8 | u64::from(byte)),
        )
    }

    fn line(&mut self) -> Option<String> {
        let rest = self.bytes.get(self.at..)?;
        let len = rest.iter().position(|&byte| byte == b'\n')?;
        self.at += len + 1;
        String::from_utf8(rest.get(..len)?.to_vec()).ok()
    }

    fn push(&mut self, node: Node) {
        self.stack.push(Value::Node(self.nodes.len()));
        self.nodes.push(node);
    }

    fn text(&mut self, len_len: u64) -> Option<()> {
        let len = self.number(len_len)?;
        let text = str::from_utf8(self.bytes(len)?).ok()?;
        self.push(Node::Text(text.to_string()));
        Some(())
    }

    fn tuple(&mut self, len: usize) -> Option<()> {
        let start = self.stack.len().checked_sub(len)?;
        let items = self.stack.split_off(start);
        self.push(Node::Tuple(items));
        Some(())
    }

    fn since_mark(&mut self) -> Option<Vec<Value>> {
        let mark = self.marks.pop()?;
        (mark <= self.stack.len()).then(|| self.stack.split_off(mark))
    }

    fn append(&mut self, items: &[Value]) -> Option<()> {
        match self.stack.last()? {
            Value::Node(place) => match self.nodes.get_mut(*place)? {
                Node::List(list) => list.extend(items),
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }

    fn set(&mut self, items: &[Value]) -> Option<()> {
        let (pairs, []) = items.as_chunks::<2>() else {
            return None;
        };
        match self.stack.last()? {
            Value::Node(place) => match self.nodes.get_mut(*place)? {
                Node::Dict(dict) => dict.extend(pairs.iter().map(|&[key, value]| (key, value))),
                _ => return None,
            },
            _ => return None,
        }
        Some(())
    }

    fn remember(&mut self, place: u64) -> Option<()> {
        let value = *self.stack.last()?;
        // Places count up in every pickle that Python writes.
        match self.memo.binary_search_by_key(&place, |entry| entry.0) {
            Ok(index) => self.memo[index].1 = value,
            Err(index) => self.memo.insert(index, (place, value)),
        }
        Some(())
    }

    fn recall(&mut self, place: u64) -> Option<()> {
        let index = self
            .memo
            .binary_search_by_key(&place, |entry| entry.0)
            .ok()?;
        self.stack.push(self.memo[index].1);
        Some(())
    }

    /// Makes of a function and its arguments what is known, or a note of both.
    fn make(&mut self) -> Option<()> {
        let (arguments, function) = (self.stack.pop()?, self.stack.pop()?);
        let name = match function {
            Value::Node(place) => match self.nodes.get(place)? {
                Node::Global(name) => name.as_str(),
                _ => "",
            },
            _ => "",
        };
        if name == "collections.OrderedDict" {
            self.push(Node::Dict(Vec::new()));
        } else {
            self.push(Node::Made(function, arguments));
        }
        Some(())
    }

    /// Does one instruction; the outer `None` is an error, the inner value the end.
    fn step(&mut self) -> Option<Option<Value>> {
        let code = self.bytes(1)?.first().copied()?;
        match code {
            // PROTO, FRAME: how it was written
            0x80 => drop(self.number(1).filter(|&version| version <= 5)?),
            0x95 => drop(self.number(8)?),
            b'.' => return Some(Some(self.stack.pop()?)),
            b'(' => self.marks.push(self.stack.len()),
            b'0' => drop(self.stack.pop()?),
            b'N' => self.stack.push(Value::None),
            0x88 => self.stack.push(Value::Bool(true)),
            0x89 => self.stack.push(Value::Bool(false)),
            b'J' => {
                let number = self.number(4)? as u32;
                self.stack.push(Value::Int(number.cast_signed().into()));
            }
            b'K' => {
                let number = self.number(1)?;
                self.stack.push(Value::Int(number.cast_signed()));
            }
            b'M' => {
                let number = self.number(2)?;
                self.stack.push(Value::Int(number.cast_signed()));
            }
            0x8a => {
                let len = self.number(1).filter(|&len| len <= 8)?;
                let number = self.number(len)?;
                let unused = 64 - 8 * len as u32;
                let signed = number.checked_shl(unused).unwrap_or(0).cast_signed();
                self.stack
                    .push(Value::Int(signed.checked_shr(unused).unwrap_or(0)));
            }
            b'G' => {
                let bytes = self.bytes(8)?.first_chunk()?;
                self.stack.push(Value::Float(f64::from_be_bytes(*bytes)));
            }
            b'X' => self.text(4)?,
            0x8c => self.text(1)?,
            0x8d => self.text(8)?,
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Node::Global(format!("{module}.{name}")));
            }
            0x93 => {
                let (name, module) = (self.stack.pop()?, self.stack.pop()?);
                let text = |value| match value {
                    Value::Node(place) => match self.nodes.get(place)? {
                        Node::Text(text) => Some(text.as_str()),
                        _ => None,
                    },
                    _ => None,
                };
                let global = format!("{}.{}", text(module)?, text(name)?);
                self.push(Node::Global(global));
            }
            b')' => self.tuple(0)?,
            0x85..=0x87 => self.tuple(usize::from(code - 0x84))?,
            b't' => {
                let items = self.since_mark()?;
                self.push(Node::Tuple(items));
            }
            b']' => self.push(Node::List(Vec::new())),
            b'a' => {
                let item = self.stack.pop()?;
                self.append(&[item])?;
            }
            b'e' => {
                let items = self.since_mark()?;
                self.append(&items)?;
            }
            b'}' => self.push(Node::Dict(Vec::new())),
            b's' => {
                let (value, key) = (self.stack.pop()?, self.stack.pop()?);
                self.set(&[key, value])?;
            }
            b'u' => {
                let items = self.since_mark()?;
                self.set(&items)?;
            }
            b'q' => {
                let place = self.number(1)?;
                self.remember(place)?;
            }
            b'r' => {
                let place = self.number(4)?;
                self.remember(place)?;
            }
            0x94 => self.remember(self.memo.len() as u64)?,
            b'h' => {
                let place = self.number(1)?;
                self.recall(place)?;
            }
            b'j' => {
                let place = self.number(4)?;
                self.recall(place)?;
            }
            // REDUCE, NEWOBJ
            b'R' | 0x81 => self.make()?,
            // BUILD: the state of an object whose value is not used
            b'b' => drop(self.stack.pop()?),
            b'Q' => {
                let outside = self.stack.pop()?;
                self.push(Node::Outside(outside));
            }
            _ => return None,
        }
        Some(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_python_wrote() {
        // pickle.dumps({'n': -3, 'x': [1.5, None, True], 'big': 70000}, protocol=2)
        let bytes = b"\x80\x02}q\x00(X\x01\x00\x00\x00nq\x01J\xfd\xff\xff\xffX\x01\x00\x00\x00xq\x02]q\x03(G?\xf8\x00\x00\x00\x00\x00\x00N\x88eX\x03\x00\x00\x00bigq\x04Jp\x11\x01\x00u.";
        let pickle = Pickle::read(bytes).unwrap();
        let root = pickle.root();
        assert_eq!(pickle.get(root, "n"), Some(Value::Int(-3)));
        assert_eq!(pickle.get(root, "big"), Some(Value::Int(70_000)));
        let items = pickle.items(pickle.get(root, "x").unwrap()).unwrap();
        assert_eq!(items, [Value::Float(1.5), Value::None, Value::Bool(true)]);
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = b"\x80\x02}(X\x01\x00\x00\x00nK\x03X\x01\x00\x00\x00m\x8a\x02\xff\xffu.";
        let whole = Pickle::read(bytes).unwrap();
        assert_eq!(whole.get(whole.root(), "m"), Some(Value::Int(-1)));
        for len in 0..bytes.len() {
            assert!(Pickle::read(&bytes[..len]).is_err(), "{len}");
        }
    }
}
