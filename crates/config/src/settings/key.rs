//! A key: its name, its meaning, the form of its value, the field that holds it, and the tables that may override it.
//!
//! A theme declares its keys with [`section!`], one entry per key. The types, the defaults, the reader, `--set`, the environment,
//! the overrides per database and user, the schema, `docs/configuration.md` and `deploy/paceline.toml` follow from the entry.

use super::form::{Described, Form};
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
pub(crate) const EVERYWHERE: &[Table] = &[Table::Database, Table::UserOfDatabase, Table::User];
/// Databases, and users of one database.
pub(crate) const OF_A_DATABASE: &[Table] = &[Table::Database, Table::UserOfDatabase];
/// Databases only.
pub(crate) const DATABASES: &[Table] = &[Table::Database];
/// Users, of one database or of all.
pub(crate) const USERS: &[Table] = &[Table::UserOfDatabase, Table::User];
/// Users of all databases only.
pub(crate) const USERS_OF_ALL: &[Table] = &[Table::User];

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
    /// Its name in those tables.
    pub name_there: &'static str,
    /// Another name for it in those tables.
    pub alias_there: Option<&'static str>,
    field: Box<dyn Field<S>>,
}

/// A field of settings of type `S`, whatever its own type.
trait Field<S>: Send + Sync {
    fn apply(&self, settings: &mut S, written: Written<'_>) -> Result<(), ValueError>;
    fn copy(&self, from: &S, to: &mut S);
    fn plain(&self, settings: &S) -> String;
    fn described(&self) -> &dyn Described;
}

/// A field of type `T`, the form of its values, and where it is.
struct FieldOf<S, T, F> {
    form: F,
    get: fn(&S) -> &T,
    get_mut: fn(&mut S) -> &mut T,
}

impl<S, T: Clone, F: Form<T>> Field<S> for FieldOf<S, T, F> {
    fn apply(&self, settings: &mut S, written: Written<'_>) -> Result<(), ValueError> {
        *(self.get_mut)(settings) = self.form.read(written)?;
        Ok(())
    }

    fn copy(&self, from: &S, to: &mut S) {
        *(self.get_mut)(to) = (self.get)(from).clone();
    }

    fn plain(&self, settings: &S) -> String {
        self.form.plain((self.get)(settings))
    }

    fn described(&self) -> &dyn Described {
        &self.form
    }
}

impl<S: 'static> Key<S> {
    /// A key of a field; `meaning` may have spaces around it.
    pub(crate) fn new<T: Clone + 'static>(
        name: &'static str,
        meaning: &'static str,
        form: impl Form<T>,
        get: fn(&S) -> &T,
        get_mut: fn(&mut S) -> &mut T,
    ) -> Self {
        Self {
            name,
            meaning: meaning.trim(),
            needs_restart: false,
            tables: &[],
            name_there: name,
            alias_there: None,
            field: Box::new(FieldOf { form, get, get_mut }),
        }
    }

    /// The same, and these tables may override it.
    pub(crate) fn overridden(self, tables: &'static [Table]) -> Self {
        Self { tables, ..self }
    }

    /// The same, with other names in the tables that override it.
    pub(crate) fn named_there(self, name: &'static str, alias: &'static str) -> Self {
        Self {
            name_there: name,
            alias_there: Some(alias),
            ..self
        }
    }

    /// The same, but a change takes effect at the next start only.
    pub(crate) fn needs_restart(self) -> Self {
        Self {
            needs_restart: true,
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
        self.apply_as(self.name_there, settings, written)
    }

    fn apply_as(
        &self,
        name: &str,
        settings: &mut S,
        written: Written<'_>,
    ) -> Result<(), ConfigProblem> {
        let applied = self.field.apply(settings, written);
        applied.map_err(|error| ConfigProblem::Value {
            key: name.to_owned(),
            error,
        })
    }

    /// Copies its value.
    pub(crate) fn copy(&self, from: &S, to: &mut S) {
        self.field.copy(from, to);
    }

    /// The unit of a bare number, `–` if there is none.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        self.field.described().unit()
    }

    /// The values that are accepted.
    #[must_use]
    pub fn limits(&self) -> String {
        self.field.described().limits()
    }

    /// The unit and the values that are accepted.
    #[must_use]
    pub fn values(&self) -> String {
        match self.unit() {
            "–" => self.limits(),
            unit => format!("{unit}, {}", self.limits()),
        }
    }

    /// The values that are accepted, as a JSON schema.
    pub(crate) fn schema(&self) -> Value {
        self.field.described().schema()
    }

    /// The value in `settings` as TOML.
    #[must_use]
    pub fn show(&self, settings: &S) -> String {
        let plain = self.plain(settings);
        match self.field.described().is_bare() {
            true => plain,
            false => toml::Value::from(plain).to_string(),
        }
    }

    /// The value in `settings` as `--set` takes it.
    #[must_use]
    pub fn plain(&self, settings: &S) -> String {
        self.field.plain(settings)
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
/// A field whose name is not that of the key is `field as "name_of_the_key": Type = …`. The form is one of [`super::form`]; the marks are the methods [`Key::overridden`], [`Key::named_there`] and [`Key::needs_restart`].
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

        impl $Section {
            /// The keys of this section, in settings that have it.
            pub(crate) fn keys<S>() -> Vec<$crate::settings::key::Key<S>>
            where
                S: AsRef<Self> + AsMut<Self> + 'static,
            {
                vec![$(
                    $crate::settings::key::Key::<S>::new::<$type>(
                        section!(@name $field $($name)?),
                        concat!($($meaning),+),
                        $form,
                        |settings| &AsRef::<Self>::as_ref(settings).$field,
                        |settings| &mut AsMut::<Self>::as_mut(settings).$field,
                    )
                    $(.$mark($($argument),*))*,
                )+]
            }
        }
    };
}

pub(crate) use section;
