//! What a pool shows of templates that it forgets and meets again. No server is asked.

use super::super::Analysis;
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

    /// A unit of the template is carried out alone.
    fn run(&self, text: &str) -> Analysis {
        let (analysis, tally) = self.pool.analysis(&self.template(text), 0);
        tally.count_alone();
        analysis
    }

    /// PostgreSQL has answered.
    fn learn(&self, text: &str, plan: &str) {
        let learned = TemplateAnalysis::refused(plan);
        self.pool
            .set_analysis(self.template(text).id, 0, Some(learned));
    }

    /// Units and reason of a template's only row.
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
fn the_reason_is_what_was_learned() {
    let scene = Scene::new();
    assert!(matches!(scene.run(HOT), Analysis::Needed));
    assert!(matches!(scene.run(HOT), Analysis::Pending));
    assert_eq!(scene.shown(HOT), units(2, Some(NOT_ANALYZED)));
    scene.pool.analysis_started(scene.template(HOT).id, 0);
    assert!(matches!(scene.run(HOT), Analysis::Running));
    scene.learn(HOT, "of its shape");
    assert!(matches!(scene.run(HOT), Analysis::Done(_)));
    assert_eq!(scene.shown(HOT), units(4, Some("of its shape")));
}

/// Nothing is lost of what was counted, and a forgotten template that is used again is shown again.
#[test]
fn a_template_that_is_used_again_is_counted_again() {
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
    assert!(matches!(scene.run(RARE), Analysis::Done(_)));
    assert_eq!(scene.shown(RARE), units(1, Some("seldom")));
}

/// What was learned of it stays; that alone must not keep its tally.
#[test]
fn a_forgotten_tally_goes_when_nobody_counts_on_it() {
    let scene = Scene::new();
    let tally = scene.pool.analysis(&scene.template(RARE), 0).1;
    let forgotten = Arc::downgrade(&tally);
    drop(tally);
    (0..=TEMPLATES_MAX).for_each(|n| drop(scene.run(&format!("once{n}"))));
    assert!(forgotten.upgrade().is_none());
}

/// Its text may hold what is nobody else's business.
#[test]
fn the_console_calls_templates_without_the_values_in_them() {
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
