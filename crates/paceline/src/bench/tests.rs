//! What is made of kept records, and what is said of files that hold none.

use super::*;
use std::path::PathBuf;

/// A folder of its own for one test, removed afterwards.
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
fn what_got_slower_fails_only_if_asked() {
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
fn a_page_is_made_of_records() {
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
fn what_is_no_record_is_told_with_its_file_and_line() {
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
fn the_first_record_that_could_not_be_written_is_not_forgotten() {
    // Read only: the first is refused, and the next, with another file, would be written.
    let folder = Folder::new("unwritten");
    let file = folder.file("results.jsonl", "");
    let mut kept = Kept {
        records: Vec::new(),
        file: None,
        stand: Vec::new(),
        unwritten: None,
    };
    let record = paceline_bench::read_lines(&line(1, 1_000.0))
        .unwrap()
        .remove(0);
    kept.file = Some(File::open(&file).unwrap());
    kept.add(&record);
    kept.file = Some(open(&file).unwrap());
    kept.add(&record);
    assert_eq!(kept.records.len(), 2);
    assert!(kept.tell(None).is_err());
}
