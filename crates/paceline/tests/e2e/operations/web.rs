//! The web console, in a browser and by requests that a browser would not send.

mod browser;
mod page;
mod requests;
mod shown;

use crate::harness::paceline::Paceline;
use crate::harness::{Stage, caretaker};
use std::path::PathBuf;

/// An administrator, and a user who may only look.
const ANN: (&str, &str) = ("ann", "ann's \"secret\"");
const STAN: (&str, &str) = ("stan", "watch");

/// A Paceline with a web console.
struct Scene {
    stage: Stage,
    url: String,
}

/// `None` if PostgreSQL is the target.
fn scene(settings: &[&str]) -> Option<Scene> {
    scene_with("", settings)
}

/// With this line in the list of users.
fn scene_with(user: &str, settings: &[&str]) -> Option<Scene> {
    let file = users(user);
    let builder = Stage::on_shared()
        .set("web_console_listen=127.0.0.1:0")
        .set("admin_users=ann, absent")
        .set("stats_users=stan, sam")
        .set(&format!("auth_file={}", file.display()));
    let builder = settings
        .iter()
        .fold(builder, |builder, setting| builder.set(setting));
    let mut stage = builder.open();
    let url = stage.paceline()?.web_console();
    Some(Scene { stage, url })
}

/// A list of users: one with a plain password, one with an md5 password, and those of the tests' other clients.
fn users(more: &str) -> PathBuf {
    let folder = caretaker::folder("web");
    let file = folder.join("users.txt");
    let plain = ANN.1.replace('"', "\"\"");
    let md5 = paceline_wire::md5::stored(STAN.0, STAN.1.as_bytes());
    let lines = [
        format!("\"ann\" \"{plain}\""),
        format!("\"stan\" \"{md5}\""),
        "\"postgres\" \"unused\"".to_owned(),
        "\"eve\" \"eve\"".to_owned(),
        more.to_owned(),
    ];
    std::fs::write(&file, lines.join("\n")).unwrap();
    file
}

impl Scene {
    /// Address and port.
    fn address(&self) -> &str {
        self.url.split_once("://").unwrap().1
    }

    fn paceline(&mut self) -> &mut Paceline {
        self.stage.paceline().unwrap()
    }
}
