//! Descriptions of rows, as a subscriber sends them and as the client gets them.

use super::*;
use paceline_wire::Frames;
use paceline_wire::backend::{Field, write_fields};

fn field(table: u32, column: i16, type_oid: u32) -> Field {
    Field {
        name: b"n".to_vec(),
        table,
        column,
        type_oid,
        type_len: 4,
        type_modifier: -1,
    }
}

/// The description of these fields with the formats, as the subscriber sends it and as the client gets it.
fn rewritten(fields: &[Field], formats: &[i16]) -> Option<BytesMut> {
    let columns = PrimaryColumns::new([((30, 1), (20, 1)), ((30, 3), (20, 2))]);
    let (mut sent, mut out) = (BytesMut::new(), BytesMut::new());
    write_fields(&mut sent, fields, formats);
    let frame = Frames::new(&sent).next().unwrap();
    columns.write_description(frame, &mut out).then_some(out)
}

fn written(fields: &[Field], formats: &[i16]) -> BytesMut {
    let mut out = BytesMut::new();
    write_fields(&mut out, fields, formats);
    out
}

#[test]
fn places_are_those_of_the_primary_and_all_else_stays() {
    let own = [field(30, 1, 23), field(0, 0, 25), field(30, 3, 25)];
    let primary = [field(20, 1, 23), field(0, 0, 25), field(20, 2, 25)];
    let formats = [0, 1, 0];
    assert_eq!(rewritten(&own, &formats), Some(written(&primary, &formats)));
    assert_eq!(rewritten(&[], &[]), Some(written(&[], &[])));
}

#[test]
fn other_tables_columns_and_types_are_not_described() {
    assert_eq!(rewritten(&[field(31, 1, 23)], &[]), None);
    assert_eq!(rewritten(&[field(30, 2, 23)], &[]), None);
    assert_eq!(
        rewritten(&[field(30, -1, 27)], &[]),
        None,
        "a system column"
    );
    assert_eq!(rewritten(&[field(0, 0, 16_384)], &[]), None);
}
