use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array,
        RecordBatch, StringArray, TimestampMillisecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
    },
    buffer::{Buffer, OffsetBuffer},
    datatypes::{DataType, Field, Schema},
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{error::Kind, ids::ColumnId, rows::SERIES, schema::field_with_id, types::Precision};

fn header() -> SegmentHeader {
    SegmentHeader {
        position: Position { writer: WriterId(0x0123_4567_89ab_cdef), seq: 42 },
        writer_start_ms: 1_563_249_700_000,
        stamp_ns: -5,
        queue_keys: false,
    }
}

fn series(names: &[&str], tags: Vec<(u32, ArrayRef)>) -> SeriesSet {
    let mut fields = vec![crate::rows::tbname_field().as_ref().clone()];
    let mut columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from_iter_values(names))];
    for (id, values) in tags {
        fields.push(field_with_id(&format!("tag{id}"), values.data_type().clone(), true, ColumnId(id)));
        columns.push(values);
    }
    SeriesSet::try_new(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()).unwrap()
}

fn block(table: u32, series: SeriesSet, of: &[u32], ts: &[i64], fields: Vec<(u32, ArrayRef)>) -> Block {
    let mut schema = vec![
        Field::new(SERIES, DataType::UInt32, false),
        field_with_id("ts", Precision::Milli.data_type(), false, ColumnId::TS),
    ];
    let mut columns: Vec<ArrayRef> =
        vec![Arc::new(UInt32Array::from(of.to_vec())), Arc::new(TimestampMillisecondArray::from(ts.to_vec()))];
    for (id, values) in fields {
        schema.push(field_with_id(&format!("f{id}"), values.data_type().clone(), true, ColumnId(id)));
        columns.push(values);
    }
    Block::try_new(TableId(table), series, RecordBatch::try_new(Arc::new(Schema::new(schema)), columns).unwrap())
        .unwrap()
}

/// A block with every type, nulls and extreme values.
fn every_type() -> Block {
    let huge = "x".repeat(65_517);
    let fields: Vec<ArrayRef> = vec![
        Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX)])),
        Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX)])),
        Arc::new(Int32Array::from(vec![i32::MIN, 0, i32::MAX])),
        Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)])),
        Arc::new(UInt8Array::from(vec![Some(0), None, Some(u8::MAX)])),
        Arc::new(UInt16Array::from(vec![Some(0), None, Some(u16::MAX)])),
        Arc::new(UInt32Array::from(vec![Some(0), None, Some(u32::MAX)])),
        Arc::new(UInt64Array::from(vec![None, None, Some(u64::MAX)])),
        Arc::new(Float32Array::from(vec![Some(f32::INFINITY), None, Some(-0.0)])),
        Arc::new(Float64Array::from(vec![Some(f64::MIN_POSITIVE), None, Some(f64::MAX)])),
        Arc::new(TimestampMillisecondArray::from(vec![Some(i64::MIN), None, Some(i64::MAX)])),
        Arc::new(StringArray::from(vec![Some(huge.as_str()), None, Some("")])),
        Arc::new(BinaryArray::from_opt_vec(vec![Some(&[0, 255]), None, Some(&[])])),
    ];
    let fields = fields.into_iter().enumerate().map(|(i, f)| (i as u32 + 1, f)).collect();
    let tags: Vec<(u32, ArrayRef)> =
        vec![(20, Arc::new(Int32Array::from(vec![Some(7), None]))), (21, Arc::new(StringArray::from(vec!["a", "é"])))];
    block(3, series(&["d1", "d2"], tags), &[0, 1, 0], &[i64::MIN, 0, i64::MAX], fields)
}

fn small() -> Block {
    block(1, series(&["d"], vec![]), &[0], &[1], vec![(1, Arc::new(Int32Array::from(vec![5])))])
}

#[test]
fn every_type_survives_encoding_and_decoding() {
    let declaration = block(9, series(&["empty"], vec![]), &[], &[], vec![]);
    let blocks = vec![every_type(), small(), declaration];
    let bytes = encode(&header(), &blocks, Compression::Always).unwrap();
    assert_eq!(decode("k", &bytes).unwrap(), Segment { header: header(), blocks: blocks.clone() });
    assert_eq!(encode(&header(), &blocks, Compression::Always).unwrap(), bytes);
    assert_eq!(decode("k", &encode(&header(), &[], Compression::Always).unwrap()).unwrap().blocks, vec![]);
    let of_queue = SegmentHeader { queue_keys: true, ..header() };
    let marked = encode(&of_queue, &blocks, Compression::Always).unwrap();
    assert_eq!(decode("k", &marked).unwrap().header, of_queue);
}

#[test]
fn a_slice_of_rows_is_written_without_the_rest() {
    let mut sliced = every_type();
    sliced.rows = sliced.rows.slice(1, 1);
    let bytes = encode(&header(), std::slice::from_ref(&sliced), Compression::Always).unwrap();
    let mut alone = sliced.clone();
    alone.rows = arrow::compute::take_record_batch(&sliced.rows, &UInt32Array::from(vec![0])).unwrap();
    assert_eq!(lens(&bytes).1, lens(&encode(&header(), &[alone], Compression::Always).unwrap()).1);
    assert_eq!(decode("k", &bytes).unwrap().blocks, vec![sliced]);
}

#[test]
fn a_segment_of_one_row_is_small() {
    let bytes = encode(&header(), &[small()], Compression::Always).unwrap();
    assert!(bytes.len() < 1_200, "{} bytes", bytes.len());
}

#[test]
fn every_flipped_byte_and_every_cut_is_an_error_with_the_key() {
    let bytes = encode(&header(), &[small(), every_small()], Compression::Always).unwrap();
    for i in 0..bytes.len() {
        let mut bad = bytes.to_vec();
        bad[i] ^= [0x01, 0x80, 0xff][i % 3];
        let e = decode("log/w/1", &Bytes::from(bad)).unwrap_err();
        assert!(matches!(e.kind(), Kind::Corrupt | Kind::Unsupported), "byte {i}: {e:?}");
        assert_eq!(e.context("key"), Some("log/w/1"));
        assert_eq!(decode("k", &bytes.slice(..i)).unwrap_err().kind(), Kind::Corrupt, "cut at {i}");
    }
    let longer = Bytes::from([bytes.as_ref(), &[0]].concat());
    assert_eq!(decode("k", &longer).unwrap_err().kind(), Kind::Corrupt);
}

fn every_small() -> Block {
    let mut block = every_type();
    block.rows = block.rows.slice(1, 2);
    block
}

#[test]
fn a_newer_version_is_named() {
    let mut bytes = encode(&header(), &[small()], Compression::Always).unwrap().to_vec();
    bytes[8] = 2;
    let e = decode("log/w/1", &Bytes::from(bytes)).unwrap_err();
    assert_eq!(e.kind(), Kind::Unsupported);
    assert_eq!(e.context("found"), Some("version 2, flags 0"));
    assert_eq!(e.context("known"), Some("version 1, flags 1"));
}

/// Changes the raw body of the only block and recomputes the checksums.
fn forge(change: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let block = every_small();
    let bytes = encode(&header(), std::slice::from_ref(&block), Compression::Always).unwrap();
    let entry = Entry::at(&bytes, HEADER);
    let start = HEADER + ENTRY + 4;
    let mut raw = ipc::decompress(&bytes[start..], entry.raw, MAX_RAW).unwrap().to_vec();
    change(&mut raw);
    let stored = ipc::compress(&raw).unwrap();
    let mut out = bytes[..HEADER + ENTRY].to_vec();
    out[HEADER + 12..HEADER + 16].copy_from_slice(&crc32fast::hash(&stored).to_le_bytes());
    out[HEADER + 24..HEADER + 28].copy_from_slice(&(stored.len() as u32).to_le_bytes());
    out[HEADER + 28..HEADER + 32].copy_from_slice(&(raw.len() as u32).to_le_bytes());
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(&stored);
    Bytes::from(out)
}

#[test]
fn a_forged_body_with_right_checksums_never_panics() {
    let raw_len = {
        let mut n = 0;
        assert!(decode("k", &forge(|raw| n = raw.len())).is_ok());
        n
    };
    for i in (0..raw_len).step_by(3) {
        if let Err(e) = decode("k", &forge(|raw| raw[i] ^= [0x01, 0x40, 0xff][i % 7 % 3])) {
            assert_eq!(e.kind(), Kind::Corrupt, "byte {i}: {e:?}");
        }
    }
    assert_eq!(decode("k", &forge(|raw| raw.truncate(4))).unwrap_err().kind(), Kind::Corrupt);
    assert_eq!(decode("k", &forge(Vec::clear)).unwrap_err().kind(), Kind::Corrupt);
}

#[test]
fn united_blocks_hold_every_row_in_order_and_the_first_tags() {
    let ints = |v: &[i32]| Arc::new(Int32Array::from(v.to_vec())) as ArrayRef;
    let tag = |v: Vec<Option<i32>>| vec![(9, Arc::new(Int32Array::from(v)) as ArrayRef)];
    let a = block(1, series(&["x", "y"], tag(vec![None, Some(2)])), &[1, 0], &[1, 2], vec![(1, ints(&[10, 11]))]);
    let other = small();
    let b = block(
        1,
        series(&["z", "x", "y"], tag(vec![Some(5), Some(6), Some(7)])),
        &[0, 1, 2],
        &[3, 4, 5],
        vec![(2, ints(&[20, 21, 22])), (1, Arc::new(Int64Array::from(vec![Some(1 << 40), None, Some(3)])))],
    );
    let other = Block { table: TableId(8), ..other };
    let united = concat_blocks(vec![a, other.clone(), b]).unwrap();
    assert_eq!(united[1], other);
    let expected = block(
        1,
        series(&["x", "y", "z"], tag(vec![Some(6), Some(2), Some(5)])),
        &[1, 0, 2, 0, 1],
        &[1, 2, 3, 4, 5],
        vec![
            (1, Arc::new(Int64Array::from(vec![Some(10), Some(11), Some(1 << 40), None, Some(3)]))),
            (2, Arc::new(Int32Array::from(vec![None, None, Some(20), Some(21), Some(22)]))),
        ],
    );
    assert_eq!(united[0], expected);
    assert_eq!(concat_blocks(vec![]).unwrap(), vec![]);
}

#[test]
fn a_tag_that_only_some_blocks_carry_is_united() {
    let of = |names: &[&str], tags| block(1, series(names, tags), &[0], &[1], vec![]);
    let a = of(&["x"], vec![]);
    let b = of(&["y", "x"], vec![(4, Arc::new(StringArray::from(vec![None, Some("t")])) as ArrayRef)]);
    let united = concat_blocks(vec![a, b]).unwrap().remove(0);
    assert_eq!(united.series, series(&["x", "y"], vec![(4, Arc::new(StringArray::from(vec![Some("t"), None])))]));
}

#[test]
fn incompatible_types_are_rejected() {
    let a = block(1, series(&["x"], vec![]), &[0], &[1], vec![(1, Arc::new(Int32Array::from(vec![1])))]);
    let b = block(1, series(&["x"], vec![]), &[0], &[1], vec![(1, Arc::new(StringArray::from(vec!["1"])))]);
    assert_eq!(concat_blocks(vec![a, b]).unwrap_err().kind(), Kind::Internal);
}

#[test]
fn small_bodies_are_stored_and_large_ones_compressed() {
    for (rows, stored) in [(1, true), (100, true), (2_000, false)] {
        let ts: Vec<i64> = (0..rows).collect();
        let block = block(1, series(&["a"], vec![]), &vec![0; ts.len()], &ts, vec![]);
        let bytes = encode(&header(), std::slice::from_ref(&block), Compression::Always).unwrap();
        let (stored_len, raw) = lens(&bytes);
        assert_eq!(stored_len > raw, stored, "{rows} rows: {raw} bytes as {stored_len}");
        let segment = decode("log/w/1", &bytes).unwrap();
        assert_eq!(segment.blocks[0].rows, block.rows);
    }
}

/// Stored and raw length of the only block.
fn lens(segment: &[u8]) -> (usize, usize) {
    let entry = Entry::at(segment, HEADER);
    (entry.stored, entry.raw)
}

/// `rows` texts of 1 000 bytes, drawn from `of` distinct ones.
fn texts(rows: usize, of: usize) -> Block {
    let mut random = StdRng::seed_from_u64(3);
    let mut text = || -> String { (0..1_000).map(|_| char::from(random.random_range(b' '..=b'~'))).collect() };
    let drawn: Vec<String> = (0..of).map(|_| text()).collect();
    let column = StringArray::from_iter((0..rows).map(|i| (i % 7 != 0).then(|| &drawn[i % of])));
    let ts: Vec<i64> = (0..rows as i64).collect();
    block(
        1,
        series(&["a", "b"], vec![]),
        &vec![1; rows],
        &ts,
        vec![(1, Arc::new(column)), (2, Arc::new(Int64Array::from(ts.clone())))],
    )
}

#[test]
fn large_bodies_that_compress_badly_are_stored_uncompressed_if_compression_must_pay() {
    // Small enough to be compressed in any case; texts without repetition; texts that repeat far away and nearby.
    for (rows, of, pays) in
        [(2_000, 2_000, true), (9_000, 9_000, false), (19_000, 19_000, false), (9_000, 400, true), (19_000, 10, true)]
    {
        let block = texts(rows, of);
        let [always, where_pays] = [Compression::Always, Compression::WherePays]
            .map(|compression| encode(&header(), std::slice::from_ref(&block), compression).unwrap());
        for bytes in [&always, &where_pays] {
            assert!(decode("k", bytes).unwrap().blocks == [block.clone()], "{rows} rows of {of} texts");
        }
        let ((compressed, raw), (stored, same)) = (lens(&always), lens(&where_pays));
        assert_eq!(raw, same);
        assert!(compressed < raw, "{rows} rows of {of} texts: {compressed} of {raw} bytes");
        assert_eq!(stored == compressed, pays, "{rows} rows of {of} texts: {stored} bytes, {compressed} compressed");
        assert!(pays || stored < raw + raw / 10_000, "{rows} rows of {of} texts: {stored} of {raw} bytes");
        // The result of another decoder, and the layout of the specification.
        let frame = &where_pays[HEADER + ENTRY + 4..];
        let content = zstd::stream::decode_all(frame).unwrap();
        assert_eq!(content.len(), raw);
        let (mut gathered, mut written) = (Vec::new(), Vec::new());
        let narrow = narrow::narrowed(&block.rows).unwrap();
        ipc::parts(&narrow).unwrap().iter().for_each(|part| gathered.extend_from_slice(part));
        ipc::write(&narrow, &mut written).unwrap();
        assert!(gathered == written && content.ends_with(&written), "{rows} rows of {of} texts");
    }
}

#[test]
fn a_body_that_is_too_large_is_refused() {
    let (offsets, zeros) = (OffsetBuffer::from_lengths([1 << 29, 1 << 29]), Buffer::from(vec![0_u8; 1 << 30]));
    let column: ArrayRef = Arc::new(BinaryArray::new(offsets, zeros, None));
    let block = block(7, series(&["a"], vec![]), &[0, 0], &[1, 2], vec![(1, column)]);
    let error = encode(&header(), &[block], Compression::WherePays).unwrap_err();
    assert_eq!((error.kind(), error.context("table")), (Kind::Invalid, Some("7")));
}

/// The rows of the only block as they are stored.
fn stored_rows(segment: &[u8]) -> RecordBatch {
    let raw = ipc::decompress(&segment[HEADER + ENTRY + 4..], Entry::at(segment, HEADER).raw, MAX_RAW).unwrap();
    ipc::read(raw.slice(8 + u64_at(&raw, 0) as usize)).unwrap()
}

#[test]
fn integers_are_stored_in_the_narrowest_type_and_read_in_their_own() {
    let mut random = StdRng::seed_from_u64(35);
    let of_kind = |signed: bool| match signed {
        true => [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64],
        false => [DataType::UInt8, DataType::UInt16, DataType::UInt32, DataType::UInt64],
    };
    let limits = |bits: u32, signed: bool| match signed {
        true => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
        false => (0, (1_i128 << bits) - 1),
    };
    for round in 0..300 {
        let rows = random.random_range(64..400);
        let mut fields: Vec<(u32, ArrayRef)> = Vec::new();
        let mut narrowest = Vec::new();
        for signed in [true, false] {
            for (size, data_type) in of_kind(signed).into_iter().enumerate() {
                let bits = 8 << size;
                let (least, most) = limits(random.random_range(1..=bits), signed);
                let nulls = if random.random() { 0.0 } else { 0.3 };
                let mut values: Vec<Option<i128>> = (0..rows)
                    .map(|_| (!random.random_bool(nulls)).then(|| random.random_range(least..=most)))
                    .collect();
                // The ends of a type often enough.
                values[0] = Some(if random.random() { least } else { most });
                let fits = |bits: u32| {
                    let (least, most) = limits(bits, signed);
                    values.iter().flatten().all(|v| (least..=most).contains(v))
                };
                let smallest = [8, 16, 32, 64].into_iter().position(fits).unwrap();
                narrowest.push((of_kind(signed)[smallest].clone(), smallest < size));
                let texts = StringArray::from_iter(values.iter().map(|v| v.map(|v| v.to_string())));
                fields.push((fields.len() as u32 + 1, arrow::compute::cast(&texts, &data_type).unwrap()));
            }
        }
        let mut block = block(1, series(&["a"], vec![]), &vec![0; rows], &vec![5; rows], fields);
        let sliced = if round % 2 == 0 { 0 } else { random.random_range(0..=rows - 64) };
        block.rows = block.rows.slice(sliced, rows - sliced);
        let bytes = encode(&header(), std::slice::from_ref(&block), Compression::Always).unwrap();
        assert_eq!(decode("k", &bytes).unwrap().blocks, [block], "round {round}");
        if sliced == 0 {
            let stored = stored_rows(&bytes).schema();
            let fields = stored.fields().iter().skip(2);
            let found: Vec<_> = fields.map(|f| (f.data_type().clone(), f.metadata().contains_key("bits"))).collect();
            assert_eq!(found, narrowest, "round {round}");
        }
    }
}

#[test]
fn integers_of_few_rows_and_under_nulls_are_read_as_they_were() {
    for rows in [1, 63, 64, 65] {
        let values: Vec<i64> = (0..rows).map(|n| if n % 3 == 0 { i64::MIN + n } else { n }).collect();
        let valid = arrow::buffer::NullBuffer::from_iter((0..rows).map(|n| n % 3 != 0));
        let hidden: ArrayRef = Arc::new(Int64Array::new(values.into(), Some(valid)));
        let small: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let count = rows as usize;
        let block = block(1, series(&["a"], vec![]), &vec![0; count], &vec![5; count], vec![(1, hidden), (2, small)]);
        let bytes = encode(&header(), std::slice::from_ref(&block), Compression::Always).unwrap();
        let stored = stored_rows(&bytes);
        assert_eq!(*stored.column(2).data_type(), DataType::Int64, "a value under a null is kept: {rows} rows");
        assert_eq!(*stored.column(3).data_type() == DataType::Int8, rows >= 64, "{rows} rows");
        assert_eq!(decode("k", &bytes).unwrap().blocks, [block]);
    }
}

#[test]
fn integers_wider_than_the_limit_of_a_block_are_corrupt() {
    let zeros: ArrayRef = Arc::new(Int64Array::from(vec![0; 100]));
    let block = block(1, series(&["a"], vec![]), &[0; 100], &[5; 100], vec![(1, zeros.clone()), (2, zeros)]);
    let narrow = narrow::narrowed(&block.rows).unwrap();
    assert_eq!(narrow::widened(narrow.clone(), 1_600).unwrap(), block.rows);
    let error = narrow::widened(narrow, 1_599).unwrap_err();
    assert_eq!((error.kind(), error.context("found")), (Kind::Corrupt, Some("1600")));
}

#[test]
fn a_width_that_a_column_cannot_have_is_corrupt() {
    let ints: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let floats: ArrayRef = Arc::new(Float64Array::from_iter_values((0..100).map(f64::from)));
    for (column, bits) in [(&ints, "8"), (&ints, "64"), (&ints, "x"), (&floats, "64")] {
        let mut block = block(1, series(&["a"], vec![]), &[0; 100], &[5; 100], vec![(1, column.clone())]);
        let field = |field: &Field| match field.name().as_str() {
            "f1" => field.clone().with_metadata(
                [field.metadata().clone(), [("bits".to_owned(), bits.to_owned())].into()]
                    .into_iter()
                    .flatten()
                    .collect(),
            ),
            _ => field.clone(),
        };
        let schema = Schema::new(block.rows.schema().fields().iter().map(|f| field(f)).collect::<Vec<_>>());
        block.rows = RecordBatch::try_new(Arc::new(schema), block.rows.columns().to_vec()).unwrap();
        let error = narrow::widened(block.rows, MAX_RAW).unwrap_err();
        assert_eq!((error.kind(), error.context("bits")), (Kind::Corrupt, Some(bits)));
        assert_eq!(error.context("column"), Some("f1"));
    }
}
