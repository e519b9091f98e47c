//! Analyses that expire, and cannot be repeated. No server is involved.

use super::*;
use crate::pool::Pool;
use crate::testing;

const SETTINGS: u64 = 0;

struct Scene {
    pool: Arc<Pool>,
    template: Arc<Template>,
}

impl Scene {
    fn new() -> Self {
        let pool = testing::pool();
        let template = pool.shared.templates.prepared("SELECT 1 FROM t", &[]);
        Self { pool, template }
    }

    fn state(&self) -> AnalysisState {
        self.pool.analysis(&self.template, SETTINGS).0
    }

    /// Ends an analysis; the statement has the same meaning on other servers with this table.
    fn end(&self, table: Option<u32>) {
        let result = TemplateAnalysis {
            portable_table: table,
            ..TemplateAnalysis::refused("no plan")
        };
        self.pool
            .end_analysis(&self.template, SETTINGS, Some(result));
    }

    /// Ends an analysis without a result.
    fn fail(&self) {
        self.pool.end_analysis(&self.template, SETTINGS, None);
    }

    /// The table of the last result, which shards use until there is another.
    fn of_shards(&self) -> Option<u32> {
        let last = self.pool.last_analysis(self.template.id, SETTINGS);
        last?.portable_table
    }
}

async fn pass(time: Duration) {
    tokio::time::advance(time + Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn shards_use_an_analysis_until_there_is_another() {
    let scene = Scene::new();
    assert!(matches!(scene.state(), AnalysisState::Needed));
    assert_eq!(scene.of_shards(), None);
    scene.end(Some(7));
    assert!(matches!(scene.state(), AnalysisState::Done(_)));
    pass(REFUSAL_LASTS).await;
    // The table is locked, or there is no connection.
    for round in 0..10 {
        // At first its answer is awaited.
        let of_shards = (round > 0).then_some(7);
        assert!(matches!(scene.state(), AnalysisState::Needed));
        assert_eq!(scene.of_shards(), of_shards);
        scene.pool.analysis_started(scene.template.id, SETTINGS);
        assert_eq!(scene.of_shards(), of_shards);
        scene.fail();
        assert!(matches!(scene.state(), AnalysisState::Pending));
        assert_eq!(scene.of_shards(), Some(7));
        pass(RETRIED_AFTER).await;
    }
    assert!(matches!(scene.state(), AnalysisState::Needed));
    scene.end(None);
    assert!(matches!(scene.state(), AnalysisState::Done(_)));
    assert_eq!(scene.of_shards(), None);
    pass(REFUSAL_LASTS).await;
    assert!(matches!(scene.state(), AnalysisState::Needed));
    assert_eq!(scene.of_shards(), None);
    scene.fail();
    assert!(matches!(scene.state(), AnalysisState::Needed));
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_analysis_is_used_no_more() {
    let scene = Scene::new();
    let forget: [fn(&Scene); 2] = [
        |scene| scene.pool.forget_analyses(),
        |scene| scene.pool.set_analysis(scene.template.id, SETTINGS, None),
    ];
    for forget in forget {
        scene.state();
        scene.end(Some(7));
        pass(REFUSAL_LASTS).await;
        assert!(matches!(scene.state(), AnalysisState::Needed));
        scene.fail();
        assert_eq!(scene.of_shards(), Some(7));
        forget(&scene);
        assert_eq!(scene.of_shards(), None);
        scene.fail();
        assert_eq!(scene.of_shards(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn shards_use_the_last_analysis_if_the_next_one_takes_long() {
    let scene = Scene::new();
    scene.state();
    scene.end(Some(7));
    pass(REFUSAL_LASTS).await;
    assert!(matches!(scene.state(), AnalysisState::Needed));
    assert_eq!(scene.of_shards(), None);
    let state = scene.pool.analysis_ended(&scene.template, SETTINGS).await;
    assert!(matches!(state, AnalysisState::Pending));
    assert_eq!(scene.of_shards(), Some(7));
    // Then no request waits.
    let waits = scene.pool.analysis_ended(&scene.template, SETTINGS);
    assert!(tokio::time::timeout(Duration::ZERO, waits).await.is_ok());
}
