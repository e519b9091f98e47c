//! Where the configuration of `serve` comes from: arguments, environment, and the file that they name. A reload
//! reads it again.

use paceline_config::{Config, ConfigError, Format, Remark};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// What makes up the configuration of `serve`, as it was given.
#[derive(Default)]
pub struct Source {
    /// `--upstream`.
    pub upstream: Option<String>,
    /// `--config`.
    pub file: Option<PathBuf>,
    /// How that file is written.
    pub format: Format,
    /// Variables that begin with `PACELINE_`.
    pub environment: BTreeMap<String, String>,
    /// `--set`, in order.
    pub set: Vec<String>,
    /// `--listen`.
    pub listen: Option<String>,
}

/// The rest may hold passwords.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Source");
        shown.field("file", &self.file).finish_non_exhaustive()
    }
}

/// Where the databases are said to be.
enum Place<'a> {
    /// An option or variable, and the URL that it gives.
    Url(&'static str, &'a str),
    File(&'a Path),
    /// Nowhere.
    Defaults,
}

impl Source {
    /// The configuration as it is written now, and what an operator should know of it.
    ///
    /// # Errors
    /// [`ConfigError`] with everything that is wrong with it.
    pub fn read_with_remarks(&self) -> Result<(Config, Vec<Remark>), ConfigError> {
        let (mut config, mut remarks) = match self.place()? {
            Place::Url(source, url) => {
                let remark = Config::remark_of_upstream(source, url);
                (Config::passing_on(source, url)?, Vec::from_iter(remark))
            }
            Place::File(file) => Config::load_with_remarks(file, self.format)?,
            Place::Defaults => Default::default(),
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

    /// What names the databases, for messages.
    pub fn name(&self) -> String {
        match self.place() {
            Ok(Place::Url(source, _)) => source.to_owned(),
            Ok(Place::File(file)) => file.display().to_string(),
            Ok(Place::Defaults) | Err(_) => "the configuration".to_owned(),
        }
    }

    /// What the arguments say goes before what the environment says.
    fn place(&self) -> Result<Place<'_>, ConfigError> {
        let said = |name: &str| self.environment.get(name).map(String::as_str);
        match (&self.upstream, &self.file) {
            (Some(url), _) => return Ok(Place::Url("--upstream", url)),
            (None, Some(file)) => return Ok(Place::File(file)),
            (None, None) => {}
        }
        match (said("PACELINE_UPSTREAM"), said("PACELINE_CONFIG")) {
            (Some(_), Some(_)) => Err(ConfigError::TwoSources),
            (Some(url), None) => Ok(Place::Url("PACELINE_UPSTREAM", url)),
            (None, Some(file)) => Ok(Place::File(Path::new(file))),
            (None, None) => Ok(Place::Defaults),
        }
    }
}
