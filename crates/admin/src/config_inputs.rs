//! The inputs of the configuration of `serve`: arguments, environment variables, and the file that they name.

use paceline_config::{Config, ConfigError, Format, Remark};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Arguments and environment variables. A reload reads the configuration from them again.
#[derive(Default)]
pub struct ConfigInputs {
    /// `--upstream`.
    pub upstream: Option<String>,
    /// `--config`.
    pub file: Option<PathBuf>,
    /// The format of that file.
    pub format: Format,
    /// Environment variables that begin with `PACELINE_`.
    pub environment: BTreeMap<String, String>,
    /// `--set`, in order.
    pub set: Vec<String>,
    /// `--listen`.
    pub listen: Option<String>,
}

/// Shows only the file: the other fields may contain passwords.
impl fmt::Debug for ConfigInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ConfigInputs");
        shown.field("file", &self.file).finish_non_exhaustive()
    }
}

/// The input that names the databases.
enum DatabaseInput<'a> {
    /// The name of an option or variable, and its URL.
    Url(&'static str, &'a str),
    File(&'a Path),
    /// No input names a database.
    None,
}

impl ConfigInputs {
    /// Reads the configuration, with remarks for the operator.
    ///
    /// # Errors
    /// [`ConfigError`] with all problems.
    pub fn read_with_remarks(&self) -> Result<(Config, Vec<Remark>), ConfigError> {
        let (mut config, mut remarks) = match self.database_input()? {
            DatabaseInput::Url(name, url) => {
                let remark = Config::remark_of_upstream(name, url);
                (Config::passing_on(name, url)?, Vec::from_iter(remark))
            }
            DatabaseInput::File(file) => Config::load_with_remarks(file, self.format)?,
            DatabaseInput::None => Default::default(),
        };
        remarks.extend(config.apply_environment(&self.environment)?);
        for assignment in &self.set {
            config.set(assignment)?;
        }
        if let Some(address) = &self.listen {
            config.set(&format!("listen={address}"))?;
        }
        config.check_access(&self.name())?;
        remarks.retain(|remark| remark.holds(&config));
        remarks.extend(config.remarks());
        Ok((config, remarks))
    }

    /// The name of the input that names the databases, for messages.
    pub fn name(&self) -> String {
        match self.database_input() {
            Ok(DatabaseInput::Url(name, _)) => name.to_owned(),
            Ok(DatabaseInput::File(file)) => file.display().to_string(),
            Ok(DatabaseInput::None) | Err(_) => "the configuration".to_owned(),
        }
    }

    /// Arguments have precedence over environment variables.
    fn database_input(&self) -> Result<DatabaseInput<'_>, ConfigError> {
        let variable = |name: &str| self.environment.get(name).map(String::as_str);
        match (&self.upstream, &self.file) {
            (Some(url), _) => return Ok(DatabaseInput::Url("--upstream", url)),
            (None, Some(file)) => return Ok(DatabaseInput::File(file)),
            (None, None) => {}
        }
        match (variable("PACELINE_UPSTREAM"), variable("PACELINE_CONFIG")) {
            (Some(_), Some(_)) => Err(ConfigError::TwoSources),
            (Some(url), None) => Ok(DatabaseInput::Url("PACELINE_UPSTREAM", url)),
            (None, Some(file)) => Ok(DatabaseInput::File(Path::new(file))),
            (None, None) => Ok(DatabaseInput::None),
        }
    }
}
