//! Reports and comparisons of records, and errors of files without records.

use super::*;
use std::path::PathBuf;

/// A folder for one test. Dropping it removes the folder.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("paceline-bench-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A line of `results.jsonl`, as docs/lab.md shows it.
fn line(round: usize, rate: f64) -> String {
    let docs = include_str!("../../../../docs/lab.md");
    let (_, example) = docs.split_once("```json\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let mut records = paceline_bench::read_lines(&example.replace('\n', " ")).unwrap();
    let mut record = records.remove(0);
    record.round = round;
    match &mut record.result {
        paceline_bench::RunResult::Ran(ran) => ran.rate = rate,
        paceline_bench::RunResult::Failed { .. } => panic!("the example ran"),
    }
    record.to_line().unwrap() + "\n"
}

#[test]
fn slower_results_fail_only_with_fail_on_slower() {
    let folder = Folder::new("slower");
    let fast = folder.file("fast.jsonl", &(line(1, 1_000.0) + &line(2, 1_010.0)));
    let slow = folder.file("slow.jsonl", &(line(1, 500.0) + &line(2, 510.0)));
    let compared = |before: &PathBuf, after: &PathBuf, fail_on_slower| {
        let (before, after) = (before.clone(), after.clone());
        let order = Compare {
            before,
            after,
            fail_on_slower,
        };
        compare(&order).unwrap()
    };
    assert_eq!(compared(&fast, &slow, false), ExitCode::SUCCESS);
    assert_eq!(compared(&fast, &slow, true), ExitCode::FAILURE);
    assert_eq!(compared(&slow, &fast, true), ExitCode::SUCCESS);
}

#[test]
fn a_report_is_written() {
    let folder = Folder::new("page");
    let html = folder.0.join("page.html");
    let records = folder.file("results.jsonl", &line(1, 1_000.0));
    let order = Report {
        records,
        html: html.clone(),
    };
    report(&order).unwrap();
    assert!(
        std::fs::read_to_string(html)
            .unwrap()
            .contains("Nothing lost")
    );
}

#[test]
fn an_invalid_record_is_reported_with_file_and_line() {
    let folder = Folder::new("no-record");
    let good = line(1, 1_000.0);
    let cases = [
        (String::new(), "results.jsonl holds no records"),
        (
            good.clone() + "\n{\"version\":1}\n",
            "results.jsonl, line 3: not a record: missing field",
        ),
        (
            good.replace("\"version\":1,", "\"version\":7,"),
            "results.jsonl, line 1: not a record: version 7",
        ),
    ];
    for (text, complaint) in cases {
        let error = read(&folder.file("results.jsonl", &text)).unwrap_err();
        assert!(format!("{error:#}").contains(complaint), "{error:#}");
    }
    let error = read(&folder.0.join("nowhere.jsonl")).unwrap_err();
    assert!(format!("{error:#}").contains("cannot read"), "{error:#}");
}

#[test]
fn the_first_write_error_is_reported() {
    // The first file is read-only, so writing fails. The second one could be written.
    let folder = Folder::new("unwritten");
    let file = folder.file("results.jsonl", "");
    let mut results = Results {
        records: Vec::new(),
        file: None,
        paceline_settings: Vec::new(),
        write_error: None,
    };
    let record = paceline_bench::read_lines(&line(1, 1_000.0))
        .unwrap()
        .remove(0);
    results.file = Some(File::open(&file).unwrap());
    results.add(&record);
    results.file = Some(open(&file).unwrap());
    results.add(&record);
    assert_eq!(results.records.len(), 2);
    assert!(results.show(None).is_err());
}
