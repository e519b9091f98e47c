//! Settings from the environment: `PACELINE_<KEY>` for every key of `[paceline]`. An empty variable counts as not set. An unknown
//! name that begins with `PACELINE_` is a remark, not an error, because orchestrators add variables of their own.

use super::error::{ConfigError, Problem};
use super::remark::Remark;
use super::settings::{Key, keys};
use super::suggest;
use super::value::Written;
use crate::config::Config;
use std::collections::BTreeMap;

/// The prefix of all names.
pub const PREFIX: &str = "PACELINE_";

/// Names that the command line reads, other than those of keys.
const OTHERS: [&str; 4] = [
    "PACELINE_CONFIG",
    "PACELINE_UPSTREAM",
    "PACELINE_DATA_DIR",
    "PACELINE_LOG",
];

/// The name of the variable for the key called `key`.
fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.to_ascii_uppercase())
}

impl Config {
    /// Sets the keys of `variables`, which have their full names. Returns a remark for each unknown name.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with every value that does not fit its key.
    pub fn apply_environment(
        &mut self,
        variables: &BTreeMap<String, String>,
    ) -> Result<Vec<Remark>, ConfigError> {
        let mut problems = Vec::new();
        let mut remarks = Vec::new();
        for (name, value) in variables {
            let Some(key) = key(name) else {
                remarks.extend(unknown(name));
                continue;
            };
            if let Err(wrong) = key.apply(&mut self.paceline, Written::Bare(value.trim())) {
                problems.push(Problem::at(name.clone(), wrong));
            }
        }
        if problems.is_empty() {
            return Ok(remarks);
        }
        Err(ConfigError::Invalid(problems))
    }
}

fn key(name: &str) -> Option<&'static Key> {
    keys().find(|key| variable(key.name) == name)
}

fn unknown(name: &str) -> Option<Remark> {
    let bare = name.strip_prefix(PREFIX)?;
    if OTHERS.contains(&name) {
        return None;
    }
    let nearest = suggest::nearest(bare, keys().map(|key| key.name));
    let text = match nearest {
        Some(key) => format!("there is no such setting; did you mean {}?", variable(key)),
        None => "there is no such setting".to_owned(),
    };
    Some(Remark::new(name, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(variables: &[(&str, &str)]) -> Result<(Config, Vec<String>), String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let variables = variables.iter().map(own).collect();
        let mut config = Config::default();
        let remarks = config.apply_environment(&variables);
        let remarks = remarks.map_err(|error| error.to_string())?;
        Ok((config, remarks.iter().map(Remark::to_string).collect()))
    }

    #[test]
    fn every_key_has_a_variable() {
        let defaults = Config::default();
        for key in keys() {
            let shown = key.show(&defaults.paceline);
            let applied = apply(&[(&variable(key.name), shown.trim_matches('"'))]);
            assert_eq!(applied, Ok((Config::default(), Vec::new())), "{}", key.name);
        }
        let (config, _) = apply(&[("PACELINE_DEFAULT_POOL_SIZE", " 7 ")]).unwrap();
        assert_eq!(config.paceline.pooling.default_pool_size, 7);
    }

    #[test]
    fn wrong_values_are_told_with_their_variable() {
        assert_eq!(
            apply(&[("PACELINE_HOTSPOT", "maybe"), ("PACELINE_WORKER_THREADS", "0")]),
            Err("PACELINE_HOTSPOT: hotspot: maybe is not a switch; write on or off\n\
                 PACELINE_WORKER_THREADS: worker_threads: 0 is outside its limits; write a value from 1 to 256"
                .to_owned())
        );
    }

    #[test]
    fn what_means_nothing_is_remarked() {
        let (config, remarks) = apply(&[
            ("HOTSPOT", "off"),
            ("PACELINE_DEFUALT_POOL_SIZE", "7"),
            ("PACELINE_LOG", "debug"),
            ("PACELINE_SERVICE_HOST", "10.0.0.1"),
            ("PACELINE_hotspot", "off"),
        ])
        .unwrap();
        assert_eq!(config, Config::default());
        assert_eq!(
            remarks,
            [
                "PACELINE_DEFUALT_POOL_SIZE: there is no such setting; did you mean PACELINE_DEFAULT_POOL_SIZE?",
                "PACELINE_SERVICE_HOST: there is no such setting",
                "PACELINE_hotspot: there is no such setting; did you mean PACELINE_HOTSPOT?",
            ]
        );
    }
}
