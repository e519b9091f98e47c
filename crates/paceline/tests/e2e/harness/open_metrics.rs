//! A strict reader of OpenMetrics text: whatever the specification does not allow fails the test.

use std::collections::{BTreeMap, BTreeSet};

type Labels = BTreeMap<String, String>;

/// A scrape that was read.
#[derive(Debug, Default)]
pub(crate) struct Scrape {
    samples: BTreeMap<(String, Labels), f64>,
    kinds: BTreeMap<String, String>,
}

impl Scrape {
    /// Reads a text to its end.
    #[track_caller]
    pub(crate) fn read(text: &str) -> Self {
        let body = text.strip_suffix("# EOF\n").unwrap();
        let (mut scrape, mut family) = (Self::default(), String::new());
        for line in body.lines() {
            match line.strip_prefix("# ") {
                Some(comment) => scrape.read_comment(comment, &mut family),
                None => scrape.read_sample(line, &family),
            }
        }
        scrape.check_histograms();
        scrape
    }

    /// HELP, then TYPE, once for each family.
    #[track_caller]
    fn read_comment(&mut self, comment: &str, family: &mut String) {
        let mut words = comment.splitn(3, ' ');
        let [word, name, rest] = [(); 3].map(|()| words.next().unwrap_or_default());
        assert!(is_name(name), "{comment}");
        match word {
            "HELP" => {
                assert!(rest.ends_with('.'), "{comment}");
                *family = name.to_owned();
            }
            "TYPE" => {
                assert_eq!(name, family, "{comment}");
                let before = self.kinds.insert(name.to_owned(), rest.to_owned());
                assert_eq!(before, None, "{name} is there twice");
            }
            _ => panic!("{comment}"),
        }
    }

    #[track_caller]
    fn read_sample(&mut self, line: &str, family: &str) {
        let (name, labels, value) = sample(line);
        let kind = self.kinds.get(family).map(String::as_str);
        let allowed: &[&str] = match kind {
            Some("counter") => &["_total"],
            Some("gauge") => &[""],
            Some("histogram") => &["_bucket", "_sum", "_count"],
            Some("info") => &["_info"],
            _ => panic!("{line}: {kind:?}"),
        };
        let suffix = name.strip_prefix(family);
        let fits = suffix.is_some_and(|suffix| allowed.contains(&suffix));
        assert!(fits, "{line}: not of {family}, a {kind:?}");
        assert!(kind == Some("gauge") || value >= 0.0, "{line}");
        let before = self.samples.insert((name, labels), value);
        assert_eq!(before, None, "{line}: is there twice");
    }

    /// Buckets rise, and the last one holds all.
    #[track_caller]
    fn check_histograms(&self) {
        for ((name, labels), count) in &self.samples {
            let Some(family) = name.strip_suffix("_count") else {
                continue;
            };
            let bucket = format!("{family}_bucket");
            let of_it = self.samples.iter().filter_map(|((name, with), value)| {
                let mut with = with.clone();
                let bound = with.remove("le")?;
                let bound = bound.replace("+Inf", "inf").parse::<f64>().unwrap();
                (*name == bucket && with == *labels).then_some((bound, *value))
            });
            let mut buckets: Vec<(f64, f64)> = of_it.collect();
            buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            assert!(buckets.is_sorted_by(|(_, a), (_, b)| a <= b), "{buckets:?}");
            assert_eq!(buckets.last(), Some(&(f64::INFINITY, *count)), "{name}");
        }
    }

    /// The value of the sample with exactly these labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        self.samples
            .get(&(name.to_owned(), labels.collect()))
            .copied()
    }

    /// The sum of all samples of this name that have these labels.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |with: &Labels| {
            let mut wanted = labels.iter();
            wanted.all(|(k, v)| with.get(*k).is_some_and(|value| value == v))
        };
        let samples = self.samples.iter();
        let chosen = samples.filter(|((sample, with), _)| sample == name && has(with));
        chosen.map(|(_, value)| value).sum()
    }

    /// The values of a label.
    pub(crate) fn labels(&self, name: &str) -> BTreeSet<&str> {
        let values = self
            .samples
            .keys()
            .filter_map(|(_, labels)| labels.get(name));
        values.map(String::as_str).collect()
    }
}

/// `name{label="value",…} value`
#[track_caller]
fn sample(line: &str) -> (String, Labels, f64) {
    let (head, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
    let (name, rest) = head.split_at(head.find('{').unwrap_or(head.len()));
    assert!(is_name(name), "{line}");
    let mut labels = Labels::new();
    let mut rest = match rest {
        "" => return (name.to_owned(), labels, value),
        rest => rest.strip_prefix('{').unwrap(),
    };
    loop {
        let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        assert!(is_name(label), "{line}");
        let (text, after) = quoted(after).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(labels.insert(label.to_owned(), text), None, "{line}");
        rest = match after.strip_prefix(',') {
            Some(next) => next,
            None => break assert_eq!(after, "}", "{line}"),
        };
    }
    (name.to_owned(), labels, value)
}

fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    !text.is_empty() && text.chars().all(fits) && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// The text up to the closing quote, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut found, mut chars) = (String::new(), text.chars());
    loop {
        match chars.next()? {
            '"' => return Some((found, chars.as_str())),
            '\\' => found.push(match chars.next()? {
                'n' => '\n',
                c @ ('\\' | '"') => c,
                _ => return None,
            }),
            c => found.push(c),
        }
    }
}
