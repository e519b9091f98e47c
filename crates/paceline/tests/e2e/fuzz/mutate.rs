//! New inputs from old ones. Random bytes would hardly ever be a message: so messages are dropped, doubled, swapped and
//! taken from elsewhere as a whole, and after a change within one its length is mostly put right again.

use crate::harness::Rng;

/// Changes on top of one another.
const CHANGES_MAX: usize = 4;

/// No input grows beyond this (bytes).
const INPUT_MAX: usize = 16 * 1024;

/// Numbers that are likely to show a fault, as Int32.
const EDGES: [u32; 12] = [
    0,
    1,
    3,
    4,
    5,
    7,
    8,
    0x7f,
    0xffff,
    0x3fff_ffff,
    0x7fff_ffff,
    0xffff_ffff,
];

/// A message of an input: `type, length, body`, or what is left when that does not fit.
type Piece = Vec<u8>;

/// A descendant of one of the inputs.
pub(super) fn mutated(pool: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut pieces = split(rng.pick::<Vec<u8>>(pool));
    for _ in 0..=rng.below(CHANGES_MAX) {
        change(&mut pieces, pool, rng);
    }
    let mut input = pieces.concat();
    if rng.chance(10) {
        input.truncate(rng.below(input.len() + 1));
    }
    input.truncate(INPUT_MAX);
    input
}

/// An input as its messages; bytes without a header are one piece.
fn split(mut input: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    while !input.is_empty() {
        let len = length(input).filter(|len| *len <= input.len());
        let (piece, rest) = input.split_at(len.unwrap_or(input.len()));
        pieces.push(piece.to_vec());
        input = rest;
    }
    pieces
}

/// Of the message at the front, header included.
fn length(input: &[u8]) -> Option<usize> {
    let word: [u8; 4] = input.get(1..5)?.try_into().ok()?;
    let len = u32::from_be_bytes(word);
    (len >= 4).then_some(len as usize + 1)
}

fn change(pieces: &mut Vec<Piece>, pool: &[Vec<u8>], rng: &mut Rng) {
    if pieces.is_empty() {
        return pieces.push(vec![rng.next() as u8]);
    }
    let at = rng.below(pieces.len());
    match rng.below(8) {
        0 => {
            pieces.remove(at);
        }
        1 => pieces.insert(at, pieces[at].clone()),
        2 => {
            let other = rng.below(pieces.len());
            pieces.swap(at, other);
        }
        3 => {
            let others = split(rng.pick::<Vec<u8>>(pool));
            if !others.is_empty() {
                pieces.insert(at, rng.pick(&others).clone());
            }
        }
        _ => {
            change_within(&mut pieces[at], rng);
            if rng.chance(80) {
                put_length_right(&mut pieces[at]);
            }
        }
    }
}

fn change_within(piece: &mut Piece, rng: &mut Rng) {
    let at = rng.below(piece.len() + 1);
    match rng.below(6) {
        0 => piece.insert(at, rng.next() as u8),
        1 => piece.truncate(at),
        2 => {
            let copy = piece[at..].to_vec();
            piece.extend(copy);
        }
        3 => {
            let edge = rng.pick(&EDGES).to_be_bytes();
            let end = piece.len().min(at + edge.len());
            piece.splice(at..end, edge);
        }
        4 => {
            let end = piece.len().min(at + 1 + rng.below(8));
            piece.drain(at..end);
        }
        _ => {
            if let Some(byte) = piece.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
    }
}

/// Sets the length word of a message, or of a packet without a type, to its length.
fn put_length_right(piece: &mut Piece) {
    let len = piece.len() as u32;
    let (place, value) = match piece.first() {
        Some(0) => (0..4, len),
        _ => (1..5, len.wrapping_sub(1)),
    };
    if let Some(word) = piece.get_mut(place) {
        word.copy_from_slice(&value.to_be_bytes());
    }
}
