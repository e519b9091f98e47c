//! Imports of files, and passwords in files.

use super::*;
use crate::tests::with_passwords_read;
use crate::{Config, PasswordSource};
use std::os::unix::fs::PermissionsExt;

const INI: &str = "[pgbouncer]\nauth_type = trust\nlisten_addr = 127.0.0.1\n[databases]\n\
                   a = host=h user=u password='s3''cret'\n\"b/../c\" = host=h password=other\nc = host=h\n";

/// A folder with this text in `p.ini`.
fn folder(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.ini"), text).unwrap();
    folder
}

/// The remarks about passwords.
fn of_passwords(imported: &Imported) -> Vec<String> {
    let remarks = imported.remarks.iter().map(Remark::to_string);
    remarks
        .filter(|remark| remark.contains("password"))
        .collect()
}

#[test]
fn passwords_are_written_to_files_that_no_other_user_can_read() {
    let folder = folder(INI);
    let ini = folder.path().join("p.ini");
    let secrets = folder.path().join("new/secrets");
    let imported = import(&ini, Some(&secrets)).unwrap();
    assert_eq!(of_passwords(&imported), [""; 0]);
    for (name, content) in [
        ("1-a.password", "s3'cret\n"),
        ("2-b____c.password", "other\n"),
    ] {
        let file = secrets.join(name);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), content);
        assert_eq!(
            std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(
            imported
                .toml
                .contains(&format!("password_file = \"{}\"", file.display()))
        );
    }
    let toml = folder.path().join("p.toml");
    std::fs::write(&toml, &imported.toml).unwrap();
    let config = with_passwords_read(Config::load(&toml).unwrap());
    assert_eq!(config, Config::load(&ini).unwrap());
    // Nothing is overwritten.
    let again = import(&ini, Some(&secrets)).unwrap_err().to_string();
    assert!(again.contains("1-a.password: "), "{again}");
}

#[test]
fn without_a_folder_passwords_are_left_out() {
    let folder = folder(INI);
    let imported = import(&folder.path().join("p.ini"), None).unwrap();
    assert!(!imported.toml.contains("s3'cret") && !imported.toml.contains("other"));
    let remarks = of_passwords(&imported);
    assert_eq!(remarks.len(), 2);
    assert!(remarks[0].starts_with("database a: its password is not shown"));
    Config::from_toml(&imported.toml, "p.toml").unwrap();
}

#[test]
fn only_a_pgbouncer_ini_is_imported() {
    let folder = folder("[pgbouncer]\ncolour = 1");
    let ini = folder.path().join("p.ini");
    assert!(
        import(&ini, None)
            .unwrap_err()
            .to_string()
            .contains("unknown key \"colour\"")
    );
    let toml = folder.path().join("p.toml");
    std::fs::write(&toml, "[paceline]").unwrap();
    assert!(
        import(&toml, None)
            .unwrap_err()
            .to_string()
            .ends_with("is not a pgbouncer.ini; paceline reads it as it is")
    );
}

#[test]
fn a_password_may_be_in_a_file() {
    let folder = folder("s3cret\n");
    let file = folder.path().join("p.ini");
    let chmod =
        |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    let source = PasswordSource::File(file.clone());
    let file = file.display();
    let beside = format!("[databases.x]\nprimary = \"postgres://u@h\"\npassword_file = \"{file}\"");
    let within = format!("[databases.x]\nprimary = \"postgres://u@h?password_file={file}\"");
    let read = |text: &str| {
        super::super::file::read(text, &|line| format!("p:{line}"))
            .map_err(|error| error.to_string())
    };
    for text in [&beside, &within] {
        chmod(0o600);
        let (config, remarks) = read(text).unwrap();
        assert_eq!(
            config.databases["x"].primary.password.as_ref(),
            Some(&source)
        );
        assert_eq!(remarks, []);
        chmod(0o604);
        let (_, remarks) = read(text).unwrap();
        assert!(
            remarks[0]
                .to_string()
                .contains("every user of this machine can read")
        );
    }
    let both = beside.replace("u@h", "u:p@h");
    assert_eq!(
        read(&both).unwrap_err(),
        "p:3: password_file: the URL has a password, too; keep one of the two"
    );
    let both = within.replace("u@h", "u:p@h");
    assert_eq!(
        read(&both).unwrap_err(),
        "p:2: the URL has a password and a password_file; keep one of the two"
    );
    let missing = beside.replace("p.ini", "nothing");
    assert!(
        read(&missing)
            .unwrap_err()
            .starts_with("p:3: password_file: cannot read ")
    );
    let missing = within.replace("p.ini", "nothing");
    assert!(
        read(&missing)
            .unwrap_err()
            .starts_with("p:2: password_file of the URL: cannot read ")
    );
}

#[test]
fn a_password_may_come_from_a_command() {
    let read = |keys: &str| {
        let text = format!("[databases.x]\nprimary = \"postgres://u@h\"\n{keys}");
        let read = super::super::file::read(&text, &|line| format!("p:{line}"));
        let password = read.map(|(config, _)| config.databases["x"].primary.password.clone());
        password.map_err(|error| error.to_string())
    };
    let command = "password_command = [\"/bin/echo\", \"-n\", \"s3cret\"]";
    let source = read(command).unwrap().unwrap();
    assert_eq!(format!("{source:?}"), "Command(/bin/echo)");
    let other = command.replace("-n", "-e");
    assert_ne!(read(&other).unwrap(), Some(source));
    for (keys, message) in [
        (
            "password_command = [\"echo\", \"s3cret\"]",
            "p:3: password_command: \"echo\" is not an absolute path; write one that starts with /",
        ),
        (
            "password_command = [\"/etc/passwd\", \"s3cret\"]",
            "p:3: password_command: /etc/passwd is not a program that can be executed",
        ),
        (
            "password_command = \"/bin/echo s3cret\"",
            "p:3: password_command: this is not a list of a program and its arguments; write [\"/PROGRAM\", \"ARGUMENT\"]",
        ),
        (
            "password_command = [\"/bin/echo\", 3]",
            "p:3: password_command: this is not a list of a program and its arguments; write [\"/PROGRAM\", \"ARGUMENT\"]",
        ),
    ] {
        assert_eq!(read(keys).unwrap_err(), message);
    }
    let both = format!("{command}\npassword_file = \"/etc/passwd\"");
    let error = read(&both).unwrap_err();
    let message = "p:4: there are password_file and password_command; keep one of the two";
    assert!(error.starts_with(message), "{error}");
}
