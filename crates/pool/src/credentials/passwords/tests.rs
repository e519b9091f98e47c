//! Files that change, and commands by the number of their runs.

use super::*;
use std::path::PathBuf;

const LIMIT: Duration = Duration::from_secs(30);

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A command that notes each run, and then does what `script` says in this folder.
    fn command(&self, script: &str) -> PasswordSource {
        let folder = self.0.path().display();
        let script = format!("cd '{folder}'; echo run >> runs; {script}");
        let words = ["/bin/sh", "-c", &script].map(str::to_owned);
        PasswordSource::Command(PasswordCommand::checked(&words).unwrap())
    }

    fn runs(&self) -> usize {
        let runs = std::fs::read_to_string(self.path("runs"));
        runs.map_or(0, |runs| runs.lines().count())
    }
}

#[tokio::test]
async fn a_file_is_read_each_time() {
    let (folder, passwords) = (Folder::new(), Passwords::default());
    let path = folder.path("password");
    let source = PasswordSource::File(path.clone());
    for password in ["one", "two"] {
        std::fs::write(&path, format!("{password}\n")).unwrap();
        let read = passwords.read(&source, None, LIMIT).await;
        assert_eq!(read, Ok(secret(password)));
    }
    std::fs::remove_file(&path).unwrap();
    let error = passwords.read(&source, None, LIMIT).await.unwrap_err();
    let message = format!("password_file: cannot read {}", path.display());
    assert!(error.to_string().starts_with(&message), "{error}");
}

#[tokio::test]
async fn an_output_is_kept_until_it_is_refused() {
    let (folder, passwords) = (Folder::new(), Passwords::default());
    let source = folder.command("wc -l < runs");
    let read = |refused| passwords.read(&source, refused, LIMIT);
    let (one, two) = (secret("1"), secret("2"));
    for refused in [None, None, Some(&two)] {
        assert_eq!(read(refused).await, Ok(one.clone()));
    }
    assert_eq!(read(Some(&one)).await, Ok(two.clone()));
    assert_eq!(read(Some(&one)).await, Ok(two.clone()), "refused before");
    assert_eq!(read(None).await, Ok(two.clone()));
    assert_eq!(folder.runs(), 2);
    passwords.reset(LIMIT);
    assert_eq!(read(None).await, Ok(secret("3")));
}

#[tokio::test]
async fn logins_share_a_run() {
    let (folder, passwords) = (Folder::new(), Passwords::default());
    let source = folder.command("until [ -e go ]; do sleep 0.01; done; echo p");
    let read = || passwords.read(&source, None, LIMIT);
    let go = async {
        tokio::task::yield_now().await;
        std::fs::write(folder.path("go"), "").unwrap();
    };
    let (one, two, ()) = tokio::join!(read(), read(), go);
    assert_eq!((one, two), (Ok(secret("p")), Ok(secret("p"))));
    assert_eq!(folder.runs(), 1);
}

#[tokio::test]
async fn errors_are_not_kept_and_contain_no_output() {
    let (folder, passwords) = (Folder::new(), Passwords::default());
    let long = "head -c 65537 /dev/zero | tr '\\0' x";
    for (script, message) in [
        ("echo s3cret; exit 3", "/bin/sh has failed, exit status: 3"),
        ("echo s3cret; kill -9 $$", "/bin/sh has failed, signal: 9"),
        ("echo s3cret; echo s3cret", "/bin/sh wrote no password"),
        ("printf '\\377s3cret'", "/bin/sh wrote no password"),
        ("true", "/bin/sh wrote no password"),
        (long, "/bin/sh wrote no password"),
    ] {
        let (before, source) = (folder.runs(), folder.command(script));
        for _ in 0..2 {
            let error = passwords.read(&source, None, LIMIT).await.unwrap_err();
            let error = error.to_string();
            let message = format!("password_command: {message}");
            assert!(error.starts_with(&message), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        assert_eq!(folder.runs(), before + 2, "{script}");
    }
}

/// A login that waits no more does not end the run: the next one gets its output.
#[tokio::test]
async fn a_run_continues_without_its_login() {
    let (folder, passwords) = (Folder::new(), Passwords::default());
    let source = folder.command("until [ -e go ]; do sleep 0.01; done; echo p");
    let short = Duration::from_millis(1);
    let late = passwords.read(&source, None, short).await.unwrap_err();
    let message = "password_command: /bin/sh has not ended within 1ms (server_connect_timeout)";
    assert_eq!(late.to_string(), message);
    std::fs::write(folder.path("go"), "").unwrap();
    assert_eq!(passwords.read(&source, None, LIMIT).await, Ok(secret("p")));
    assert_eq!(folder.runs(), 1);
}
