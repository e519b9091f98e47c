//! Contrast of the colours in the style sheet.

use super::STYLE;
use std::collections::BTreeMap;

/// The colours of a theme, by name.
fn colours(theme: &str) -> BTreeMap<&str, [f64; 3]> {
    let pairs = theme
        .split(['{', ';', '}'])
        .filter_map(|pair| pair.trim().split_once(": #"));
    pairs
        .filter_map(|(name, hex)| {
            let hex = if hex.len() == 3 {
                hex.repeat(2)
            } else {
                hex.to_owned()
            };
            let part = |at: usize| {
                u8::from_str_radix(hex.get(at..at + 2)?, 16)
                    .ok()
                    .map(f64::from)
            };
            Some((name, [part(0)?, part(2)?, part(4)?]))
        })
        .collect()
}

/// Contrast ratio as WCAG 2 defines it.
fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let luminance = |colour: [f64; 3]| {
        let linear = colour.map(|part| match part / 255.0 {
            part if part <= 0.040_45 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        });
        0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    };
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn text_has_sufficient_contrast() {
    let (light, dark) = STYLE
        .split_once("@media (prefers-color-scheme: dark)")
        .unwrap();
    let (dark, _) = dark.split_once(".c0 {").unwrap();
    let pairs = [
        ("--text", "--panel"),
        ("--text", "--page"),
        ("--soft", "--panel"),
        ("--soft", "--page"),
        ("--link", "--page"),
        ("--good", "--good-page"),
        ("--good", "--panel"),
        ("--bad", "--bad-page"),
        ("--bad-text", "--panel"),
        ("--bad-text", "--page"),
        ("--warn", "--warn-page"),
        ("--warn", "--page"),
        ("--c0", "--panel"),
        ("--c1", "--panel"),
        ("--c2", "--panel"),
        ("--c3", "--panel"),
        ("--c4", "--panel"),
        ("--c5", "--panel"),
        ("--c0", "--page"),
        ("--c1", "--page"),
        ("--c2", "--page"),
        ("--c3", "--page"),
        ("--c4", "--page"),
        ("--c5", "--page"),
    ];
    for (theme, colours) in [("light", colours(light)), ("dark", colours(dark))] {
        for (text, background) in pairs {
            let contrast = contrast(colours[text], colours[background]);
            assert!(
                contrast >= 4.5,
                "{theme}: {text} on {background} has {contrast:.2}"
            );
        }
    }
}
