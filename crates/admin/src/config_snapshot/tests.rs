//! A configuration is applied as a whole or not at all.

use super::*;
use crate::admin::Admin;
use crate::config_source::ConfigSource;
use paceline_net::Acceptor;
use paceline_proxy::proxy::Proxy;
use std::path::Path;
use tempfile::TempDir;

/// A proxy, and a folder for its files.
struct Scene {
    folder: TempDir,
    admin: Arc<Admin>,
    proxy: Arc<Proxy>,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certified = rcgen::generate_simple_self_signed(["here".to_owned()]).unwrap();
        std::fs::write(folder.path().join("cert"), certified.cert.pem()).unwrap();
        let key = certified.signing_key.serialize_pem();
        std::fs::write(folder.path().join("key"), key).unwrap();
        let config = Config::for_upstream("postgres://db").unwrap();
        let proxy = Arc::new(Proxy::new(config));
        let admin = Admin::new(Arc::clone(&proxy), ConfigSource::default());
        let scene = Self {
            folder,
            admin,
            proxy,
        };
        scene.write_user("one");
        scene
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn write_user(&self, name: &str) {
        std::fs::write(self.path("users"), format!("\"{name}\" \"p\"")).unwrap();
    }

    async fn set(&self, key: &str, value: &str) -> Result<Option<String>, String> {
        let done = self.admin.set(&format!("{key}={value}")).await;
        done.map_err(|error| error.to_string())
    }

    fn knows(&self, user: &str) -> bool {
        self.proxy.auth.files().has_user(user)
    }
}

#[tokio::test]
async fn an_invalid_certificate_leaves_the_users_unchanged() {
    let scene = Scene::new();
    scene.set("auth_file", &scene.path("users")).await.unwrap();
    let mut config = Config::clone(&scene.proxy.config());
    config.set("client_tls_sslmode=require").unwrap();
    scene.write_user("two");
    let before = Arc::clone(&scene.proxy.config());
    let read = scene
        .admin
        .read_and_apply(move || ConfigSnapshot::read(Arc::new(config)));
    let error = read.await.unwrap_err().to_string();
    assert!(error.contains("needs client_tls_cert_file"), "{error}");
    assert!(scene.knows("one") && !scene.knows("two"));
    assert!(Arc::ptr_eq(&before, &scene.proxy.config()));
}

#[tokio::test]
async fn tls_keys_can_be_set_in_any_order() {
    let scene = Scene::new();
    let required = |scene: &Scene| {
        let acceptor = scene.proxy.shared.keyring.acceptor();
        acceptor.is_some_and(|acceptor: Arc<Acceptor>| acceptor.is_required())
    };
    // Incomplete TLS settings are not applied.
    let (cert, key) = (scene.path("cert"), scene.path("key"));
    let steps = [
        ("client_tls_sslmode", "verify-full", "client_tls_cert_file"),
        ("client_tls_key_file", &key, "client_tls_cert_file"),
        ("client_tls_cert_file", &cert, "client_tls_ca_file"),
    ];
    for (name, value, missing) in steps {
        let notice = scene.set(name, value).await.unwrap().unwrap();
        assert!(notice.starts_with("TLS stays as it was: "), "{notice}");
        assert!(notice.contains(missing), "{notice}");
        scene.set("max_client_conn", "7").await.unwrap();
        assert!(!required(&scene));
    }
    let last = scene.set("client_tls_ca_file", &cert).await;
    assert_eq!(last, Ok(None));
    assert!(required(&scene));
    let before = Arc::clone(&scene.proxy.config());
    let typo = scene.set("client_tls_cert_file", &scene.path("typo")).await;
    assert!(typo.unwrap_err().contains("cannot read"));
    assert!(Arc::ptr_eq(&before, &scene.proxy.config()));
}

/// An operator sets the new names one after the other.
#[tokio::test]
async fn a_certificate_and_its_key_are_replaced_together() {
    let scene = Scene::new();
    for (key, file) in [
        ("client_tls_cert_file", "cert"),
        ("client_tls_key_file", "key"),
    ] {
        scene.set(key, &scene.path(file)).await.unwrap();
    }
    let sslmode = scene.set("client_tls_sslmode", "allow").await;
    assert_eq!(sslmode, Ok(None));
    let binding = || {
        scene
            .proxy
            .shared
            .keyring
            .acceptor()
            .unwrap()
            .channel_binding()
    };
    let before = binding();
    let next = rcgen::generate_simple_self_signed(["here".to_owned()]).unwrap();
    std::fs::write(scene.path("cert2"), next.cert.pem()).unwrap();
    std::fs::write(scene.path("key2"), next.signing_key.serialize_pem()).unwrap();
    let first = scene.set("client_tls_key_file", &scene.path("key2")).await;
    assert!(first.unwrap().unwrap().contains("KeyMismatch"));
    assert_eq!(binding(), before);
    let second = scene
        .set("client_tls_cert_file", &scene.path("cert2"))
        .await;
    assert_eq!(second, Ok(None));
    assert_ne!(binding(), before);
}

#[tokio::test]
async fn auth_file_must_exist() {
    let scene = Scene::new();
    let users = scene.path("users");
    scene.set("auth_file", &users).await.unwrap();
    assert!(scene.knows("one"));
    let error = scene.set("auth_file", &scene.path("typo")).await;
    assert!(error.unwrap_err().contains("cannot read auth_file"));
    let set = scene.proxy.config().paceline.login.auth_file.clone();
    assert_eq!(set.as_deref(), Some(Path::new(&users)));
    assert!(scene.knows("one"));
}

/// The files may have become unreadable in the meantime.
#[tokio::test]
async fn setting_another_key_reads_no_file() {
    let scene = Scene::new();
    scene.set("auth_file", &scene.path("users")).await.unwrap();
    std::fs::remove_file(scene.path("users")).unwrap();
    scene.set("max_client_conn", "7").await.unwrap();
    assert!(scene.knows("one"));
    assert_eq!(scene.proxy.config().paceline.pooling.max_client_conn, 7);
}

/// PostgreSQL also rejects such a rule when it reads the file.
#[tokio::test]
async fn the_method_cert_needs_tls_with_authorities() {
    let scene = Scene::new();
    std::fs::write(scene.path("hba"), "hostssl all all all cert").unwrap();
    let read = |settings: &[(&str, String)]| {
        let mut config = Config::clone(&scene.proxy.config());
        for (key, value) in settings {
            config.set(&format!("{key}={value}")).unwrap();
        }
        let read = ConfigSnapshot::read(Arc::new(config));
        read.map(drop).map_err(|error| error.to_string())
    };
    let tls = [
        ("client_tls_sslmode", "require".to_owned()),
        ("client_tls_key_file", scene.path("key")),
        ("client_tls_cert_file", scene.path("cert")),
    ];
    let ca = [("client_tls_ca_file", scene.path("cert"))];
    let by_rule = [
        ("auth_type", "hba".to_owned()),
        ("auth_hba_file", scene.path("hba")),
    ];
    let by_type = [("auth_type", "cert".to_owned())];
    for asked in [&by_rule[..], &by_type] {
        for without in [
            asked.to_vec(),
            [asked, &tls].concat(),
            [asked, &ca].concat(),
        ] {
            let error = read(&without).unwrap_err();
            assert!(error.contains("needs client_tls_sslmode"), "{error}");
        }
        assert_eq!(read(&[asked, &tls, &ca].concat()), Ok(()));
    }
}
