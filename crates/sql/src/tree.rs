//! The parse tree as a uniform tree of records, so that a walk visits each part of it.
//!
//! `pg_query`'s own `nodes()` visits only part of the tree (it omits `LIMIT`, `RETURNING`, window definitions and
//! more). The protobuf types implement `Serialize` with the name of each type, so that serialization yields the
//! complete tree. It omits positions in the text: two trees are equal if they mean the same.

use std::fmt;

use pg_query::{Node, NodeEnum};
use serde::ser::{self, Serialize};

/// One value of the tree.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    /// A number; 0 for an absent value.
    Plain(i64),
    /// A name or a constant.
    Text(String),
    List(Vec<Value>),
    Record(Record),
}

/// A node of the tree: its protobuf type and its fields.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Record {
    /// The protobuf type in Rust's spelling, such as `FuncCall` or `AExpr`.
    pub(crate) kind: &'static str,
    fields: Vec<(&'static str, Value)>,
}

impl Record {
    /// The tree of a protobuf message.
    pub(crate) fn of(message: &impl Serialize) -> Record {
        match message.serialize(Builder) {
            Ok(Value::Record(record)) => record,
            _ => Record {
                kind: "",
                fields: Vec::new(),
            },
        }
    }

    /// The tree of one node.
    pub(crate) fn of_node(node: &NodeEnum) -> Record {
        let node = Some(node.clone());
        Record::of(&Node { node })
    }

    /// The value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        let mut fields = self.fields.iter();
        fields
            .find(|(field, _)| *field == name)
            .map(|(_, value)| value)
    }

    /// The node in a field, if the field holds one.
    pub(crate) fn record(&self, name: &str) -> Option<&Record> {
        match self.field(name) {
            Some(Value::Record(record)) => Some(record),
            _ => None,
        }
    }

    /// The text in a field; empty if the field is absent.
    pub(crate) fn text(&self, name: &str) -> &str {
        match self.field(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    /// The number in a field; 0 if the field is absent.
    pub(crate) fn number(&self, name: &str) -> i64 {
        match self.field(name) {
            Some(Value::Plain(number)) => *number,
            _ => 0,
        }
    }

    /// The nodes in a list field.
    pub(crate) fn list(&self, name: &str) -> impl Iterator<Item = &Record> {
        let items = match self.field(name) {
            Some(Value::List(items)) => items.as_slice(),
            _ => &[],
        };
        items.iter().filter_map(Value::as_record)
    }

    /// The texts in a list of `String` nodes, such as a dotted name.
    pub(crate) fn names(&self, name: &str) -> Vec<String> {
        let strings = self.list(name).filter(|item| item.kind == "String");
        strings.map(|item| item.text("sval").to_owned()).collect()
    }

    /// The child nodes in the order of the fields, each with the name of its field.
    pub(crate) fn children(&self) -> impl Iterator<Item = (&'static str, &Record)> {
        self.fields.iter().flat_map(|(field, value)| {
            let items = match value {
                Value::List(items) => items.as_slice(),
                single => std::slice::from_ref(single),
            };
            let records = items.iter().filter_map(Value::as_record);
            records.map(|record| (*field, record))
        })
    }

    /// Visits this node and all nodes below it, parents first.
    pub(crate) fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Record)) {
        visit(self);
        for (_, child) in self.children() {
            child.walk(visit);
        }
    }

    /// Whether the condition is true of this node or of a node below it.
    pub(crate) fn any(&self, condition: &dyn Fn(&Record) -> bool) -> bool {
        condition(self) || self.children().any(|(_, child)| child.any(condition))
    }

    /// Whether this node or a node below it is of one of these kinds.
    pub(crate) fn contains(&self, kinds: &[&str]) -> bool {
        self.any(&|node| kinds.contains(&node.kind))
    }
}

impl Value {
    fn as_record(&self) -> Option<&Record> {
        match self {
            Value::Record(record) => Some(record),
            _ => None,
        }
    }
}

/// Whether the field is a position in the text.
fn is_position(field: &str) -> bool {
    matches!(
        field,
        "location"
            | "stmt_location"
            | "stmt_len"
            | "list_start"
            | "list_end"
            | "rexpr_list_start"
            | "rexpr_list_end"
    )
}

/// Builds a [`Value`] from a value that serializes. It never fails.
struct Builder;

/// serde requires an error type; this crate never creates one.
#[derive(Debug)]
struct Never;

impl fmt::Display for Never {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl std::error::Error for Never {}

impl ser::Error for Never {
    fn custom<T: fmt::Display>(_: T) -> Never {
        Never
    }
}

/// A list that is being built.
struct Items(Vec<Value>);

impl Items {
    fn push<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Never> {
        self.0.push(item.serialize(Builder)?);
        Ok(())
    }
}

/// A node that is being built.
struct Fields(Record);

impl ser::SerializeStruct for Fields {
    type Ok = Value;
    type Error = Never;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Never> {
        if !is_position(key) {
            self.0.fields.push((key, value.serialize(Builder)?));
        }
        Ok(())
    }

    fn end(mut self) -> Result<Value, Never> {
        // `Node` is only the envelope of the node that it contains.
        if self.0.kind == "Node" {
            let content = self.0.fields.pop();
            return Ok(content.map_or(Value::Plain(0), |(_, value)| value));
        }
        Ok(Value::Record(self.0))
    }
}

impl ser::SerializeStructVariant for Fields {
    type Ok = Value;
    type Error = Never;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), Never> {
        ser::SerializeStruct::serialize_field(self, key, value)
    }

    fn end(self) -> Result<Value, Never> {
        ser::SerializeStruct::end(self)
    }
}

/// All list-like types of serde become lists; only sequences occur in practice.
macro_rules! list_like {
    ($($shape:ident, $method:ident;)+) => {$(
        impl ser::$shape for Items {
            type Ok = Value;
            type Error = Never;

            fn $method<T: Serialize + ?Sized>(&mut self, item: &T) -> Result<(), Never> {
                self.push(item)
            }

            fn end(self) -> Result<Value, Never> {
                Ok(Value::List(self.0))
            }
        }
    )+};
}

list_like! {
    SerializeSeq, serialize_element;
    SerializeTuple, serialize_element;
    SerializeTupleStruct, serialize_field;
    SerializeTupleVariant, serialize_field;
}

impl ser::SerializeMap for Items {
    type Ok = Value;
    type Error = Never;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Never> {
        self.push(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Never> {
        self.push(value)
    }

    fn end(self) -> Result<Value, Never> {
        Ok(Value::List(self.0))
    }
}

/// Scalars that fit an `i64`.
macro_rules! plain {
    ($($method:ident, $type:ty;)+) => {$(
        fn $method(self, value: $type) -> Result<Value, Never> {
            Ok(Value::Plain(value.into()))
        }
    )+};
}

/// Values that are absent.
macro_rules! absent {
    ($($method:ident($($argument:ty)?);)+) => {$(
        fn $method(self $(, _: $argument)?) -> Result<Value, Never> {
            Ok(Value::Plain(0))
        }
    )+};
}

/// The beginnings of lists.
macro_rules! lists {
    ($($method:ident($($argument:ty),+);)+) => {$(
        fn $method(self $(, _: $argument)+) -> Result<Items, Never> {
            Ok(Items(Vec::new()))
        }
    )+};
}

impl ser::Serializer for Builder {
    type Ok = Value;
    type Error = Never;
    type SerializeSeq = Items;
    type SerializeTuple = Items;
    type SerializeTupleStruct = Items;
    type SerializeTupleVariant = Items;
    type SerializeMap = Items;
    type SerializeStruct = Fields;
    type SerializeStructVariant = Fields;

    plain! {
        serialize_bool, bool;
        serialize_i8, i8;
        serialize_i16, i16;
        serialize_i32, i32;
        serialize_i64, i64;
        serialize_u8, u8;
        serialize_u16, u16;
        serialize_u32, u32;
    }

    fn serialize_u64(self, value: u64) -> Result<Value, Never> {
        Ok(Value::Plain(value.cast_signed()))
    }

    fn serialize_f32(self, value: f32) -> Result<Value, Never> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<Value, Never> {
        Ok(Value::Plain(value.to_bits().cast_signed()))
    }

    fn serialize_char(self, value: char) -> Result<Value, Never> {
        Ok(Value::Text(value.into()))
    }

    fn serialize_str(self, value: &str) -> Result<Value, Never> {
        Ok(Value::Text(value.to_owned()))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Value, Never> {
        let bytes = value.iter().map(|&byte| Value::Plain(byte.into()));
        Ok(Value::List(bytes.collect()))
    }

    absent! {
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, Never> {
        value.serialize(self)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        index: u32,
        _: &'static str,
    ) -> Result<Value, Never> {
        Ok(Value::Plain(index.into()))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Value, Never> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<Value, Never> {
        value.serialize(self)
    }

    lists! {
        serialize_seq(Option<usize>);
        serialize_tuple(usize);
        serialize_tuple_struct(&'static str, usize);
        serialize_tuple_variant(&'static str, u32, &'static str, usize);
        serialize_map(Option<usize>);
    }

    fn serialize_struct(self, kind: &'static str, _: usize) -> Result<Fields, Never> {
        let fields = Vec::new();
        Ok(Fields(Record { kind, fields }))
    }

    fn serialize_struct_variant(
        self,
        kind: &'static str,
        _: u32,
        _: &'static str,
        len: usize,
    ) -> Result<Fields, Never> {
        self.serialize_struct(kind, len)
    }
}
