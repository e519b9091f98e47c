//! A key: its name, its meaning, the form of its value, the field that holds it, and the tables that may override it.
//!
//! A theme declares its keys with [`section!`], one entry per key. The types, the defaults, the reader, `--set`, the environment,
//! the overrides per database and user, the schema, `docs/configuration.md` and `deploy/paceline.toml` follow from the entry.

use super::form::{Description, Form, HIDDEN, Syntax};
use crate::error::ConfigProblem;
use crate::value::{ValueError, Written};
use serde_json::Value;
use std::fmt;

/// A table that may override a key of `[paceline]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// `[databases.NAME]`
    Database,
    /// `[databases.NAME.users.USER]`
    UserOfDatabase,
    /// `[users.USER]`
    User,
}

/// Databases, users of one database, and users of all databases.
pub(crate) const ALL_TABLES: &[Table] = &[Table::Database, Table::UserOfDatabase, Table::User];
/// Databases, and users of one database.
pub(crate) const DATABASES_AND_THEIR_USERS: &[Table] = &[Table::Database, Table::UserOfDatabase];
/// Databases only.
pub(crate) const DATABASES_ONLY: &[Table] = &[Table::Database];
/// Users, of one database or of all.
pub(crate) const ALL_USERS: &[Table] = &[Table::UserOfDatabase, Table::User];
/// Users of all databases only.
pub(crate) const GLOBAL_USERS_ONLY: &[Table] = &[Table::User];

/// What a key of PgBouncer says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InPgBouncer {
    /// Its default there; empty if there is none.
    pub(crate) default: &'static str,
    pub(crate) syntax: Syntax,
}

/// One key of settings of type `S`.
pub struct Key<S> {
    /// Its name, in the file and for `--set`.
    pub name: &'static str,
    /// What it does, in one sentence without its full stop.
    pub meaning: &'static str,
    /// Whether a change takes effect at the next start only.
    pub needs_restart: bool,
    /// The tables that may override it.
    pub tables: &'static [Table],
    /// Its name in the tables that override it.
    pub override_name: &'static str,
    /// A second name that these tables accept.
    pub override_alias: Option<&'static str>,
    /// PgBouncer's key of the same name.
    pub(crate) in_pgbouncer: Option<InPgBouncer>,
    description: Description,
    apply: Box<Apply<S>>,
    copy: Box<CopyValue<S>>,
    differs: Box<Differs<S>>,
    plain: Box<Plain<S>>,
}

type Apply<S> = dyn Fn(&mut S, Written<'_>) -> Result<(), ValueError> + Send + Sync;
type CopyValue<S> = dyn Fn(&S, &mut S) + Send + Sync;
type Differs<S> = dyn Fn(&S, &S) -> bool + Send + Sync;
type Plain<S> = dyn Fn(&S) -> String + Send + Sync;

impl<S: 'static> Key<S> {
    /// A key of a field; `meaning` may have spaces around it.
    pub(crate) fn new<T: Clone + PartialEq + 'static>(
        name: &'static str,
        meaning: &'static str,
        form: Form<T>,
        get: fn(&S) -> &T,
        get_mut: fn(&mut S) -> &mut T,
    ) -> Self {
        let Form {
            description,
            read,
            plain,
        } = form;
        Self {
            name,
            meaning: meaning.trim(),
            needs_restart: false,
            tables: &[],
            override_name: name,
            override_alias: None,
            in_pgbouncer: None,
            description,
            apply: Box::new(move |settings, written| {
                *get_mut(settings) = read(written)?;
                Ok(())
            }),
            copy: Box::new(move |from, to| *get_mut(to) = get(from).clone()),
            differs: Box::new(move |one, other| get(one) != get(other)),
            plain: Box::new(move |settings| plain(get(settings))),
        }
    }

    /// The tables that may override the key.
    pub(crate) fn overridden(self, tables: &'static [Table]) -> Self {
        Self { tables, ..self }
    }

    /// Other names of the key in the tables that override it.
    pub(crate) fn overridden_as(self, name: &'static str, alias: &'static str) -> Self {
        Self {
            override_name: name,
            override_alias: Some(alias),
            ..self
        }
    }

    /// A change takes effect at the next start only.
    pub(crate) fn needs_restart(self) -> Self {
        Self {
            needs_restart: true,
            ..self
        }
    }

    /// PgBouncer has a key of this name, with this default (empty: none).
    pub(crate) fn pgbouncer(self, default: &'static str) -> Self {
        let syntax = self.description.in_pgbouncer;
        self.pgbouncer_as(syntax, default)
    }

    /// The same, in another syntax than that of the form.
    pub(crate) fn pgbouncer_as(self, syntax: Syntax, default: &'static str) -> Self {
        let in_pgbouncer = Some(InPgBouncer { default, syntax });
        Self {
            in_pgbouncer,
            ..self
        }
    }

    /// Checks `written` and stores it in `settings`; on an error nothing is changed.
    pub(crate) fn apply(
        &self,
        settings: &mut S,
        written: Written<'_>,
    ) -> Result<(), ConfigProblem> {
        self.apply_as(self.name, settings, written)
    }

    /// The same for a table that overrides the key: messages have the name of the key there.
    pub(crate) fn apply_there(
        &self,
        settings: &mut S,
        written: Written<'_>,
    ) -> Result<(), ConfigProblem> {
        self.apply_as(self.override_name, settings, written)
    }

    fn apply_as(
        &self,
        name: &str,
        settings: &mut S,
        written: Written<'_>,
    ) -> Result<(), ConfigProblem> {
        (self.apply)(settings, written).map_err(|error| ConfigProblem::value(name, error))
    }

    /// Copies its value.
    pub(crate) fn copy(&self, from: &S, to: &mut S) {
        (self.copy)(from, to);
    }

    /// Whether two settings have different values of the key.
    #[must_use]
    pub fn differs(&self, one: &S, other: &S) -> bool {
        (self.differs)(one, other)
    }

    /// `written` as the console and the log may show it: `***` if it is a password.
    #[must_use]
    pub fn shown<'a>(&self, written: &'a str) -> &'a str {
        match self.description.secret && !written.is_empty() {
            true => HIDDEN,
            false => written,
        }
    }

    /// The unit of a bare number, `–` if there is none.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        self.description.unit
    }

    /// The accepted values.
    #[must_use]
    pub fn limits(&self) -> &str {
        &self.description.limits
    }

    /// The unit and the accepted values.
    #[must_use]
    pub fn values(&self) -> String {
        match self.unit() {
            "–" => self.limits().to_owned(),
            unit => format!("{unit}, {}", self.limits()),
        }
    }

    /// The accepted values as a JSON schema.
    pub(crate) fn schema(&self) -> &Value {
        &self.description.schema
    }

    /// The value in `settings` as TOML.
    #[must_use]
    pub fn show(&self, settings: &S) -> String {
        let plain = self.plain(settings);
        match self.schema().get("type").and_then(Value::as_str) {
            Some("boolean" | "integer") => plain,
            _ => toml::Value::from(plain).to_string(),
        }
    }

    /// The value in `settings` as `--set` accepts it.
    #[must_use]
    pub fn plain(&self, settings: &S) -> String {
        (self.plain)(settings)
    }
}

impl<S> fmt::Debug for Key<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name)
    }
}

impl<S> PartialEq for Key<S> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Declares the keys of one theme: a type that holds their values, its defaults, and its `keys`.
///
/// ```text
/// section! {
///     /// What the theme is.
///     pub struct Theme {
///         /// What the key does, without a full stop: documentation, help and schema have it
///         name_of_the_key: Type = default, form, mark(…)…;
///     }
/// }
/// ```
///
/// If the name of the field is not that of the key, write `field as "name_of_the_key": Type = …`. The form is a function of
/// [`super::form`]; the marks are [`Key::overridden`], [`Key::overridden_as`], [`Key::needs_restart`], [`Key::pgbouncer`] and
/// [`Key::pgbouncer_as`].
macro_rules! section {
    (@name $field:ident) => {
        stringify!($field)
    };
    (@name $field:ident $name:literal) => {
        $name
    };
    (
        $(#[$about:meta])*
        pub struct $Section:ident {
            $(
                $(#[doc = $meaning:literal])+
                $field:ident $(as $name:literal)?: $type:ty = $default:expr, $form:expr $(, $mark:ident($($argument:expr),*))*;
            )+
        }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $Section {
            $( $(#[doc = $meaning])+ pub $field: $type, )+
        }

        impl Default for $Section {
            fn default() -> Self {
                Self { $( $field: $default, )+ }
            }
        }

        $crate::settings::key::keys! {
            $Section:
            $( $(#[doc = $meaning])+ $field as section!(@name $field $($name)?), $form $(, $mark($($argument),*))*; )+
        }
    };
}

/// Declares the `keys` of a type whose fields do not have the names of keys: `path.to.field as "name", form, mark(…)…;`.
macro_rules! keys {
    (
        $Section:ident:
        $(
            $(#[doc = $meaning:literal])+
            $($field:ident).+ as $name:expr, $form:expr $(, $mark:ident($($argument:expr),*))*;
        )+
    ) => {
        impl $Section {
            /// The keys of this section, in settings that have it.
            pub(crate) fn keys<S>() -> Vec<$crate::settings::key::Key<S>>
            where
                S: AsRef<Self> + AsMut<Self> + 'static,
            {
                vec![$(
                    $crate::settings::key::Key::<S>::new(
                        $name,
                        concat!($($meaning),+),
                        $form,
                        |settings| &AsRef::<Self>::as_ref(settings).$($field).+,
                        |settings| &mut AsMut::<Self>::as_mut(settings).$($field).+,
                    )
                    $(.$mark($($argument),*))*,
                )+]
            }
        }
    };
}

pub(crate) use {keys, section};
