//! Offsets in the structures of a Java virtual machine, as published by the machine.

use std::collections::HashMap;

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};

use super::scopes::{Parts, Scopes};
use super::text;
use crate::process_memory::{Memory, int, pointer};
use crate::symbols::Elf;

/// More rows than this are no table.
const ROWS_MAX: usize = 1 << 14;
/// From this version on no byte of a packed number is 0.
const NO_ZEROS_FROM: u32 = 20;
/// Wider rows are none (bytes).
const ROW_BYTES_MAX: u64 = 1 << 10;

/// Offsets in structures, and sizes (bytes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Address of `CodeCache::_heaps`.
    pub(super) heaps: u64,
    pub(super) list_length: u64,
    pub(super) list_data: u64,
    pub(super) heap_memory: u64,
    pub(super) heap_segments: u64,
    pub(super) heap_segment_shift: u64,
    pub(super) space_low: u64,
    pub(super) space_high: u64,
    /// End of the reserved space. Code may be generated up to there.
    pub(super) space_end: u64,
    pub(super) block_length: u64,
    pub(super) block_length_bytes: u64,
    pub(super) block_used: u64,
    pub(super) block_header_bytes: u64,
    pub(super) blob_name: u64,
    pub(super) blob_method: u64,
    pub(super) method_constant: u64,
    pub(super) constant_pool: u64,
    pub(super) constant_name_index: u64,
    pub(super) pool_bytes: u64,
    pub(super) pool_holder: u64,
    pub(super) class_name: u64,
    pub(super) symbol_length: u64,
    pub(super) symbol_body: u64,
    /// The fields for line numbers may be missing.
    pub(super) pool_source_file: Option<u64>,
    pub(super) constant_flags: Option<u64>,
    pub(super) constant_code_bytes: Option<u64>,
    pub(super) constant_bytes: Option<u64>,
    pub(super) excluded: u8,
    pub(super) scopes: Option<Scopes>,
    pub(super) interpreter: Option<InterpreterCode>,
    pub(super) frames: Option<Frames>,
}

/// Where a code block stores the size of its frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frames {
    pub(super) size: u64,
    pub(super) complete: u64,
    pub(super) complete_bytes: u16,
    pub(super) begin: u64,
    pub(super) begin_bytes: u16,
}

/// Where the machine publishes the interpreter's own code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InterpreterCode {
    /// Address of `AbstractInterpreter::_code`.
    pub(super) queue: u64,
    pub(super) queue_start: u64,
    pub(super) queue_bytes: u64,
}

/// Addresses in the file of the `gHotSpotVM…` variables of `libjvm.so`, by name. `None` for any other file.
pub fn symbols(library: &[u8]) -> Option<HashMap<String, u64>> {
    let file = ElfFile64::<Endianness>::parse(library).ok()?;
    let told = file.dynamic_symbols().chain(file.symbols()).filter_map(|symbol| {
        let name = symbol.name().ok().filter(|name| name.starts_with("gHotSpotVM"))?;
        Some((name.to_owned(), symbol.address()))
    });
    let told: HashMap<String, u64> = told.filter(|(_, address)| *address != 0).collect();
    (!told.is_empty()).then_some(told)
}

/// How far above its own addresses a library was loaded, of which `start` is mapped from that offset in the file.
pub fn loaded(library: &[u8], (start, file_offset): (u64, u64)) -> Option<u64> {
    let elf = Elf::parse(library)?;
    let (offsets, first) = elf.segments().find(|(offsets, _)| offsets.contains(&file_offset))?;
    start.checked_sub(first.checked_add(file_offset - offsets.start)?)
}

/// A field of a structure.
struct Field {
    /// Type name, as in the source.
    kind: String,
    /// Offset in the structure.
    offset: u64,
    /// Where it lies, if it is static.
    address: u64,
}

impl Layout {
    /// Layout as published by the machine. `symbols` are those of its library, and `loaded` is the library's
    /// load bias.
    pub fn read(memory: &dyn Memory, symbols: &HashMap<String, u64>, loaded: u64) -> Option<Layout> {
        let tables = MachineTables { memory, symbols, loaded };
        let fields = tables.fields()?;
        let sizes = tables.sizes()?;
        let field = |owner: &str, name: &str| fields.get(&(owner.to_owned(), name.to_owned()));
        let offset = |owner: &str, name: &str| field(owner, name).map(|field| field.offset);
        let length = field("HeapBlock::Header", "_length")?;
        let version =
            field("Abstract_VM_Version", "_vm_major_version").and_then(|field| int(memory, field.address));
        Some(Layout {
            heaps: field("CodeCache", "_heaps")?.address,
            list_length: offset("GrowableArrayBase", "_len").or(offset("GenericGrowableArray", "_len"))?,
            list_data: offset("GrowableArray<int>", "_data")?,
            heap_memory: offset("CodeHeap", "_memory")?,
            heap_segments: offset("CodeHeap", "_segmap")?,
            heap_segment_shift: offset("CodeHeap", "_log2_segment_size")?,
            space_low: offset("VirtualSpace", "_low")?,
            space_high: offset("VirtualSpace", "_high")?,
            space_end: offset("VirtualSpace", "_high_boundary")?,
            block_length: length.offset,
            block_length_bytes: if length.kind == "size_t" { 8 } else { 4 },
            block_used: offset("HeapBlock::Header", "_used")?,
            block_header_bytes: *sizes.get("HeapBlock")?,
            blob_name: offset("CodeBlob", "_name")?,
            blob_method: offset("nmethod", "_method").or(offset("CompiledMethod", "_method"))?,
            method_constant: offset("Method", "_constMethod")?,
            constant_pool: offset("ConstMethod", "_constants")?,
            constant_name_index: offset("ConstMethod", "_name_index")?,
            pool_bytes: *sizes.get("ConstantPool")?,
            pool_holder: offset("ConstantPool", "_pool_holder")?,
            class_name: offset("Klass", "_name")?,
            symbol_length: offset("Symbol", "_length")?,
            symbol_body: offset("Symbol", "_body").or(offset("Symbol", "_body[0]"))?,
            pool_source_file: offset("ConstantPool", "_source_file_name_index"),
            constant_flags: offset("ConstMethod", "_flags").or(offset("ConstMethod", "_flags._flags")),
            constant_code_bytes: offset("ConstMethod", "_code_size"),
            constant_bytes: sizes.get("ConstMethod").copied(),
            excluded: u8::from(version.is_some_and(|version| version >= NO_ZEROS_FROM)),
            scopes: version.and(scopes(&offset, sizes.get("PcDesc").copied())),
            frames: offset("CodeBlob", "_frame_size").and_then(|size| {
                let complete = field("CodeBlob", "_frame_complete_offset")?;
                let (begin, begin_bytes) = match offset("CodeBlob", "_code_begin") {
                    Some(begin) => (begin, 8),
                    None => (offset("CodeBlob", "_code_offset")?, 4),
                };
                let complete_bytes = if complete.kind == "int16_t" { 2 } else { 4 };
                Some(Frames { size, complete: complete.offset, complete_bytes, begin, begin_bytes })
            }),
            interpreter: field("AbstractInterpreter", "_code").and_then(|queue| {
                let (start, bytes) = ("_stub_buffer", "_buffer_limit");
                Some(InterpreterCode {
                    queue: queue.address,
                    queue_start: offset("StubQueue", start)?,
                    queue_bytes: offset("StubQueue", bytes)?,
                })
            }),
        })
    }
}

/// Where blocks of this version store the calls inlined into a method.
fn scopes(offset: &dyn Fn(&str, &str) -> Option<u64>, place_bytes: Option<u64>) -> Option<Scopes> {
    let within = || {
        Some(Parts::Within {
            code: offset("CodeBlob", "_code_begin")?,
            places: offset("nmethod", "_scopes_pcs_offset")?,
            places_end: offset("nmethod", "_dependencies_offset")?,
            calls: offset("CompiledMethod", "_scopes_data_begin")?,
            metadata: offset("nmethod", "_metadata_offset")?,
        })
    };
    let beside = || {
        Some(Parts::Beside {
            code: offset("CodeBlob", "_code_offset")?,
            fixed: offset("nmethod", "_immutable_data")?,
            places: offset("nmethod", "_scopes_pcs_offset")?,
            calls: offset("nmethod", "_scopes_data_offset")?,
            changing: offset("CodeBlob", "_mutable_data")?,
            relocation_bytes: offset("CodeBlob", "_relocation_size")?,
        })
    };
    Some(Scopes {
        place_bytes: place_bytes?,
        place_pc: offset("PcDesc", "_pc_offset")?,
        place_calls: offset("PcDesc", "_scope_decode_offset")?,
        parts: within().or_else(beside)?,
    })
}

/// The machine's tables.
struct MachineTables<'a> {
    memory: &'a dyn Memory,
    symbols: &'a HashMap<String, u64>,
    loaded: u64,
}

impl MachineTables<'_> {
    /// The value of a variable of the library.
    fn value(&self, name: &str) -> Option<u64> {
        let address = self.symbols.get(&format!("gHotSpotVM{name}"))?;
        pointer(self.memory, address.checked_add(self.loaded)?)
    }

    /// Addresses of a table's rows: it ends where the pointer at `key` is none.
    fn rows(&self, table: &str, entry: &str, key: &str) -> Option<Vec<u64>> {
        let first = self.value(table)?;
        let bytes =
            self.value(&format!("{entry}ArrayStride")).filter(|bytes| (8..ROW_BYTES_MAX).contains(bytes))?;
        let key = self.value(&format!("{entry}{key}Offset"))?;
        let mut rows = Vec::new();
        for number in 0..ROWS_MAX as u64 {
            let row = first.checked_add(number * bytes)?;
            if pointer(self.memory, row.checked_add(key)?)? == 0 {
                return Some(rows);
            }
            rows.push(row);
        }
        None
    }

    fn fields(&self) -> Option<HashMap<(String, String), Field>> {
        let part = |name: &str| self.value(&format!("StructEntry{name}Offset"));
        let (owner, name, kind) = (part("TypeName")?, part("FieldName")?, part("TypeString")?);
        let (offset, address, is_static) = (part("Offset")?, part("Address")?, part("IsStatic")?);
        let mut fields = HashMap::new();
        for row in self.rows("Structs", "StructEntry", "TypeName")? {
            let words = |at: u64| text(self.memory, pointer(self.memory, row.checked_add(at)?)?);
            let (Some(owner), Some(name)) = (words(owner), words(name)) else { continue };
            let field = match int(self.memory, row.checked_add(is_static)?)? {
                0 => Field {
                    kind: words(kind).unwrap_or_default(),
                    offset: pointer(self.memory, row.checked_add(offset)?)?,
                    address: 0,
                },
                _ => Field {
                    kind: String::new(),
                    offset: 0,
                    address: pointer(self.memory, row.checked_add(address)?)?,
                },
            };
            fields.insert((owner, name), field);
        }
        Some(fields)
    }

    fn sizes(&self) -> Option<HashMap<String, u64>> {
        let (name, size) = (self.value("TypeEntryTypeNameOffset")?, self.value("TypeEntrySizeOffset")?);
        let rows = self.rows("Types", "TypeEntry", "TypeName")?;
        let row = |row: u64| {
            let name = text(self.memory, pointer(self.memory, row.checked_add(name)?)?)?;
            Some((name, pointer(self.memory, row.checked_add(size)?)?))
        };
        Some(rows.into_iter().filter_map(row).collect())
    }
}
