//! The statistics of templates that a pool drops and uses again. No server is involved.

use super::super::AnalysisState;
use super::*;
use crate::testing;
use paceline_batch::template_stats::TEMPLATES_MAX;
use paceline_relay::template::Template;

struct Scene {
    pool: Arc<Pool>,
}

impl Scene {
    fn new() -> Self {
        Self {
            pool: testing::pool(),
        }
    }

    fn template(&self, text: &str) -> Arc<Template> {
        self.pool.shared.templates.prepared(text, &[0, 0])
    }

    /// Counts a request of the template that is relayed alone.
    fn run(&self, text: &str) -> AnalysisState {
        let (analysis, tally) = self.pool.analysis(&self.template(text), 0);
        tally.count_alone();
        analysis
    }

    /// Sets the result of an analysis.
    fn learn(&self, text: &str, plan: &str) {
        let learned = TemplateAnalysis::refused(plan);
        self.pool
            .set_analysis(self.template(text).id, 0, Some(learned));
    }

    /// Requests and reason of a template's only row.
    fn shown(&self, template: &str) -> Option<(String, Option<String>)> {
        let rows = self.pool.groups(TemplateNaming::Text).rows;
        let mut of_it = rows
            .into_iter()
            .filter(|row| row[0].as_deref() == Some(template));
        let row = of_it.next()?;
        assert!(of_it.next().is_none(), "{template} is there twice");
        Some((row[2].clone().unwrap(), row[11].clone()))
    }
}

fn units(units: usize, reason: Option<&str>) -> Option<(String, Option<String>)> {
    Some((units.to_string(), reason.map(str::to_owned)))
}

const HOT: &str = "DELETE FROM hot";
const RARE: &str = "DELETE FROM rare";

#[test]
fn the_reason_is_that_of_the_analysis() {
    let scene = Scene::new();
    assert!(matches!(scene.run(HOT), AnalysisState::Needed));
    assert!(matches!(scene.run(HOT), AnalysisState::Pending));
    assert_eq!(scene.shown(HOT), units(2, Some(NOT_ANALYZED)));
    scene.pool.analysis_started(scene.template(HOT).id, 0);
    assert!(matches!(scene.run(HOT), AnalysisState::Running));
    scene.learn(HOT, "of its shape");
    assert!(matches!(scene.run(HOT), AnalysisState::Done(_)));
    assert_eq!(scene.shown(HOT), units(4, Some("of its shape")));
}

/// No counts are lost, and a dropped template that is used again is shown again.
#[test]
fn a_dropped_template_is_counted_again() {
    let scene = Scene::new();
    scene.run(RARE);
    scene.learn(RARE, "seldom");
    (0..5).for_each(|_| drop(scene.run(HOT)));
    for n in 0..TEMPLATES_MAX {
        let text = format!("once {n}");
        scene.run(&text);
        scene.run(&text);
    }
    assert_eq!(scene.shown(RARE), None);
    assert_eq!(scene.shown(HOT), units(5, Some(NOT_ANALYZED)));
    let rows = scene.pool.groups(TemplateNaming::Text).rows;
    let all: usize = rows
        .iter()
        .map(|row| row[2].as_ref().unwrap().parse::<usize>().unwrap())
        .sum();
    assert_eq!(all, 1 + 5 + 2 * TEMPLATES_MAX);
    assert!(scene.shown("(other templates)").is_some());
    assert!(matches!(scene.run(RARE), AnalysisState::Done(_)));
    assert_eq!(scene.shown(RARE), units(1, Some("seldom")));
}

/// A cached analysis must not keep the statistics of its template.
#[test]
fn dropped_statistics_are_freed_when_they_are_not_used() {
    let scene = Scene::new();
    let tally = scene.pool.analysis(&scene.template(RARE), 0).1;
    let forgotten = Arc::downgrade(&tally);
    drop(tally);
    (0..=TEMPLATES_MAX).for_each(|n| drop(scene.run(&format!("once{n}"))));
    assert!(forgotten.upgrade().is_none());
}

/// The text may contain confidential constants.
#[test]
fn the_console_shows_templates_without_constants() {
    let scene = Scene::new();
    scene.run("DELETE FROM cards WHERE pin = '4711'");
    let called = |called| scene.pool.groups(called).rows[0][0].clone().unwrap();
    assert!(called(TemplateNaming::Text).contains("4711"));
    let name = called(TemplateNaming::MetricName);
    assert!(
        name.contains("DELETE FROM cards") && !name.contains("4711"),
        "{name}"
    );
}
