//! Memory of the simulator: bytes, each with a bit that says whether it was ever written.

/// A buffer of [`Memory`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct BufferId(pub(super) usize);

/// Global memory: buffers that a caller allocates, fills and reads back. Every buffer starts at an address that is a multiple of 256
/// bytes; what lies beyond its end belongs to nobody, so that an access there is a trap.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub(super) buffers: Vec<Bytes>,
}

impl Memory {
    /// No buffers.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// A buffer of `len` bytes, none of them initialised.
    pub fn alloc(&mut self, len: usize) -> BufferId {
        self.buffers.push(Bytes::new(len));
        BufferId(self.buffers.len() - 1)
    }

    /// A buffer that holds the bytes.
    pub fn from_bytes(&mut self, bytes: &[u8]) -> BufferId {
        let buffer = self.alloc(bytes.len());
        self.write(buffer, 0, bytes);
        buffer
    }

    /// Cuts a buffer, or makes it longer by bytes that are not initialised.
    pub fn resize(&mut self, buffer: BufferId, len: usize) {
        self.buffers[buffer.0].resize(len);
    }

    /// Gives a buffer's bytes back; it has length 0 afterwards.
    pub fn free(&mut self, buffer: BufferId) {
        self.buffers[buffer.0] = Bytes::new(0);
    }

    /// Bytes of a buffer.
    pub fn len(&self, buffer: BufferId) -> usize {
        self.buffers[buffer.0].data.len()
    }

    /// Whether a buffer has no bytes.
    pub fn is_empty(&self, buffer: BufferId) -> bool {
        self.len(buffer) == 0
    }

    /// Writes bytes and marks them initialised. Panics beyond the buffer's end.
    pub fn write(&mut self, buffer: BufferId, offset: usize, bytes: &[u8]) {
        self.buffers[buffer.0].write(offset, bytes);
    }

    /// Sets `len` bytes from `offset` to `value`. Panics beyond the buffer's end.
    pub fn fill(&mut self, buffer: BufferId, offset: usize, len: usize, value: u8) {
        let b = &mut self.buffers[buffer.0];
        b.data[offset..offset + len].fill(value);
        b.mark(offset, len, true);
    }

    /// Copies `len` bytes, with what is known of their initialisation. Panics beyond an end.
    pub fn copy(&mut self, from: BufferId, from_offset: usize, to: BufferId, to_offset: usize, len: usize) {
        let source = &self.buffers[from.0];
        let bytes = source.data[from_offset..from_offset + len].to_vec();
        let known: Vec<bool> = (from_offset..from_offset + len).map(|at| source.is_known(at)).collect();
        let target = &mut self.buffers[to.0];
        target.data[to_offset..to_offset + len].copy_from_slice(&bytes);
        for (i, known) in known.into_iter().enumerate() {
            target.mark(to_offset + i, 1, known);
        }
    }

    /// The bytes, initialised or not (those that are not read as 0). Panics beyond the buffer's end.
    pub fn read(&self, buffer: BufferId, offset: usize, len: usize) -> &[u8] {
        &self.buffers[buffer.0].data[offset..offset + len]
    }

    /// The first byte of the range that was never written, as an offset into the buffer.
    pub fn first_uninitialised(&self, buffer: BufferId, offset: usize, len: usize) -> Option<usize> {
        self.buffers[buffer.0].first_unknown(offset, len)
    }

    /// Forgets what the range held: reading it before the next write is a trap.
    pub fn forget(&mut self, buffer: BufferId, offset: usize, len: usize) {
        self.buffers[buffer.0].mark(offset, len, false);
    }
}

/// Bytes with one initialised bit each.
#[derive(Clone, Debug)]
pub(super) struct Bytes {
    pub(super) data: Vec<u8>,
    known: Vec<u64>,
}

impl Bytes {
    pub(super) fn new(len: usize) -> Bytes {
        Bytes { data: vec![0; len], known: vec![0; len.div_ceil(64)] }
    }

    fn resize(&mut self, len: usize) {
        let before = self.data.len();
        if len < before {
            self.mark(len, before - len, false);
        }
        self.data.resize(len, 0);
        self.known.resize(len.div_ceil(64), 0);
    }

    /// All bytes unknown again.
    pub(super) fn reset(&mut self) {
        self.data.fill(0);
        self.known.fill(0);
    }

    pub(super) fn is_known(&self, at: usize) -> bool {
        self.known[at / 64] >> (at % 64) & 1 == 1
    }

    pub(super) fn first_unknown(&self, at: usize, len: usize) -> Option<usize> {
        let (word, bit) = (at / 64, at % 64);
        if bit + len <= 64 && len < 64 {
            let mask = ((1u64 << len) - 1) << bit;
            if self.known[word] & mask == mask {
                return None;
            }
        }
        (at..at + len).find(|i| !self.is_known(*i))
    }

    pub(super) fn mark(&mut self, at: usize, len: usize, known: bool) {
        let (mut at, end) = (at, at + len);
        while at < end {
            let bit = at % 64;
            let n = (64 - bit).min(end - at);
            let mask = (u64::MAX >> (64 - n)) << bit;
            let word = &mut self.known[at / 64];
            *word = if known { *word | mask } else { *word & !mask };
            at += n;
        }
    }

    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.data[at..at + bytes.len()].copy_from_slice(bytes);
        self.mark(at, bytes.len(), true);
    }

    /// `size` bytes, little-endian, zero-extended.
    pub(super) fn load(&self, at: usize, size: usize) -> u64 {
        match size {
            1 => self.data[at] as u64,
            2 => u16::from_le_bytes([self.data[at], self.data[at + 1]]) as u64,
            4 => {
                let b = &self.data[at..at + 4];
                u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as u64
            }
            _ => {
                let mut b = [0; 8];
                b[..size].copy_from_slice(&self.data[at..at + size]);
                u64::from_le_bytes(b)
            }
        }
    }

    /// The low `size` bytes of a value.
    pub(super) fn store(&mut self, at: usize, size: usize, value: u64) {
        self.data[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
        let bit = at % 64;
        if bit + size <= 64 {
            self.known[at / 64] |= ((1u64 << size) - 1) << bit;
        } else {
            self.mark(at, size, true);
        }
    }
}
